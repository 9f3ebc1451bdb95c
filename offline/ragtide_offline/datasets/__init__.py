"""Data sets: their versions, and how they differ from the traffic."""
