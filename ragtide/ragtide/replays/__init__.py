"""Replays of recordings as the command line runs them."""
