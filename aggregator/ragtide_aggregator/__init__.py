"""Turns metric events into estimates and alerts: statistics, the state of each partition, and the service around it."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .reading.deployment import Deployment as Deployment
    from .statistics.comparisons.comparing import PairedComparison as PairedComparison
    from .statistics.comparisons.racing import Elimination as Elimination, Race as Race, RaceStanding as RaceStanding
    from .statistics.drift.detector import DriftDetector as DriftDetector
    from .statistics.intervals.intervals import Interval as Interval, interval as interval
    from .statistics.means.sequences import confidence_sequence as confidence_sequence
    from .statistics.means.strategies import RunningIntervals as RunningIntervals

__getattr__ = late(
    __name__,
    {
        ".reading.deployment": "Deployment",
        ".statistics.comparisons.comparing": "PairedComparison",
        ".statistics.comparisons.racing": "Elimination Race RaceStanding",
        ".statistics.drift.detector": "DriftDetector",
        ".statistics.intervals.intervals": "Interval interval",
        ".statistics.means.sequences": "confidence_sequence",
        ".statistics.means.strategies": "RunningIntervals",
    },
)
