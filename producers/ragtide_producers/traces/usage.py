"""Time, tokens and cost of the answer of a group of spans; what the spans do not state without doubt is left out.

The cost is stated by the spans, or else computed from their tokens.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ragtide_runtime.calls.price_table import CallTokens, price_table
from ragtide_schemas import AnswerUsage
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, TOKENS_MAX

from .grouping import SpanGroup
from .reading import SpanReading, if_readable, number_of

TOLD: Final = "trace"
"""Source of a cost that the spans state."""
MODELS_MAX: Final = 32
"""Most different models of one interaction that are looked up: each look-up of a new name takes milliseconds."""


class CostAbsence(StrEnum):
    """Why the cost of the model calls of an interaction is not known."""

    NO_MODEL = "no_model"
    """A model call reports no model."""
    NO_TOKENS = "no_tokens"
    """A model call reports no token counts, or impossible or ambiguous counts."""
    UNKNOWN_MODEL = "unknown_model"
    """The price table does not know a model and its provider for certain."""
    NO_PRICE_TABLE = "no_price_table"
    """The package with the price table is not installed."""


def usage_of(group: SpanGroup, own: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the usage of an interaction, None if nothing is known, and what its metadata says about the cost.

    The latency is that of the anchor, or the time from the beginning of the first retrieval or model call to the end of
    the last. Tokens are the sums over all model calls: a part of a sum is no number, so they are left out if one call
    does not state them. Attributes such as `ragtide.usage.latency_s` replace what the spans say.

    Args:
        group: spans of the interaction.
        own: explicit attributes, without `ragtide.`.
    """
    counts = [tokens_of(call) for call in group.calls]
    known = [count for count in counts if count is not None]
    totals = [sum(count.prompt for count in known), sum(count.completion for count in known)]
    are_known = bool(known) and len(known) == len(counts) and max(totals) <= TOKENS_MAX
    cost_usd, about_cost = cost_of(group.calls, counts)
    start_ns, end_ns = period_ns(group)
    numbers = {
        "latency_s": seconds_of(end_ns - start_ns),
        "prompt_tokens": totals[0] if are_known else None,
        "completion_tokens": totals[1] if are_known else None,
        "cost_usd": cost_usd,
        "retrieval_latency_s": seconds_of(covered_ns(node for node in group.retrievals if not node.is_run)),
    }
    numbers |= {field: own[f"usage.{field}"] for field in AnswerUsage.model_fields if f"usage.{field}" in own}
    return {name: number for name, number in numbers.items() if number is not None} or None, about_cost


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


def cost_of(calls: Sequence[SpanReading], counts: Sequence[CallTokens | None]) -> tuple[float | None, dict[str, str]]:
    """Return the US dollars of model calls, and what the metadata of their interaction says about this number.

    It is the sum over all calls. `cost_source` is `trace` if the spans state the cost, or else name and version of the
    price table. A part of a sum is no cost: if the cost of one call is unknown, there is no sum, and `cost_absent` has
    the reason. There is none for calls that report no model, no tokens and no cost.

    Args:
        calls: the model calls.
        counts: the tokens of each, as `tokens_of` returns them.
    """
    stated = any(_stated_usd(call) is not None or call.number("input_tokens") is not None for call in calls)
    names = {call.text("model") for call in calls}
    if not stated and names <= {None}:
        return None, {}
    costs = (
        [_cost_of(call, count) for call, count in zip(calls, counts, strict=True)]
        if len(names) <= MODELS_MAX
        else [CostAbsence.UNKNOWN_MODEL]
    )
    known = [cost for cost in costs if not isinstance(cost, CostAbsence)]
    total = math.fsum(cost for cost, _ in known)
    absent = next((cost for cost in costs if isinstance(cost, CostAbsence)), None)
    if absent or total > COST_MAX_USD:
        return None, {"cost_absent": (absent or CostAbsence.NO_TOKENS).value}
    return total, {"cost_source": ", ".join(sorted({source for _, source in known}))}


def cost_outcome(metadata: Mapping[str, Any]) -> str | None:
    """Return the source of the cost in the metadata of an interaction, as a label of few values; None without a model.

    >>> cost_outcome({"cost_source": "genai-prices 0.2.3"}), cost_outcome({"cost_absent": "no_model"})
    ('computed', 'no_model')
    """
    if "cost_source" in metadata:
        return TOLD if metadata["cost_source"] == TOLD else "computed"
    absent = metadata.get("cost_absent")
    return next((reason.value for reason in CostAbsence if reason.value == absent), None)


def _stated_usd(call: SpanReading) -> float | None:
    usd = call.number("cost", "total", "total_cost")
    return usd if usd is not None and 0 <= usd <= COST_MAX_USD else None


def _cost_of(call: SpanReading, tokens: CallTokens | None) -> tuple[float, str] | CostAbsence:
    stated = _stated_usd(call)
    if stated is not None:
        return stated, TOLD
    model, table = call.text("model"), price_table()
    if model is None:
        return CostAbsence.NO_MODEL
    if tokens is None or table is None:
        return CostAbsence.NO_TOKENS if tokens is None else CostAbsence.NO_PRICE_TABLE
    price = table.price(model, provider=call.text("provider") or "", address=call.text("address") or "")
    cost = None if price is None else price.cost_usd(tokens, datetime.fromtimestamp(call.span.start_ns / 1e9, UTC))
    return CostAbsence.UNKNOWN_MODEL if cost is None else (cost, table.name)


_USAGE_KEYS: Final = (
    ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"),
    ("input_tokens", "output_tokens", "", "input_tokens_details"),
    ("input", "output", "total", ""),
)
"""Keys of the prompt, the completion, their sum and the details of the prompt, in the usage objects of OpenAI's two
interfaces and of Langfuse."""


def tokens_of(call: SpanReading) -> CallTokens | None:
    """Return the tokens of a model call; None if the span does not state them without doubt.

    A usage object has OpenAI's details, or nothing but the keys that leave no doubt about what is counted in them:
    Langfuse's `input_cached_tokens` may be counted in `input` or beside it.
    """
    usage: Any = if_readable(lambda: call.value("input_tokens"), {})
    if not isinstance(usage, Mapping):
        columns = ("input_tokens", "output_tokens", "cache_read", "cache_write")
        return _tokens(*(call.number(column) for column in columns))
    counted = {key for key, value in usage.items() if value}
    for prompt, completion, total, details in _USAGE_KEYS:
        has_details = prompt in usage and details in usage
        if has_details or (total and counted <= {prompt, completion, total}):
            inner = usage[details] if has_details else None
            cached = inner.get("cached_tokens") if isinstance(inner, Mapping) else 0
            return _tokens(usage.get(prompt), usage.get(completion), cached, 0)
    return None


def _tokens(prompt: Any, completion: Any, cache_read: Any, cache_write: Any) -> CallTokens | None:
    numbers = [number_of(count) for count in (prompt, completion, cache_read or 0, cache_write or 0)]
    known = [int(number) for number in numbers if number is not None and number.is_integer()]
    if len(known) < len(numbers):
        return None
    tokens = CallTokens(prompt=known[0], completion=known[1], cache_read=known[2], cache_write=known[3])
    # Every call has a prompt: tracers write 0 for a call whose tokens they do not know, such as one that is streamed.
    return tokens if tokens.prompt > 0 and tokens.are_possible else None
