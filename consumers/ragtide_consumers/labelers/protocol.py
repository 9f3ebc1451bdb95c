"""The labeler protocol: a class that implements it scores interactions in another way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from math import isfinite
from typing import Final, Protocol

from ragtide_runtime.errors import RagtideError
from ragtide_schemas import Labels, MetricDeclaration, RagInteraction

USUAL_WAIT_S: Final = 30.0
"""Seconds to wait for a labeler that does not name a time."""

LONGEST_WAIT_S: Final = 300.0
"""Most seconds until a labeler is called again."""


class LabelerUnavailable(RagtideError):  # noqa: N818  # reads as the state it names
    """A labeler cannot label now, and the interaction is not the cause.

    A worker keeps the interaction and calls the labeler again after `resume_in_s`; the try does not count as a
    delivery. In a cascade only the interactions that were chosen for the labeler wait, or its metrics are
    absent (`cascade.when_unavailable`).

    Args:
        resume_in_s: seconds until the next call; 30 unless it is a finite positive number.
        because: the reason, for the log and for /readyz.

    >>> LabelerUnavailable(5, "the model is being loaded").resume_in_s
    5.0
    """

    def __init__(self, resume_in_s: float = USUAL_WAIT_S, because: str = "") -> None:
        super().__init__(because or "the labeler is unavailable: it gave no reason")
        usable = isinstance(resume_in_s, int | float) and isfinite(resume_in_s) and resume_in_s > 0
        self.resume_in_s = float(resume_in_s) if usable else USUAL_WAIT_S


class SampleUnavailable(LabelerUnavailable):
    """The labeler of a cascade's sample cannot label now: the interaction waits without holding up others."""


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
