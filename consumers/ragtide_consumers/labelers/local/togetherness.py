"""How the sentences of one response depend on each other, in a file of its own: a formula loads no labeler."""

from typing import Final

TOGETHERNESS: Final = 0.72
"""Dependence of the sentences of one response: 0 for independent sentences, 1 if all are supported or none is."""
