"""Labelers: the protocol, the registry, the labelers of ragtide, and plugins of users."""
