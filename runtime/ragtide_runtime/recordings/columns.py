"""The Parquet column of each field of a model, and the conversion of its values. Needs pyarrow.

Numbers, times and names are columns that any tool reads. Each metric is a column of its own (`scores.trace.adherence`),
empty for an entry without such a score. Nested content that is rarely used is a column of JSON text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pydantic_core import from_json, to_json

from ragtide_schemas import EvaluatorScores, MetricDeclaration, RetrievalStep, RetrievedDocument
from ragtide_schemas.retrieval_steps import OF_CALLS

from .entries import EntryKind
from .json_lines import SOURCE_ENTRY

INT64_MAX: Final = 2**63 - 1

_TIME: Final = pa.timestamp("us", tz="UTC")
_DOCUMENT: Final = pa.struct(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("score", pa.float64()),
        ("sentences", pa.list_(pa.string())),
        ("metadata", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Codec:
    """The conversion of one type of values into a column and back; None stays None."""

    type: Any
    write: Callable[[Any], Any] | None = None
    """None writes values unchanged; None in `read` reads them unchanged."""
    read: Callable[[Any], Any] | None = None
    repeats: bool = False
    """Whether few values repeat often, so that a dictionary stores each value once."""


def _write_document(document: RetrievedDocument) -> dict[str, Any]:
    return {
        "id": document.id,
        "text": document.text,
        "score": document.score,
        "sentences": document.sentences,
        "metadata": _write_json(document.metadata),
    }


def _read_document(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if value is not None}
    if "metadata" in fields:
        fields["metadata"] = from_json(fields["metadata"])
    return fields


def _write_json(value: Any) -> str | None:
    return to_json(value).decode() if value else None


def _write_steps(steps: tuple[RetrievalStep, ...]) -> str:
    # Of steps without calls the column is as releases without calls write and read it.
    exclude = None if any(step.kind == "tool" for step in steps) else {"__all__": set(OF_CALLS)}
    return to_json(steps, exclude=exclude).decode()


def _write_models(value: tuple[EvaluatorScores, ...] | dict[str, MetricDeclaration]) -> str:
    return to_json(value, exclude_none=True).decode()


TEXT: Final = Codec(pa.string())
NAME: Final = Codec(pa.string(), repeats=True)
TIME: Final = Codec(_TIME)
FLOAT: Final = Codec(pa.float64())
INT: Final = Codec(pa.int64())
BOOL: Final = Codec(pa.bool_())
TEXTS: Final = Codec(pa.list_(pa.string()))
NAMES: Final = Codec(pa.map_(pa.string(), pa.string()), lambda value: list(value.items()), dict)
NUMBERS: Final = Codec(pa.map_(pa.string(), pa.float64()), lambda value: list(value.items()), dict)
COUNTS: Final = Codec(pa.map_(pa.string(), pa.int64()), lambda value: list(value.items()), dict)
JSON: Final = Codec(pa.string(), _write_json, from_json)
MODEL: Final = Codec(pa.string(), lambda value: value.encode().decode(), from_json)
STEPS: Final = Codec(pa.string(), _write_steps, from_json)
SHARES: Final = Codec(pa.string(), _write_json, from_json)
BESIDE: Final = Codec(pa.string(), _write_models, from_json)
DECLARED: Final = Codec(pa.string(), _write_models, from_json, repeats=True)
DOCUMENTS: Final = Codec(
    pa.list_(_DOCUMENT),
    lambda value: [_write_document(document) for document in value],
    lambda rows: [_read_document(row) for row in rows],
)


COLUMNS: Final[dict[EntryKind, dict[str, Codec]]] = {
    EntryKind.INTERACTIONS: {
        "interaction_id": TEXT,
        "pipeline": NAME,
        "occurred_at": TIME,
        "question": TEXT,
        "documents": DOCUMENTS,
        "response": TEXT,
        "response_sentences": TEXTS,
        "reference_answer": TEXT,
        "segments": NAMES,
        "session_id": TEXT,
        "turn": INT,
        "unit": NAME,
        "history": JSON,
        "user_id": TEXT,
        "cluster": TEXT,
        "usage": MODEL,
        "covariates": NUMBERS,
        "steps": STEPS,
        "steps_left_out": INT,
        "run": NAME,
        "population_size": INT,
        "sampling_probability": FLOAT,
        "source": NAME,
        "metadata": JSON,
        "schema_version": INT,
    },
    EntryKind.METRICS: {
        "interaction_id": TEXT,
        SOURCE_ENTRY: TEXT,
        "pipeline": NAME,
        "occurred_at": TIME,
        "labeled_at": TIME,
        "segments": NAMES,
        "session_id": TEXT,
        "turn": INT,
        "unit": NAME,
        "user_id": TEXT,
        "cluster": TEXT,
        "covariates": NUMBERS,
        "run": NAME,
        "population_size": INT,
        "sampling_probability": FLOAT,
        "drawn": MODEL,
        "source": NAME,
        "labeler": NAME,
        "labeler_version": NAME,
        "profile": NAME,
        "splitter": NAME,
        "absent": NAMES,
        "prompt_tokens": INT,
        "completion_tokens": INT,
        "cost_usd": FLOAT,
        "cost_source": NAME,
        "latency_s": FLOAT,
        "prompts": TEXTS,
        "judged": MODEL,
        "counters": COUNTS,
        "inclusion_probability": FLOAT,
        "inclusion": NUMBERS,
        "declared": DECLARED,
        "beside": BESIDE,
        "schema_version": INT,
    },
    EntryKind.FEEDBACK: {
        "pipeline": NAME,
        "interaction_id": TEXT,
        "given_at": TIME,
        "annotator": NAME,
        "inclusion_probability": FLOAT,
        "metadata": JSON,
        "schema_version": INT,
    },
    EntryKind.ALERTS: {
        "alert_id": TEXT,
        "status": NAME,
        "rule": NAME,
        "kind": NAME,
        "severity": NAME,
        "pipeline": NAME,
        "segment": TEXT,
        "run": NAME,
        "metric": NAME,
        "metric_version": NAME,
        "profile": NAME,
        "labeler": NAME,
        "labeler_version": NAME,
        "direction": NAME,
        "fired_at": TIME,
        "resolved_at": TIME,
        "explained_at": TIME,
        "cause": MODEL,
        "moved_step": MODEL,
        "began_at": TIME,
        "baseline": FLOAT,
        "baseline_source": NAME,
        "normal": FLOAT,
        "normal_n": INT,
        "normal_of": TEXT,
        "limit": FLOAT,
        "quantity": NAME,
        "edge": FLOAT,
        "edge_side": NAME,
        "covariate": NAME,
        "values": TEXT,
        "shares": SHARES,
        "distance": FLOAT,
        "detector": NAME,
        "observed": FLOAT,
        "observed_n": INT,
        "observed_of": NAME,
        "observed_lower": FLOAT,
        "observed_upper": FLOAT,
        "fired_observed": FLOAT,
        "log_evidence": FLOAT,
        "run_length": FLOAT,
        "false_discovery_rate": FLOAT,
        "design_effect": FLOAT,
        "dependence": NAME,
        "n": INT,
        "worst_interaction_ids": TEXTS,
        "diagnosis": TEXTS,
        "cause_sought": BOOL,
        "step_sought": BOOL,
        "release": MODEL,
        "notes": TEXTS,
        "message": TEXT,
        "schema_version": INT,
    },
}
"""The columns of each kind by the model's field, without the columns of scores."""

SCORES: Final[dict[EntryKind, tuple[str, ...]]] = {
    EntryKind.INTERACTIONS: ("gold_scores",),
    EntryKind.METRICS: ("scores", "gold_scores"),
    EntryKind.FEEDBACK: ("gold_scores",),
    EntryKind.ALERTS: (),
}
"""Fields with scores by metric, which have a column for each metric."""


def field_of(kind: EntryKind, column: str) -> str:
    """Return the model's field that a column holds."""
    return "entry_id" if kind is EntryKind.METRICS and column == SOURCE_ENTRY else column


def too_large(codec: Codec, values: Sequence[Any]) -> list[int]:
    """Return the rows of the values that do not fit their column, because integers have no upper limit on the wire."""
    if codec is INT:
        return [row for row, value in enumerate(values) if value is not None and value > INT64_MAX]
    if codec is COUNTS:
        return [row for row, value in enumerate(values) if value and max(value.values()) > INT64_MAX]
    return []


def array_of(codec: Codec, values: Sequence[Any]) -> Any:
    """Return values as an array."""
    write = codec.write
    if write is not None:
        values = [None if value is None else write(value) for value in values]
    array = pa.array(values, codec.type)
    return array.dictionary_encode() if codec.repeats else array
