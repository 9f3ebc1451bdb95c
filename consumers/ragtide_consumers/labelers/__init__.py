"""Labelers: the protocol, the registry, those that come with ragtide, and metrics of the user's own."""
