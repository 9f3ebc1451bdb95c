"""The metrics that the local labeler never publishes. The file is apart so that a check of rules loads no labeler."""

from typing import Final

WITHHELD: Final = frozenset({"trace.completeness", "trace.average", "trace.rmse_aggregation"})
"""Completeness is not accurate enough, and the other two are computed from it."""
