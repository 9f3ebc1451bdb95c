"""The statistics core: numbers in, numbers out. No clock, no I/O, nothing of Redis, streams or schemas."""
