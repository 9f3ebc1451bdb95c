"""Aggregating a recording: the same state as live, into a run's own keys."""
