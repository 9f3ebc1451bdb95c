"""Estimates with intervals, read off a state. No clock, no I/O."""
