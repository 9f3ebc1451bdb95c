"""Replays of recordings: metric events into a state of their own, or interactions labeled anew."""
