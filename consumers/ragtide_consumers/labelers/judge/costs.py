"""The cost of a call of a model, and the calls that labeling would make, to look at the cost first. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragtide_runtime.calls.price_table import CallTokens, TablePrice, price_table
from ragtide_runtime.settings.labelers import JudgeSettings, Price
from ragtide_schemas.times import utc_now

from ..remote.usage import SETTINGS_SOURCE

MESSAGE_TOKENS = 16
"""Tokens around the texts of one call."""
OPENAI_URL: Final = "https://api.openai.com/v1"
"""Endpoint of a judge without an address."""


@dataclass(frozen=True, slots=True)
class CallPrice:
    """The price of a judge's model, and its source."""

    source: str
    """`settings`, or name and version of the price table."""
    price: Price | TablePrice

    def cost_usd(self, *, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float | None:
        """Return the cost of one call now, in US dollars; None if the price table has no price for these tokens.

        >>> price = CallPrice("settings", Price(input=1.0, output=4.0))
        >>> price.cost_usd(prompt_tokens=1_000_000, completion_tokens=500_000)
        3.0
        """
        price = self.price
        if isinstance(price, TablePrice):
            tokens = CallTokens(prompt=prompt_tokens, completion=completion_tokens, cache_read=cached_tokens)
            return price.cost_usd(tokens, utc_now())
        cached = price.input if price.cached_input is None else price.cached_input
        fresh = prompt_tokens - cached_tokens
        return (fresh * price.input + cached_tokens * cached + completion_tokens * price.output) / 1e6


def price_of(judge: JudgeSettings) -> CallPrice | None:
    """Return the price of the judge's model: of the settings, else of the price table; None if neither has one.

    The price table is asked for the provider that the address names. An endpoint of one's own is not in it, whatever
    its models are called.
    """
    if judge.model is None:
        return None
    own = judge.prices.get(judge.model)
    if own is not None:
        return CallPrice(SETTINGS_SOURCE, own)
    table = price_table()
    listed = None if table is None else table.price_at(judge.model, judge.url or OPENAI_URL)
    return None if table is None or listed is None else CallPrice(table.name, listed)


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request for a batch."""

    key: str
    """Key of the answer in the cache: 40 hexadecimal digits."""
    body: Mapping[str, Any]
    """Parameters of a chat completion."""
    expected_usd: float
    """Probable dollars at the ordinary price; 0 without a price."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Progress of a batch."""

    id: str
    status: str
    done: int
    total: int


ShowBatch = Callable[[BatchProgress], None]
"""Shows the progress of a batch."""


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """Calls that would be made, by estimate, without those that faults of answers add."""

    calls: int = 0
    cached: int = 0
    """Answers that are in the cache and cost nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    """Dollars at the known price; 0 without a price."""

    def __add__(self, other: "PlannedCalls") -> "PlannedCalls":
        """Return the sums."""
        return PlannedCalls(
            self.calls + other.calls,
            self.cached + other.cached,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
        )
