"""The wire contract: models, limits and definitions of metrics. No I/O, no import of another ragtide package."""

from .alert import Alert, ChangeCause
from .alert_rule import AlertRule, Movement, alarm_line
from .base import SCHEMA_VERSION, VersionedModel, WireModel, describe
from .dead_letter import DeadLetter
from .declared import Measure, MetricDeclaration, declaration_of, definition_of, range_of
from .dropped import Dropped
from .errors import InvalidEntryError, Reason
from .estimate import Estimate
from .feedback import Feedback
from .interaction import RagInteraction, RetrievedDocument
from .labels import ClaimLabels, Entailment, Labels, SentenceLabels, SentenceProbabilities
from .metric_definitions import METRICS, RAGTIDE_METRICS
from .metric_event import JudgedScores, MetricEvent
from .metrics import Bands, Direction, Kind, MetricDefinition
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
    "SentenceLabels",
    "SentenceProbabilities",
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
