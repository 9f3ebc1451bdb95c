"""The cost of the model calls of an interaction: stated by its spans, or else computed from their tokens."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ragtide_runtime.calls.price_table import CallTokens, price_table
from ragtide_schemas.limits import COST_MAX_USD

from .reading import NUMBER_MAX, SpanReading, if_readable

TOLD: Final = "trace"
"""Source of a cost that the spans state."""
MODELS_MAX: Final = 32
"""Most different models of one interaction that are looked up: each look-up of a new name takes milliseconds."""
_PLAIN_KEYS: Final = frozenset({"input", "output", "total"})
"""Keys of Langfuse's usage that leave no doubt about what is counted in them."""


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


def cost_of(calls: Sequence[SpanReading]) -> tuple[float | None, dict[str, str]]:
    """Return the US dollars of model calls, and what the metadata of their interaction says about this number.

    It is the sum over all calls. `cost_source` is `trace` if the spans state the cost, or else name and version of the
    price table. A part of a sum is no cost: if the cost of one call is unknown, there is no sum, and `cost_absent` has
    the reason. There is none for calls that report no model, no tokens and no cost.
    """
    if not any(_says_something(call) for call in calls):
        return None, {}
    names = {call.text("model") for call in calls}
    found = [_cost_of(call) for call in calls] if len(names) <= MODELS_MAX else [CostAbsence.UNKNOWN_MODEL]
    known = [cost for cost in found if not isinstance(cost, CostAbsence)]
    total = math.fsum(cost for cost, _ in known)
    absent = next((cost for cost in found if isinstance(cost, CostAbsence)), None)
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


def _says_something(call: SpanReading) -> bool:
    return call.text("model") is not None or _stated_usd(call) is not None or call.number("input_tokens") is not None


def _stated_usd(call: SpanReading) -> float | None:
    found = call.number("cost", "total", "total_cost")
    return found if found is not None and 0 <= found <= COST_MAX_USD else None


def _cost_of(call: SpanReading) -> tuple[float, str] | CostAbsence:
    stated = _stated_usd(call)
    if stated is not None:
        return stated, TOLD
    model, tokens, table = call.text("model"), tokens_of(call), price_table()
    if model is None or tokens is None or table is None:
        absences = ((model, CostAbsence.NO_MODEL), (tokens, CostAbsence.NO_TOKENS), (table, CostAbsence.NO_PRICE_TABLE))
        return next(absence for known, absence in absences if known is None)
    price = table.price(model, provider=call.text("provider") or "", address=call.text("address") or "")
    cost = None if price is None else price.cost_usd(tokens, datetime.fromtimestamp(call.span.start_ns / 1e9, UTC))
    return CostAbsence.UNKNOWN_MODEL if cost is None else (cost, table.name)


def tokens_of(call: SpanReading) -> CallTokens | None:
    """Return the tokens of a model call; None if the span does not state them without doubt."""
    usage = if_readable(lambda: call.mapping("input_tokens"), {})
    if usage is not None:
        return _tokens_in(usage)
    return _tokens(
        call.number("input_tokens"),
        call.number("output_tokens"),
        call.number("cache_read") or 0.0,
        call.number("cache_write") or 0.0,
    )


def _tokens_in(usage: Mapping[str, Any]) -> CallTokens | None:
    """Return the tokens in a usage object: in OpenAI's form, or in Langfuse's own with nothing but these keys.

    Other keys, such as Langfuse's `input_cached_tokens`, may be counted in `input` or beside it.
    """
    for prompt, completion, details in (
        ("prompt_tokens", "completion_tokens", "prompt_tokens_details"),
        ("input_tokens", "output_tokens", "input_tokens_details"),
    ):
        if prompt in usage and details in usage:
            inner = usage[details]
            cached = inner.get("cached_tokens") if isinstance(inner, Mapping) else 0
            return _tokens(usage[prompt], usage.get(completion), cached or 0, 0)
    counted = {key for key, value in usage.items() if value}
    if counted <= _PLAIN_KEYS:
        return _tokens(usage.get("input"), usage.get("output"), 0, 0)
    if counted <= {"prompt_tokens", "completion_tokens", "total_tokens"}:
        return _tokens(usage.get("prompt_tokens"), usage.get("completion_tokens"), 0, 0)
    return None


def _tokens(prompt: Any, completion: Any, cache_read: Any, cache_write: Any) -> CallTokens | None:
    numbers = [_whole(number) for number in (prompt, completion, cache_read, cache_write)]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    tokens = CallTokens(prompt=known[0], completion=known[1], cache_read=known[2], cache_write=known[3])
    # Every call has a prompt: tracers write 0 for a call whose tokens they do not know, such as one that is streamed.
    return tokens if tokens.prompt > 0 and tokens.are_possible else None


def _whole(number: Any) -> int | None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not abs(number) <= NUMBER_MAX:  # not a number is not smaller
        return None
    return int(number) if number == int(number) else None
