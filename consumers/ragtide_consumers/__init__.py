"""Interactions off the streams, labels, metric events; and subscribers of alerts."""

from .labeler import Labeler, Labeling
from .local.labeler import LocalLabeler
from .metrics.scores import AbsentReason, MetricScores
from .metrics.trace import trace_metrics
from .subscriber import AlertSubscriber

__all__ = [
    "AbsentReason",
    "AlertSubscriber",
    "Labeler",
    "Labeling",
    "LocalLabeler",
    "MetricScores",
    "trace_metrics",
]
