"""Turns metric events into estimates and alerts: statistics, the state of each partition, and the service around it."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .reading.deployment import Deployment
    from .statistics.comparisons.comparing import PairedComparison
    from .statistics.comparisons.racing import Elimination, Race, RaceStanding
    from .statistics.drift.detector import DriftDetector
    from .statistics.intervals.intervals import Interval, interval
    from .statistics.means.sequences import confidence_sequence
    from .statistics.means.strategies import RunningIntervals

__all__ = [
    "Deployment",
    "DriftDetector",
    "Elimination",
    "Interval",
    "PairedComparison",
    "Race",
    "RaceStanding",
    "RunningIntervals",
    "confidence_sequence",
    "interval",
]

__getattr__ = late(
    __name__,
    {
        "Deployment": ".reading.deployment",
        "DriftDetector": ".statistics.drift.detector",
        "Elimination": ".statistics.comparisons.racing",
        "Interval": ".statistics.intervals.intervals",
        "PairedComparison": ".statistics.comparisons.comparing",
        "Race": ".statistics.comparisons.racing",
        "RaceStanding": ".statistics.comparisons.racing",
        "RunningIntervals": ".statistics.means.strategies",
        "confidence_sequence": ".statistics.means.sequences",
        "interval": ".statistics.intervals.intervals",
    },
)
