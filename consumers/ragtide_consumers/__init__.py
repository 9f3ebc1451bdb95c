"""Reads the streams: label workers with their labelers and metrics, the recorder, and the alert subscriber."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .alert_subscriber import AlertSubscriber
    from .labelers.local.labeler import LocalLabeler
    from .labelers.protocol import Labeler, Labeling
    from .labelers.remote.services import Services
    from .labelers.unavailable import LabelerUnavailable
    from .metrics.custom import CustomMetric
    from .metrics.ragchecker import ragchecker_metrics
    from .metrics.scores import Absent, AbsentReason, MetricScores
    from .metrics.trace import trace_metrics

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
    "Services",
    "ragchecker_metrics",
    "trace_metrics",
]

__getattr__ = late(
    __name__,
    {
        "Absent": ".metrics.scores",
        "AbsentReason": ".metrics.scores",
        "AlertSubscriber": ".alert_subscriber",
        "CustomMetric": ".metrics.custom",
        "Labeler": ".labelers.protocol",
        "LabelerUnavailable": ".labelers.unavailable",
        "Labeling": ".labelers.protocol",
        "LocalLabeler": ".labelers.local.labeler",
        "MetricScores": ".metrics.scores",
        "Services": ".labelers.remote.services",
        "ragchecker_metrics": ".metrics.ragchecker",
        "trace_metrics": ".metrics.trace",
    },
)
