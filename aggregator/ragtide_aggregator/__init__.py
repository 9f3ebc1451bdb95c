"""Metric events in, estimates and alerts out: the statistics core, its state, and the service around it."""

from .statistics.drift import DriftDetector
from .statistics.intervals import Interval, interval
from .statistics.sequences import confidence_sequence

__all__ = ["DriftDetector", "Interval", "confidence_sequence", "interval"]
