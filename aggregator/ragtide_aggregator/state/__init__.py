"""The state of a partition: everything that metric events and feedback add up to. No clock, no I/O."""
