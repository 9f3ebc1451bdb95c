"""The wire contract: models, limits and definitions of metrics. No I/O, no import of another ragtide package."""

from typing import TYPE_CHECKING

from .lazy_imports import late

if TYPE_CHECKING:
    from .alert import (
        Alert as Alert,
        ChangeCause as ChangeCause,
        SegmentShare as SegmentShare,
        StepCause as StepCause,
        StepChange as StepChange,
        StepName as StepName,
    )
    from .alert_kinds import Movement as Movement, alarm_line as alarm_line
    from .alert_rule import AlertRule as AlertRule
    from .base import (
        SCHEMA_VERSION as SCHEMA_VERSION,
        VersionedModel as VersionedModel,
        WireModel as WireModel,
        describe as describe,
    )
    from .dead_letter import DeadLetter as DeadLetter
    from .declared import (
        Measure as Measure,
        MetricDeclaration as MetricDeclaration,
        declaration_of as declaration_of,
        definition_of as definition_of,
        range_of as range_of,
    )
    from .errors import Dropped as Dropped, InvalidEntryError as InvalidEntryError, Reason as Reason
    from .estimate import Estimate as Estimate
    from .feedback import Feedback as Feedback
    from .headline import Headline as Headline, Move as Move
    from .interaction import (
        AnswerUsage as AnswerUsage,
        EarlierTurn as EarlierTurn,
        RagInteraction as RagInteraction,
        RetrievedDocument as RetrievedDocument,
    )
    from .labels import (
        ClaimLabels as ClaimLabels,
        Entailment as Entailment,
        Labels as Labels,
        SentenceLabels as SentenceLabels,
        SentenceProbabilities as SentenceProbabilities,
        UnsupportedSpan as UnsupportedSpan,
    )
    from .metric_definitions import METRICS as METRICS, RAGTIDE_METRICS as RAGTIDE_METRICS
    from .metric_event import (
        EvaluatorScores as EvaluatorScores,
        JudgedScores as JudgedScores,
        MetricEvent as MetricEvent,
    )
    from .metrics import Bands as Bands, Direction as Direction, Kind as Kind, MetricDefinition as MetricDefinition
    from .retrieval_steps import RetrievalStep as RetrievalStep
    from .specimen import Specimen as Specimen, SpecimenLabeling as SpecimenLabeling
    from .times import from_milliseconds as from_milliseconds, to_milliseconds as to_milliseconds, utc_now as utc_now
    from .user_ids import hashed_user_id as hashed_user_id
    from .workspace import Workspace as Workspace

__getattr__ = late(
    __name__,
    {
        ".alert": "Alert ChangeCause SegmentShare StepCause StepChange StepName",
        ".alert_kinds": "Movement alarm_line",
        ".alert_rule": "AlertRule",
        ".base": "SCHEMA_VERSION VersionedModel WireModel describe",
        ".dead_letter": "DeadLetter",
        ".declared": "Measure MetricDeclaration declaration_of definition_of range_of",
        ".errors": "Dropped InvalidEntryError Reason",
        ".estimate": "Estimate",
        ".feedback": "Feedback",
        ".headline": "Headline Move",
        ".interaction": "AnswerUsage EarlierTurn RagInteraction RetrievedDocument",
        ".labels": "ClaimLabels Entailment Labels SentenceLabels SentenceProbabilities UnsupportedSpan",
        ".metric_definitions": "METRICS RAGTIDE_METRICS",
        ".metric_event": "EvaluatorScores JudgedScores MetricEvent",
        ".metrics": "Bands Direction Kind MetricDefinition",
        ".retrieval_steps": "RetrievalStep",
        ".specimen": "Specimen SpecimenLabeling",
        ".times": "from_milliseconds to_milliseconds utc_now",
        ".user_ids": "hashed_user_id",
        ".workspace": "Workspace",
    },
)
