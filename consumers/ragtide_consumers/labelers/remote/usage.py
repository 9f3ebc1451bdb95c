"""Tokens, dollars and calls that the labels of one interaction took."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Usage:
    """Tokens, dollars and counts of one interaction, over every try to label it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)
    unusable: Counter[int] = field(default_factory=Counter)
    """Unusable answers so far, by the hash of the prompt's data."""
