"""The embedded Redis server: its binary, its data directory, and the keeper process that starts and stops it."""
