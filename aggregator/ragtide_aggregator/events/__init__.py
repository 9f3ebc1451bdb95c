"""Metric events as batches of values, each with the key of the estimate that it counts in. No clock, no I/O."""
