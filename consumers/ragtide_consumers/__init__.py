"""Reads the streams: label workers with their labelers and metrics, the recorder, and the alert subscriber."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .alert_subscriber import AlertSubscriber as AlertSubscriber
    from .labelers.local.labeler import LocalLabeler as LocalLabeler
    from .labelers.protocol import Labeler as Labeler, LabelerUnavailable as LabelerUnavailable, Labeling as Labeling
    from .labelers.remote.services import Services as Services
    from .metrics.custom import CustomMetric as CustomMetric
    from .metrics.ragchecker import ragchecker_metrics as ragchecker_metrics
    from .metrics.scores import Absent as Absent, AbsentReason as AbsentReason, MetricScores as MetricScores
    from .metrics.trace import trace_metrics as trace_metrics

__getattr__ = late(
    __name__,
    {
        ".alert_subscriber": "AlertSubscriber",
        ".labelers.local.labeler": "LocalLabeler",
        ".labelers.protocol": "Labeler LabelerUnavailable Labeling",
        ".labelers.remote.services": "Services",
        ".metrics.custom": "CustomMetric",
        ".metrics.ragchecker": "ragchecker_metrics",
        ".metrics.scores": "Absent AbsentReason MetricScores",
        ".metrics.trace": "trace_metrics",
    },
)
