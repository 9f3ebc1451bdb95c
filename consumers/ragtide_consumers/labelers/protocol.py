"""The labeler protocol: a class that implements it can score interactions in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Protocol

from ragtide_schemas import Labels, MetricDeclaration, RagInteraction


@dataclass(frozen=True, slots=True)
class LabelerId:
    """Name, version and formulas of a labeler; an estimate never mixes two labeler ids."""

    name: str
    version: str
    profile: str


@dataclass(frozen=True, slots=True)
class ReferenceLabeling:
    """A second labeler's result for an interaction that was chosen for it."""

    labeling: "Labeling"
    by: LabelerId
    inclusion_probability: float
    """Probability with which the interaction was chosen."""
    uniform: bool
    """Whether the interaction is in the part of the sample that was drawn at a single rate from all interactions."""


@dataclass(frozen=True, slots=True)
class Labeling:
    """A labeler's result for one interaction."""

    scores: Mapping[str, float]
    """Score by qualified metric name, such as `trace.adherence`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The reason for each metric that could not be computed."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    cost_sources: frozenset[str] = frozenset()
    """Sources of the prices: `settings`, or name and version of a price table; empty if no price was known."""
    labels: tuple[Labels, ...] = ()
    """The labels from which the scores were computed."""
    splitter: str | None = None
    """The rules that split the sentences."""
    prompts: tuple[str, ...] = ()
    """Prompts of the judge, by name, language and version."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Counts of repairs and events during labeling, by name: dropped keys, retries, cache hits."""
    by: LabelerId | None = None
    """The labeler that scored; None if it is the labeler that was called."""
    judged: ReferenceLabeling | None = None
    """The result of the reference for the same interaction."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Range and meaning of each custom metric, absent or not."""


class Labeler(Protocol):
    """Scores interactions. After an exception the interaction is tried again, until its last delivery.

    Two more attributes are used if a labeler has them: `metrics`, the qualified names of the metrics that it gives, and
    `aclose`, which is called at the end.
    """

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


async def close(labeler: Labeler) -> None:
    """Close a labeler if it has `aclose`."""
    aclose = getattr(labeler, "aclose", None)
    closing = None if aclose is None else aclose()
    if isawaitable(closing):
        await closing
