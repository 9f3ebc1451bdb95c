"""The cost of calls, and estimates of token counts before a call is made."""

from math import ceil

from ragtide_runtime.settings.judge import Price

MESSAGE_TOKENS = 16
"""Tokens around the texts of one call."""


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few: no tokenizer fits all models.

    Four characters of Latin text a token, two of Cyrillic, one of most others.

    >>> estimated_tokens("four"), estimated_tokens("четыре"), estimated_tokens("塔建")
    (2, 4, 3)
    """
    ascii_chars = len(text.encode("ascii", "ignore"))
    wide = sum(letter > "\u2e7f" for letter in text) if ascii_chars < len(text) else 0
    return ceil(ascii_chars / 4 + (len(text) - ascii_chars - wide) / 2 + wide) + 1


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
