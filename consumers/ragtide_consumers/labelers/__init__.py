"""Labelers: their protocol, the labelers of ragtide, plugins of users, and the registry that builds them by name."""
