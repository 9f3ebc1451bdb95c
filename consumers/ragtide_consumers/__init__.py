"""Interactions off the streams, labels, metric events; and subscribers of alerts."""

from .labeler import Labeler, Labeling
from .local_labeler import LocalLabeler
from .subscriber import AlertSubscriber
from .trace_metrics import AbsentReason, MetricScores, trace_metrics

__all__ = [
    "AbsentReason",
    "AlertSubscriber",
    "Labeler",
    "Labeling",
    "LocalLabeler",
    "MetricScores",
    "trace_metrics",
]
