"""Metric events in, estimates and alerts out: the statistics core, its state, and the service around it."""

from .statistics.comparing import PairedComparison
from .statistics.detector import DriftDetector
from .statistics.intervals import Interval, interval
from .statistics.racing import Elimination, Race, RaceStanding
from .statistics.sequences import confidence_sequence
from .statistics.strategies import RunningIntervals

__all__ = [
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
