"""Turns metric events into estimates and alerts: statistics, the state of each partition, and the service around it."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .reading.deployment import Deployment
    from .statistics.adjusted_drift import AdjustedDetector
    from .statistics.comparing import PairedComparison
    from .statistics.detector import DriftDetector
    from .statistics.intervals import Interval, interval
    from .statistics.racing import Elimination, Race, RaceStanding
    from .statistics.sequences import confidence_sequence
    from .statistics.strategies import RunningIntervals

__all__ = [
    "AdjustedDetector",
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
        "AdjustedDetector": ".statistics.adjusted_drift",
        "Deployment": ".reading.deployment",
        "DriftDetector": ".statistics.detector",
        "Elimination": ".statistics.racing",
        "Interval": ".statistics.intervals",
        "PairedComparison": ".statistics.comparing",
        "Race": ".statistics.racing",
        "RaceStanding": ".statistics.racing",
        "RunningIntervals": ".statistics.strategies",
        "confidence_sequence": ".statistics.sequences",
        "interval": ".statistics.intervals",
    },
)
