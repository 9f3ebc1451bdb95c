"""The one shared edge below the components: settings, the Redis connection and embedded server, errors, logging."""
