"""What a labeler is: the one thing to implement to score interactions in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ragtide_schemas import ClaimLabels, RagInteraction, SentenceLabels, SentenceProbabilities

Labels = SentenceLabels | SentenceProbabilities | ClaimLabels
"""What a labeler says about an interaction before any formula."""


@dataclass(frozen=True, slots=True)
class Labeling:
    """What a labeler made of one interaction."""

    scores: Mapping[str, float]
    """Score by qualified metric name, such as `trace.adherence`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """For each metric that could not be computed, why."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    inclusion_probability: float = 1.0
    """Probability with which the interaction was chosen for this labeler."""
    labels: tuple[Labels, ...] = ()
    """The labels the scores were computed from."""
    splitter: str | None = None
    """Which rules cut the sentences."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What the labeler mended or met, by name: dropped keys, retries, cache hits."""


class Labeler(Protocol):
    """Scores interactions. An exception is tried again, and after the last delivery becomes a dead letter."""

    @property
    def name(self) -> str:
        """Name on every event, such as `local`."""

    @property
    def version(self) -> str:
        """Changes whenever the scores may differ, because estimates never mix two versions."""

    @property
    def profile(self) -> str:
        """Variant of the formulas, such as `ragbench`."""

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the scores of one interaction."""
