"""The base of all components: settings, Redis, ownership of partitions, recordings, telemetry and errors."""

__version__ = "0.1.0"
