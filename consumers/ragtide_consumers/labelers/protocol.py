"""What a labeler is: the one thing to implement to score interactions in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ragtide_schemas import ClaimLabels, MetricDeclaration, RagInteraction, SentenceLabels, SentenceProbabilities

Labels = SentenceLabels | SentenceProbabilities | ClaimLabels
"""What a labeler says about an interaction before any formula."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who scored, by which version and formulas: what estimates never mix."""

    name: str
    version: str
    profile: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What a second labeler made of an interaction that was chosen for it."""

    labeling: "Labeling"
    by: Identity
    inclusion_probability: float
    """Probability with which it was chosen."""
    uniform: bool
    """Whether it is in the part of the sample that was drawn at one rate from all interactions."""


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
    labels: tuple[Labels, ...] = ()
    """The labels the scores were computed from."""
    splitter: str | None = None
    """Which rules cut the sentences."""
    prompts: tuple[str, ...] = ()
    """Prompts a judge was given, by name, language and version."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What the labeler mended or met, by name: dropped keys, retries, cache hits."""
    by: Identity | None = None
    """Who scored, where it was not the labeler that was asked; None if it was."""
    judged: Judged | None = None
    """What a judge said of the same interaction."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Range and meaning of each metric, absent ones too, that is not one of ragtide's own."""


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
