"""ragtide: live scores, honest intervals and drift alerts for RAG pipelines.

Names are loaded when they are first used, so an application that only publishes needs no NumPy and no FastStream.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ragtide_runtime.version import __version__

if TYPE_CHECKING:
    from ragtide_aggregator import (
        Deployment,
        DriftDetector,
        Elimination,
        Interval,
        PairedComparison,
        Race,
        RaceStanding,
        RunningIntervals,
        confidence_sequence,
        interval,
    )
    from ragtide_consumers import (
        Absent,
        AbsentReason,
        AlertSubscriber,
        CustomMetric,
        Labeler,
        LabelerUnavailable,
        Labeling,
        LocalLabeler,
        MetricScores,
        Services,
        ragchecker_metrics,
        trace_metrics,
    )
    from ragtide_offline.experiments import Answer, Experiment, ExperimentControl
    from ragtide_offline.gates import GateResult, gate
    from ragtide_offline.score import Summary, estimates, load, score
    from ragtide_producers import (
        InteractionProducer,
        Item,
        ProducerCounts,
        Publication,
        QueueFullError,
        StreamFullError,
        items_of,
        read_items,
    )
    from ragtide_runtime.errors import ConfigurationError, RagtideError, RedisUnavailable
    from ragtide_runtime.recordings import Recording, UnreadableRecordingError
    from ragtide_schemas import (
        Alert,
        AlertRule,
        ClaimLabels,
        DeadLetter,
        Direction,
        Dropped,
        EarlierTurn,
        Estimate,
        Feedback,
        InvalidEntryError,
        Kind,
        MetricDeclaration,
        MetricDefinition,
        MetricEvent,
        RagInteraction,
        RetrievedDocument,
        SentenceLabels,
        hashed_user_id,
    )

_HOMES = {
    "ragtide_aggregator": (
        "Deployment",
        "DriftDetector",
        "Elimination",
        "Interval",
        "PairedComparison",
        "Race",
        "RaceStanding",
        "RunningIntervals",
        "confidence_sequence",
        "interval",
    ),
    "ragtide_consumers": (
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
    ),
    "ragtide_offline.experiments": ("Answer", "Experiment", "ExperimentControl"),
    "ragtide_offline.gates": ("GateResult", "gate"),
    "ragtide_offline.score": ("Summary", "estimates", "load", "score"),
    "ragtide_producers": (
        "InteractionProducer",
        "Item",
        "ProducerCounts",
        "Publication",
        "QueueFullError",
        "StreamFullError",
        "items_of",
        "read_items",
    ),
    "ragtide_runtime.errors": ("ConfigurationError", "RagtideError", "RedisUnavailable"),
    "ragtide_runtime.recordings": ("Recording", "UnreadableRecordingError"),
    "ragtide_schemas": (
        "Alert",
        "AlertRule",
        "ClaimLabels",
        "DeadLetter",
        "Dropped",
        "EarlierTurn",
        "Estimate",
        "Feedback",
        "InvalidEntryError",
        "Direction",
        "Kind",
        "MetricDeclaration",
        "MetricDefinition",
        "MetricEvent",
        "RagInteraction",
        "RetrievedDocument",
        "SentenceLabels",
        "hashed_user_id",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Absent",
    "AbsentReason",
    "Alert",
    "AlertRule",
    "AlertSubscriber",
    "Answer",
    "ClaimLabels",
    "ConfigurationError",
    "CustomMetric",
    "DeadLetter",
    "Deployment",
    "Direction",
    "DriftDetector",
    "Dropped",
    "EarlierTurn",
    "Elimination",
    "Estimate",
    "Experiment",
    "ExperimentControl",
    "Feedback",
    "GateResult",
    "InteractionProducer",
    "Interval",
    "InvalidEntryError",
    "Item",
    "Kind",
    "Labeler",
    "LabelerUnavailable",
    "Labeling",
    "LocalLabeler",
    "MetricDeclaration",
    "MetricDefinition",
    "MetricEvent",
    "MetricScores",
    "PairedComparison",
    "ProducerCounts",
    "Publication",
    "QueueFullError",
    "Race",
    "RaceStanding",
    "RagInteraction",
    "RagtideError",
    "Recording",
    "RedisUnavailable",
    "RetrievedDocument",
    "RunningIntervals",
    "SentenceLabels",
    "Services",
    "StreamFullError",
    "Summary",
    "UnreadableRecordingError",
    "__version__",
    "confidence_sequence",
    "estimates",
    "gate",
    "hashed_user_id",
    "interval",
    "items_of",
    "load",
    "ragchecker_metrics",
    "read_items",
    "score",
    "trace_metrics",
]


_MODULES = ("otel", "testing")
"""Public modules, which `import ragtide` does not import."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"ragtide.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ragtide' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        raise ImportError(f"ragtide.{name} needs {error.name}: pip install 'ragtide[service]'") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
