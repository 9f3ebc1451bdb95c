"""Redis: addresses, clients, scripts, streams, and the keys that all components share."""
