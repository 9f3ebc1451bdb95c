"""Access to Redis: addresses, clients, scripts, streams, the embedded server, and the names of all keys."""
