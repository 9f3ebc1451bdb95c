"""A metric event as a span in the trace of its interaction. Import this module only where OpenTelemetry is installed.

The span follows two conventions, so that a backend which knows either can show the scores:

- OpenInference, "Annotations and Evaluations": a span of kind `EVALUATOR` with attributes `evaluations.N.evaluation.*`
  and one link to the span that was evaluated.
- OpenTelemetry for generative AI: an event `gen_ai.evaluation.result` for each score. By default these events leave
  alone, as log records of the span that was evaluated (`result_events.py`).

It has no duration and the time of the answer, so that it does not make the trace longer than it was. Its id is a hash
of interaction and labeler: a span that is sent twice is the same span.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags

from ragtide_runtime import __version__
from ragtide_runtime.telemetry.tracing import RESULTS_SCOPE
from ragtide_schemas import MetricEvent, definition_of
from ragtide_schemas.known_labelers import KNOWN

from .result_target import ResultTarget

NAME: Final = "ragtide evaluation"
"""Name of the span."""
EVENT: Final = "gen_ai.evaluation.result"
"""Name of the event of one score."""
METRIC: Final = "gen_ai.evaluation.name"
SCORE: Final = "gen_ai.evaluation.score.value"
LABELED_AT: Final = "ragtide.labeled_at"
OF_RESULT: Final = ("ragtide.pipeline", "ragtide.interaction_id", LABELED_AT)
"""Attributes of the span that say which result a score is of."""

RESOURCE: Final = Resource({"service.name": "ragtide-worker"})
SCOPE: Final = InstrumentationScope(RESULTS_SCOPE, __version__)


class _ExportedScore(NamedTuple):
    metric: str
    value: float
    labeler: str
    version: str
    profile: str
    label: str
    """The answer to a criterion, such as `yes`, or the level of quality, such as `good`; empty without one."""
    reason: str

    def event(self, time_ns: int, response_id: str) -> Event:
        """Return the event of OpenTelemetry's convention."""
        attributes: dict[str, str | float] = {
            METRIC: self.metric,
            SCORE: self.value,
            # Proposed to OpenTelemetry and written by others, but not agreed: the names after them stay.
            "gen_ai.evaluation.evaluator.id": self.labeler,
            "gen_ai.evaluation.evaluator.version": self.version,
            "ragtide.labeler": self.labeler,
            "ragtide.labeler_version": self.version,
            "ragtide.profile": self.profile,
        }
        further = {
            "gen_ai.evaluation.score.label": self.label,
            "gen_ai.evaluation.explanation": self.reason,
            "gen_ai.response.id": response_id,
        }
        return Event(EVENT, attributes | {name: text for name, text in further.items() if text}, time_ns)

    def attributes(self, index: int) -> dict[str, str | float]:
        """Return the attributes of OpenInference's convention."""
        start = f"evaluations.{index}.evaluation."
        kind = KNOWN[self.labeler].kind if self.labeler in KNOWN else None
        return {
            f"{start}name": self.metric,
            f"{start}score": self.value,
            **({f"{start}annotator_kind": kind} if kind else {}),
            **({f"{start}label": self.label} if self.label else {}),
            **({f"{start}explanation": self.reason} if self.reason else {}),
        }


def result_span(event: MetricEvent, target: ResultTarget) -> ReadableSpan | None:
    """Return the span of a metric event; None for an event without scores.

    Args:
        event: the scores. The span has no text of the interaction.
        target: the span that was evaluated, the id of its response, and the reasons that leave with the scores.
    """
    scores = list(_exported_scores(event, target))
    if not scores:
        return None
    _, trace_id, span_id, _ = target.traceparent.split("-")
    evaluated = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    time_ns = nanoseconds_of(event.occurred_at)
    attributes: dict[str, str | float] = {
        "openinference.span.kind": "EVALUATOR",
        "output.value": json.dumps({score.metric: score.value for score in scores}),
        "output.mime_type": "application/json",
        "ragtide.pipeline": event.pipeline,
        "ragtide.interaction_id": event.interaction_id,
        "ragtide.labeler": event.labeler,
        "ragtide.labeler_version": event.labeler_version,
        "ragtide.profile": event.profile,
        LABELED_AT: event.labeled_at.isoformat(),
    }
    for index, score in enumerate(scores):
        attributes |= score.attributes(index)
        attributes.setdefault(f"ragtide.score.{score.metric}", score.value)
    own = SpanContext(
        evaluated.trace_id, _span_id(event, evaluated), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    return ReadableSpan(
        NAME,
        context=own,
        parent=evaluated,
        resource=RESOURCE,
        attributes=attributes,
        events=[score.event(time_ns, target.response_id) for score in scores],
        links=[Link(evaluated)],
        start_time=time_ns,
        end_time=time_ns,
        instrumentation_scope=SCOPE,
    )


def _exported_scores(event: MetricEvent, target: ResultTarget) -> Iterator[_ExportedScore]:
    for scored in event.by_evaluator():
        for by in scored.parts():
            for metric, value in by.scores.items():
                definition = definition_of(metric, scored.declared)
                level = "" if definition is None else definition.band(value) or ""
                key = (by.labeler, by.labeler_version, metric)
                label, reason = target.answers.get(key, level), target.reasons.get(key, "")
                yield _ExportedScore(metric, value, by.labeler, by.labeler_version, by.profile, label, reason)


def _span_id(event: MetricEvent, evaluated: SpanContext) -> int:
    parts = (
        f"{evaluated.trace_id:032x}{evaluated.span_id:016x}",
        event.pipeline,
        event.interaction_id,
        event.labeler,
        event.labeler_version,
        event.profile,
    )
    return int.from_bytes(blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big") or 1


def nanoseconds_of(at: datetime) -> int:
    """Return a time as nanoseconds since 1970."""
    whole = int(at.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + at.microsecond * 1000
