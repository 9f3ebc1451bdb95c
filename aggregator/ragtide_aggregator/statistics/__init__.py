"""The statistics: numbers in, numbers out. No clock, no I/O, no Redis, no models of the wire."""
