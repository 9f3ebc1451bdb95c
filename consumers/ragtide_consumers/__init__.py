"""Interactions off the streams, labels, metric events; and subscribers of alerts."""

from .labeler import Labeler, Labeling
from .local.labeler import LocalLabeler
from .metrics.custom import CustomMetric
from .metrics.ragchecker import ragchecker_metrics
from .metrics.scores import AbsentReason, MetricScores
from .metrics.trace import trace_metrics
from .subscriber import AlertSubscriber

__all__ = [
    "AbsentReason",
    "AlertSubscriber",
    "CustomMetric",
    "Labeler",
    "Labeling",
    "LocalLabeler",
    "MetricScores",
    "ragchecker_metrics",
    "trace_metrics",
]
