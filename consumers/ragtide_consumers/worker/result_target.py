"""What a result is about: the span of a trace that it evaluates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ragtide_schemas import MetricEvent, RagInteraction
from ragtide_schemas.limits import NAME_MAX_CHARS

from ..labelers.protocol import Labeling
from ..redaction.redaction import Redaction

_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ResultTarget:
    """What a result is about: a span of a trace, and what the event of the result does not have."""

    traceparent: str
    """Of the span that was evaluated."""
    response_id: str = ""
    """The provider's id of the response; empty if the trace had none."""
    reasons: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The judge's reasons by labeler, its version and metric, redacted; empty unless `judge.reasons` is `all`."""
    answers: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """The judge's answers to criteria, such as `yes`, in the same way."""


def target_of(interaction: RagInteraction, traceparent: str) -> str:
    """Return the traceparent of the span that a result is about; empty if no backend has such a span.

    The metadata of a traced interaction name the span of its answer. Another interaction has the context in which it
    was published, unless the application did not sample that trace.

    Args:
        interaction: the interaction; its metadata are foreign.
        traceparent: of its entry; empty without one.
    """
    trace_id, span_id = interaction.metadata.get("trace_id"), interaction.metadata.get("span_id")
    if isinstance(trace_id, str) and isinstance(span_id, str) and _is_context(trace_id, span_id):
        return f"00-{trace_id}-{span_id}-01"
    if not traceparent or interaction.source == "otel":  # this context would be that of ragtide serve
        return ""
    _, trace_id, span_id, flags = traceparent.split("-")
    return traceparent if _is_context(trace_id, span_id) and int(flags, 16) & 1 else ""


def result_target(
    interaction: RagInteraction,
    traceparent: str,
    labeling: Labeling,
    event: MetricEvent,
    *,
    reasons: Redaction | None = None,
) -> ResultTarget | None:
    """Return what the result of an interaction is about; None if no backend has a span of it.

    Args:
        interaction: the interaction.
        traceparent: of its entry; empty without one.
        labeling: its labeling, which has the reasons.
        reasons: redacts the reasons that leave with the result; None if none leaves.

    Raises:
        RedactionError, NotRedactedError, RedactionAbortedError: the reasons could not be redacted.
    """
    evaluated = target_of(interaction, traceparent)
    if not evaluated:
        return None
    response_id = interaction.metadata.get("response_id")
    labelings = [(event.labeler, event.labeler_version, labeling)]
    labelings += [(part.by.name, part.by.version, part.labeling) for part in labeling.beside]
    judged = [result.judged for _, _, result in labelings if result.judged is not None]
    labelings += [(part.by.name, part.by.version, part.labeling) for part in judged]
    texts = {
        (name, version, metric): text for name, version, result in labelings for metric, text in result.reasons.items()
    }
    return ResultTarget(
        evaluated,
        response_id[:NAME_MAX_CHARS] if isinstance(response_id, str) else "",
        {} if reasons is None else reasons.reasons(texts),
        {
            (name, version, metric): text
            for name, version, result in labelings
            for metric, text in result.answers.items()
        },
    )


def _is_context(trace_id: str, span_id: str) -> bool:
    return bool(_TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id))
