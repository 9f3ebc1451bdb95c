"""The wire contract: models, limits and definitions of metrics. No I/O, no import of another ragtide package."""

from typing import TYPE_CHECKING

from .lazy_imports import late

if TYPE_CHECKING:
    from .alert import Alert, ChangeCause, SegmentShare
    from .alert_rule import AlertRule, Movement, alarm_line
    from .base import SCHEMA_VERSION, VersionedModel, WireModel, describe
    from .dead_letter import DeadLetter
    from .declared import Measure, MetricDeclaration, declaration_of, definition_of, range_of
    from .dropped import Dropped
    from .errors import InvalidEntryError, Reason
    from .estimate import Estimate
    from .feedback import Feedback
    from .history import EarlierTurn
    from .interaction import RagInteraction, RetrievedDocument
    from .labels import ClaimLabels, Entailment, Labels, SentenceLabels, SentenceProbabilities, UnsupportedSpan
    from .metric_definitions import METRICS, RAGTIDE_METRICS
    from .metric_event import JudgedScores, MetricEvent
    from .metrics import Bands, Direction, Kind, MetricDefinition
    from .specimen import Specimen, SpecimenLabeling
    from .times import from_milliseconds, to_milliseconds, utc_now
    from .user_ids import hashed_user_id
    from .workspace import Workspace

__all__ = [
    "METRICS",
    "RAGTIDE_METRICS",
    "SCHEMA_VERSION",
    "Alert",
    "AlertRule",
    "Bands",
    "ChangeCause",
    "ClaimLabels",
    "DeadLetter",
    "Direction",
    "Dropped",
    "EarlierTurn",
    "Entailment",
    "Estimate",
    "Feedback",
    "InvalidEntryError",
    "JudgedScores",
    "Kind",
    "Labels",
    "Measure",
    "MetricDeclaration",
    "MetricDefinition",
    "MetricEvent",
    "Movement",
    "RagInteraction",
    "Reason",
    "RetrievedDocument",
    "SegmentShare",
    "SentenceLabels",
    "SentenceProbabilities",
    "Specimen",
    "SpecimenLabeling",
    "UnsupportedSpan",
    "VersionedModel",
    "WireModel",
    "Workspace",
    "alarm_line",
    "declaration_of",
    "definition_of",
    "describe",
    "from_milliseconds",
    "hashed_user_id",
    "range_of",
    "to_milliseconds",
    "utc_now",
]

__getattr__ = late(
    __name__,
    {
        "METRICS": ".metric_definitions",
        "RAGTIDE_METRICS": ".metric_definitions",
        "SCHEMA_VERSION": ".base",
        "Alert": ".alert",
        "AlertRule": ".alert_rule",
        "Bands": ".metrics",
        "ChangeCause": ".alert",
        "SegmentShare": ".alert",
        "ClaimLabels": ".labels",
        "DeadLetter": ".dead_letter",
        "Direction": ".metrics",
        "Dropped": ".dropped",
        "EarlierTurn": ".history",
        "Entailment": ".labels",
        "Estimate": ".estimate",
        "Feedback": ".feedback",
        "InvalidEntryError": ".errors",
        "JudgedScores": ".metric_event",
        "Kind": ".metrics",
        "Labels": ".labels",
        "Measure": ".declared",
        "MetricDeclaration": ".declared",
        "MetricDefinition": ".metrics",
        "MetricEvent": ".metric_event",
        "Movement": ".alert_rule",
        "RagInteraction": ".interaction",
        "Reason": ".errors",
        "RetrievedDocument": ".interaction",
        "SentenceLabels": ".labels",
        "SentenceProbabilities": ".labels",
        "Specimen": ".specimen",
        "SpecimenLabeling": ".specimen",
        "UnsupportedSpan": ".labels",
        "VersionedModel": ".base",
        "WireModel": ".base",
        "Workspace": ".workspace",
        "alarm_line": ".alert_rule",
        "declaration_of": ".declared",
        "definition_of": ".declared",
        "describe": ".base",
        "from_milliseconds": ".times",
        "hashed_user_id": ".user_ids",
        "range_of": ".declared",
        "to_milliseconds": ".times",
        "utc_now": ".times",
    },
)
