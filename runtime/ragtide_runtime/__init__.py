"""The base of all components: settings, Redis, ownership of partitions, recordings, telemetry and errors."""
