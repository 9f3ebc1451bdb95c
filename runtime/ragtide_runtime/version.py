"""The version of ragtide."""

__version__ = "0.1.0"
