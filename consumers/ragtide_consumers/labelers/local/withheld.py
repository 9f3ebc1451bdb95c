"""The metrics that the local labeler never publishes, in a file of its own: a check of rules loads no labeler."""

from typing import Final

WITHHELD: Final = frozenset({"trace.completeness", "trace.average", "trace.rmse_aggregation"})
"""Completeness is not accurate enough, and the other two are computed from it."""
