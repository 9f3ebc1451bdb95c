"""The evidence of an alert rule over time."""

from datetime import datetime
from typing import NamedTuple


class EvidencePoint(NamedTuple):
    """The evidence of a rule at a time."""

    at: datetime
    """Time of the last interaction before."""
    once_in: float | None
    """Without a change the evidence comes this far at most once in so many values, on average. None while the rule
    learns its baseline, and while its alert fires."""
    run_length: float | None
    """The same at the line at which the rule fires."""
