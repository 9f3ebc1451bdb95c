"""Executing experiments: configs answer items, answers are published, and nothing is executed twice."""

from .answers import Answer
from .targets import Target, target_of

__all__ = ["Answer", "Target", "target_of"]
