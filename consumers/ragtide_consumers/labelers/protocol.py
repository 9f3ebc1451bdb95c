"""The labeler protocol: the only thing to implement to score interactions in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Protocol

from ragtide_schemas import Labels, MetricDeclaration, RagInteraction


@dataclass(frozen=True, slots=True)
class LabelerId:
    """Name, version and formulas of the labeler that scored; an estimate never mixes two labeler ids."""

    name: str
    version: str
    profile: str


@dataclass(frozen=True, slots=True)
class ReferenceLabeling:
    """A second labeler's result for an interaction that was chosen for it."""

    labeling: "Labeling"
    by: LabelerId
    inclusion_probability: float
    """Probability with which it was chosen."""
    uniform: bool
    """Whether it is in the part of the sample that was drawn at one rate from all interactions."""


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
    labels: tuple[Labels, ...] = ()
    """The labels the scores were computed from."""
    splitter: str | None = None
    """The rules that cut the sentences."""
    prompts: tuple[str, ...] = ()
    """Prompts a judge was given, by name, language and version."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """Counts of repairs and events during labeling, by name: dropped keys, retries, cache hits."""
    by: LabelerId | None = None
    """The labeler that scored; None if it is the labeler that was asked."""
    judged: ReferenceLabeling | None = None
    """A judge's result for the same interaction."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Range and meaning of each metric, absent ones too, that is not one of ragtide's own."""


class Labeler(Protocol):
    """Scores interactions. An exception is tried again, and after the last delivery becomes a dead letter.

    Two more attributes are used if a labeler has them: `metrics`, the qualified names of the metrics that it gives, and
    `aclose`, which is called in the end.
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
    """Close a labeler that has something to close."""
    aclose = getattr(labeler, "aclose", None)
    closing = None if aclose is None else aclose()
    if isawaitable(closing):
        await closing
