"""Measurements of `make light`: what a user waits for, at two commits in turn."""
