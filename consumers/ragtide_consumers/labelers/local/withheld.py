"""The metrics that the local labeler never publishes. They are here so that a check of rules need not load it."""

from typing import Final

WITHHELD: Final = frozenset({"trace.completeness", "trace.average", "trace.rmse_aggregation"})
"""Completeness is not accurate enough, and the others need it."""
