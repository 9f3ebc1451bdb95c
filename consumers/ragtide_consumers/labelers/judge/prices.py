"""The cost of a call of a model."""

from ragtide_runtime.settings.judge import Price

MESSAGE_TOKENS = 16
"""Tokens around the texts of one call."""


def cost(price: Price | None, *, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
    """Return the cost of one call in US dollars; 0 for a model without a price.

    >>> cost(Price(input=1.0, output=4.0), prompt_tokens=1_000_000, completion_tokens=500_000)
    3.0
    """
    if price is None:
        return 0.0
    cached = price.input if price.cached_input is None else price.cached_input
    fresh = prompt_tokens - cached_tokens
    return (fresh * price.input + cached_tokens * cached + completion_tokens * price.output) / 1e6
