"""The cost of a call of a model."""

import os
from dataclasses import dataclass
from typing import Final

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
    url = judge.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
    listed = None if table is None else table.price_at(judge.model, url)
    return None if table is None or listed is None else CallPrice(table.name, listed)
