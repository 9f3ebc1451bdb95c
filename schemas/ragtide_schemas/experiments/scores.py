"""Scores that an experiment measures itself travel with its interactions."""

from typing import Final

OWN_SCORES: Final = "ragtide_scores"
"""Name in an interaction's metadata under which an experiment's own scores are kept, by qualified metric name."""
