"""The embedded Redis server: its binary, its data directory, and the keeper process that starts and stops it."""

CLOSE_TIMEOUT_S = 10.0
"""Seconds that closing waits for the end of the server; the keeper continues to stop it afterwards."""
