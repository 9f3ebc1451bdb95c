"""Time, tokens and cost of the answer of a group of spans; what the spans do not state without doubt is left out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragtide_schemas import AnswerUsage
from ragtide_schemas.limits import LATENCY_MAX_S, TOKENS_MAX

from .costs import tokens_of
from .grouping import SpanGroup
from .reading import SpanReading


def usage_of(group: SpanGroup, own: Mapping[str, Any], cost_usd: float | None) -> dict[str, Any] | None:
    """Return the usage of an interaction; None if nothing is known.

    The latency is that of the anchor, or the time from the beginning of the first retrieval or model call to the end of
    the last. Tokens are the sums over all model calls: a part of a sum is no number, so they are left out if one call
    does not state them. Attributes such as `ragtide.usage.latency_s` replace what the spans say.

    Args:
        group: spans of the interaction.
        own: explicit attributes, without `ragtide.`.
        cost_usd: of its model calls; None if it is not known.
    """
    prompt, completion = _tokens(group.calls)
    start_ns, end_ns = period_ns(group)
    found = {
        "latency_s": seconds_of(end_ns - start_ns),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cost_usd": cost_usd,
        "retrieval_latency_s": seconds_of(covered_ns(group.retrievals)),
    }
    explicit = {field: own[f"usage.{field}"] for field in AnswerUsage.model_fields if f"usage.{field}" in own}
    return {name: number for name, number in {**found, **explicit}.items() if number is not None} or None


def covered_ns(readings: Iterable[SpanReading]) -> int:
    """Return the nanoseconds in which at least one of the spans was open; those that overlap count once."""
    covered, until = 0, 0
    for start, end in sorted((reading.span.start_ns, reading.span.end_ns) for reading in readings):
        covered += max(end - max(start, until), 0)
        until = max(until, end)
    return covered


def period_ns(group: SpanGroup) -> tuple[int, int]:
    """Return start and end of an answer: of its anchor, or of its first and last span if several turns share that."""
    alone = group.turn is None and not group.anchor.is_missing
    spans = [node.span for node in ((group.anchor,) if alone else (*group.calls, *group.retrievals))]
    return min((span.start_ns for span in spans), default=0), max((span.end_ns for span in spans), default=0)


def seconds_of(duration_ns: int) -> float | None:
    """Return a duration in seconds; None for one that clocks which disagree have made, or that no answer takes."""
    return duration_ns / 1e9 if 0 < duration_ns <= LATENCY_MAX_S * 1e9 else None


def _tokens(calls: Sequence[SpanReading]) -> tuple[int | None, int | None]:
    counts = [tokens_of(call) for call in calls]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts):
        return None, None
    totals = sum(count.prompt for count in known), sum(count.completion for count in known)
    return totals if max(totals) <= TOKENS_MAX else (None, None)
