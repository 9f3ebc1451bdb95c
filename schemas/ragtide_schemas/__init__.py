"""The contract: models on the wire, stream names, definitions of metrics. No I/O, nothing of ragtide imported."""

from .alert import Alert, AlertRule, Movement, alarm_line
from .base import SCHEMA_VERSION, VersionedModel, WireModel, describe
from .dead_letter import DeadLetter
from .declared import Measure, MetricDeclaration, declaration_of, definition_of, range_of
from .dropped import Dropped
from .errors import InvalidEntryError, Reason
from .estimate import Estimate
from .feedback import Feedback
from .interaction import RagInteraction, RetrievedDocument
from .labels import ClaimLabels, Entailment, SentenceLabels, SentenceProbabilities
from .metric_definitions import METRICS, RAGTIDE_METRICS
from .metric_event import JudgedScores, MetricEvent
from .metrics import Bands, Direction, Kind, MetricDefinition
from .streams import (
    DATA_FIELD,
    LABEL_GROUP,
    MOVED_FIELD,
    RECORD_GROUP,
    TRACEPARENT_FIELD,
    Layout,
    Streams,
    known_digest,
    partition_of,
)
from .times import from_milliseconds, to_milliseconds, utc_now
from .workspace import Workspace, deployment_prefix, workspace_of, workspace_prefix

__all__ = [
    "DATA_FIELD",
    "LABEL_GROUP",
    "METRICS",
    "MOVED_FIELD",
    "RAGTIDE_METRICS",
    "RECORD_GROUP",
    "SCHEMA_VERSION",
    "TRACEPARENT_FIELD",
    "Alert",
    "AlertRule",
    "Bands",
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
    "Layout",
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
    "Streams",
    "VersionedModel",
    "WireModel",
    "Workspace",
    "alarm_line",
    "declaration_of",
    "definition_of",
    "deployment_prefix",
    "describe",
    "from_milliseconds",
    "known_digest",
    "partition_of",
    "range_of",
    "to_milliseconds",
    "utc_now",
    "workspace_of",
    "workspace_prefix",
]
