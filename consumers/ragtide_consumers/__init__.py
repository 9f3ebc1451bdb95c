"""Interactions off the streams, labels, metric events; and subscribers of alerts."""

from typing import TYPE_CHECKING

from ragtide_runtime.late import late

if TYPE_CHECKING:
    from .labeler import Labeler, Labeling
    from .local.labeler import LocalLabeler
    from .metrics.custom import CustomMetric
    from .metrics.ragchecker import ragchecker_metrics
    from .metrics.scores import Absent, AbsentReason, MetricScores
    from .metrics.trace import trace_metrics
    from .subscriber import AlertSubscriber
    from .unavailable import LabelerUnavailable

__all__ = [
    "Absent",
    "AbsentReason",
    "AlertSubscriber",
    "CustomMetric",
    "Labeler",
    "LabelerUnavailable",
    "Labeling",
    "LocalLabeler",
    "MetricScores",
    "ragchecker_metrics",
    "trace_metrics",
]

__getattr__ = late(
    __name__,
    {
        "Absent": ".metrics.scores",
        "AbsentReason": ".metrics.scores",
        "AlertSubscriber": ".subscriber",
        "CustomMetric": ".metrics.custom",
        "Labeler": ".labeler",
        "LabelerUnavailable": ".unavailable",
        "Labeling": ".labeler",
        "LocalLabeler": ".local.labeler",
        "MetricScores": ".metrics.scores",
        "ragchecker_metrics": ".metrics.ragchecker",
        "trace_metrics": ".metrics.trace",
    },
)
