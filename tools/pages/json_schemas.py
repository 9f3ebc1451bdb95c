"""JSON Schemas of the wire models."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ragtide_schemas.alert import Alert
from ragtide_schemas.alert_rule import AlertRule
from ragtide_schemas.base import SCHEMA_VERSION, WireModel
from ragtide_schemas.dead_letter import DeadLetter
from ragtide_schemas.estimate import Estimate
from ragtide_schemas.experiments import Command, Execution, Plan
from ragtide_schemas.feedback import Feedback
from ragtide_schemas.interaction import RagInteraction
from ragtide_schemas.labels import ClaimLabels, SentenceLabels
from ragtide_schemas.metric_event import MetricEvent
from ragtide_schemas.specimen import Specimen

PUBLISHED: dict[str, type[WireModel]] = {
    "alert": Alert,
    "alert-rule": AlertRule,
    "claim-labels": ClaimLabels,
    "dead-letter": DeadLetter,
    "estimate": Estimate,
    "execution": Execution,
    "experiment-command": Command,
    "experiment-plan": Plan,
    "feedback": Feedback,
    "interaction": RagInteraction,
    "metric-event": MetricEvent,
    "sentence-labels": SentenceLabels,
    "specimen": Specimen,
}
"""The models whose JSON Schema is part of the documentation, by file name."""


def json_schemas() -> dict[str, str]:
    """Return the text of each schema file, by file name with its ending."""
    return {
        f"{name}.schema.json": json.dumps(_schema(name, model), indent=2, ensure_ascii=False) + "\n"
        for name, model in PUBLISHED.items()
    }


def _schema(name: str, model: type[WireModel]) -> dict[str, Any]:
    """Return the schema with its dialect, and with an id that depends on no address: a registry can hold it."""
    identity = f"urn:ragtide:schema:{name}:v{SCHEMA_VERSION}"
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": identity, **model.model_json_schema()}
