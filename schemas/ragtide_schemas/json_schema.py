"""JSON Schemas of the wire models: `python -m ragtide_schemas.json_schema docs/schemas` writes them."""

import json
import sys
from pathlib import Path

from .alert import Alert
from .alert_rule import AlertRule
from .base import WireModel
from .dead_letter import DeadLetter
from .estimate import Estimate
from .experiments import Command, Execution, Plan
from .feedback import Feedback
from .interaction import RagInteraction
from .labels import ClaimLabels, SentenceLabels
from .metric_event import MetricEvent
from .specimen import Specimen

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
        f"{name}.schema.json": json.dumps(model.model_json_schema(), indent=2, ensure_ascii=False) + "\n"
        for name, model in PUBLISHED.items()
    }


def write_json_schemas(folder: Path) -> None:
    """Write every schema file into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in json_schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_json_schemas(Path(sys.argv[1]))
