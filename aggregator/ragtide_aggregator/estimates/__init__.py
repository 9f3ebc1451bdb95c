"""Computes estimates with intervals from a state. No clock, no I/O."""
