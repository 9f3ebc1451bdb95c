"""ragtide: live scores, honest intervals and drift alerts for RAG pipelines.

Names are loaded when they are first used, so an application that only publishes needs no NumPy and no FastStream.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from ragtide_aggregator import (
        Deployment as Deployment,
        DriftDetector as DriftDetector,
        Elimination as Elimination,
        Interval as Interval,
        PairedComparison as PairedComparison,
        Race as Race,
        RaceStanding as RaceStanding,
        RunningIntervals as RunningIntervals,
        confidence_sequence as confidence_sequence,
        interval as interval,
    )
    from ragtide_consumers import (
        Absent as Absent,
        AbsentReason as AbsentReason,
        AlertSubscriber as AlertSubscriber,
        CustomMetric as CustomMetric,
        Labeler as Labeler,
        LabelerUnavailable as LabelerUnavailable,
        Labeling as Labeling,
        LocalLabeler as LocalLabeler,
        MetricScores as MetricScores,
        Services as Services,
        ragchecker_metrics as ragchecker_metrics,
        trace_metrics as trace_metrics,
    )
    from ragtide_offline.experiments import (
        Answer as Answer,
        Experiment as Experiment,
        ExperimentControl as ExperimentControl,
    )
    from ragtide_offline.gates import GateResult as GateResult, gate as gate
    from ragtide_offline.parts import summarize_batches as summarize_batches
    from ragtide_offline.score import (
        Summary as Summary,
        estimates as estimates,
        load as load,
        score as score,
        score_batches as score_batches,
    )
    from ragtide_producers import (
        InteractionProducer as InteractionProducer,
        Item as Item,
        ProducerCounts as ProducerCounts,
        Publication as Publication,
        QueueFullError as QueueFullError,
        StreamFullError as StreamFullError,
        items_of as items_of,
        read_items as read_items,
    )
    from ragtide_runtime.errors import (
        ConfigurationError as ConfigurationError,
        RagtideError as RagtideError,
        RedisUnavailable as RedisUnavailable,
    )
    from ragtide_runtime.recordings import Recording as Recording, UnreadableRecordingError as UnreadableRecordingError
    from ragtide_runtime import __version__ as __version__
    from ragtide_schemas import (
        Alert as Alert,
        AlertRule as AlertRule,
        AnswerUsage as AnswerUsage,
        ClaimLabels as ClaimLabels,
        DeadLetter as DeadLetter,
        Direction as Direction,
        Dropped as Dropped,
        EarlierTurn as EarlierTurn,
        Estimate as Estimate,
        Feedback as Feedback,
        InvalidEntryError as InvalidEntryError,
        Kind as Kind,
        MetricDeclaration as MetricDeclaration,
        MetricDefinition as MetricDefinition,
        MetricEvent as MetricEvent,
        RagInteraction as RagInteraction,
        RetrievalStep as RetrievalStep,
        RetrievedDocument as RetrievedDocument,
        SentenceLabels as SentenceLabels,
        hashed_user_id as hashed_user_id,
    )

__all__: list[str]

_load = late(
    __name__,
    {
        "ragtide_aggregator": "Deployment DriftDetector Elimination Interval PairedComparison Race RaceStanding "
        "RunningIntervals confidence_sequence interval",
        "ragtide_consumers": "Absent AbsentReason AlertSubscriber CustomMetric Labeler LabelerUnavailable Labeling "
        "LocalLabeler MetricScores Services ragchecker_metrics trace_metrics",
        "ragtide_offline.experiments": "Answer Experiment ExperimentControl",
        "ragtide_offline.gates": "GateResult gate",
        "ragtide_offline.parts": "summarize_batches",
        "ragtide_offline.score": "Summary estimates load score score_batches",
        "ragtide_producers": "InteractionProducer Item ProducerCounts Publication QueueFullError StreamFullError "
        "items_of read_items",
        "ragtide_runtime.errors": "ConfigurationError RagtideError RedisUnavailable",
        "ragtide_runtime.recordings": "Recording UnreadableRecordingError",
        "ragtide_runtime": "__version__",
        "ragtide_schemas": "Alert AlertRule AnswerUsage ClaimLabels DeadLetter Direction Dropped EarlierTurn Estimate "
        "Feedback InvalidEntryError Kind MetricDeclaration MetricDefinition MetricEvent RagInteraction "
        "RetrievalStep RetrievedDocument SentenceLabels hashed_user_id",
    },
)

_MODULES = ("faststream", "otel", "testing")
"""Public modules, which `import ragtide` does not import."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"ragtide.{name}")
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragtide"):
            raise
        extra = "parquet" if error.name == "pyarrow" else "service"
        raise ImportError(f"ragtide.{name} needs {error.name}: pip install 'ragtide[{extra}]'") from error


def __dir__() -> list[str]:
    return __all__
