"""What a quiet detector knows about the level of a metric: whether and when it moved. Nobody is notified of it."""

from typing import Literal

from .base import Count, Name, UtcTime, WireModel
from .metrics import MetricName


class Move(WireModel):
    """A change of a metric's level that a quiet detector found."""

    began_at: UtcTime
    """Probable beginning of the change: time of the first interaction since the estimated change point."""
    found_at: UtcTime
    """Time of the interaction at which it was found."""
    direction: Literal["fall", "rise"]
    """Direction of the change."""
    before: float
    """Mean before the change, as it was learned."""
    after: float
    """Mean of the values since the change, up to `found_at`."""
    n_after: Count
    """Number of these values."""


class LevelWatch(WireModel):
    """The level of one metric of a live pipeline by one labeler, as its quiet detector sees it."""

    pipeline: Name
    """The pipeline."""
    metric: MetricName
    """Qualified metric name."""
    metric_version: Name | None = None
    """Version of the metric's formula; None for ragtide's own metrics."""
    profile: Name
    """Variant of the formulas."""
    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    needed: Count = 0
    """Number of values that it still learns from; 0 once the normal level is known."""
    baseline: float | None = None
    """The learned normal mean; None while it learns."""
    since: UtcTime | None = None
    """Time since which the level is as it is: the beginning of the last move, or the first value."""
    move: Move | None = None
    """The last move; None if none was found."""
    withheld: Literal["hours", "dependence", "unknown"] | None = None
    """Why a change that was found is not shown as a move: the mean moves with the hours of the day, neighbouring
    answers depend on each other, or too few answers say whether they do; None if none is withheld."""
