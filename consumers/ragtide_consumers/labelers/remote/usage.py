"""Counts the tokens, dollars and calls of the labels of one interaction, over all its tries."""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from ragtide_schemas import RagInteraction

from ..protocol import LabelerUnavailable, Labeling

SETTINGS_SOURCE: Final = "settings"
"""Source of a cost that the prices in the settings give."""
MOST_UNFINISHED: Final = 4096
"""Most waiting interactions whose cost so far is remembered."""


@dataclass(slots=True)
class Usage:
    """Tokens, dollars and counts of one interaction, over every try to label it."""

    pipeline: str = ""
    """The interaction's pipeline; empty if it is not known."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    cost_sources: set[str] = field(default_factory=set)
    """Sources of the prices of calls; empty if no price was known."""
    counters: Counter[str] = field(default_factory=Counter)
    unusable: Counter[int] = field(default_factory=Counter)
    """Unusable answers so far, by the hash of the question."""

    def spent(self, cost_usd: float, source: str | None) -> None:
        """Add the cost of a call, and the source of its price; None if its price is not known."""
        self.cost_usd += cost_usd
        if source is not None:
            self.cost_sources.add(source)

    def add(self, other: "Usage") -> None:
        """Add the tokens, dollars and counts of further calls for the same interaction."""
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.cost_usd += other.cost_usd
        self.cost_sources |= other.cost_sources
        self.counters.update(other.counters)

    def add_to(self, labeling: Labeling) -> Labeling:
        """Return a labeling with this usage."""
        return replace(
            labeling,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            cost_sources=frozenset(self.cost_sources),
            counters={**labeling.counters, **{name: count for name, count in self.counters.items() if count}},
        )


class UnfinishedUsage:
    """Remembers the usage of interactions that wait for an endpoint, so that their event has the usage of all tries."""

    def __init__(self) -> None:
        self._usage: OrderedDict[tuple[str, str], Usage] = OrderedDict()

    @contextmanager
    def of(self, interaction: RagInteraction) -> Iterator[Usage]:
        """Yield the usage of an interaction so far, and remember it if the labeler is unavailable."""
        key = interaction.pipeline, interaction.interaction_id
        usage = self._usage.pop(key, None) or Usage(interaction.pipeline)
        try:
            yield usage
        except LabelerUnavailable:
            self._usage[key] = usage
            if len(self._usage) > MOST_UNFINISHED:
                self._usage.popitem(last=False)
            raise
