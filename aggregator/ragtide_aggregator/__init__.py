"""Metric events in, estimates and alerts out: the statistics core, its state, and the service around it."""

from .drift import DriftDetector
from .intervals import Interval, interval
from .sequences import confidence_sequence

__all__ = ["DriftDetector", "Interval", "confidence_sequence", "interval"]
