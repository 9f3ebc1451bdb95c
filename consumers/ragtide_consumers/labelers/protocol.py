"""The labeler protocol: a class that implements it scores interactions in another way."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from math import isfinite
from typing import Final, Protocol

from ragtide_runtime.errors import RagtideError
from ragtide_schemas import Labels, MetricDeclaration, RagInteraction
from ragtide_schemas.criterion import Criterion

from ..text.reasoning import without_thoughts

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
    """One of several labelers cannot label now: the interaction waits for it without holding up others.

    Args:
        resume_in_s: seconds until the next call.
        because: the reason.
        labeler: name of the labeler, or of the evaluator, that is waited for.
        is_over_budget: whether it has reached its spend limit.
    """

    def __init__(self, resume_in_s: float, because: str, labeler: str, *, is_over_budget: bool = False) -> None:
        super().__init__(resume_in_s, because)
        self.labeler = labeler
        self.is_over_budget = is_over_budget


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
    uniform_probability: float | None
    """Probability of being in the part of the sample that is drawn at one rate from all interactions; None outside."""


@dataclass(frozen=True, slots=True)
class EvaluatorLabeling:
    """The result of a further evaluator for an interaction."""

    labeling: "Labeling"
    by: LabelerId
    inclusion_probability: float
    """Probability with which the interaction was chosen for the evaluator."""
    of_all: bool = False
    """Whether each interaction of the pipeline has a chance of this labeler's scores."""


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
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The judge's reasons: by qualified metric name, or by `sentence:KEY` for a response sentence."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """The judge's answer to each criterion that it decided, such as `yes`, by qualified metric name."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Share of the labeled interactions of which a metric is asked, by metric, below 1; other metrics are asked of
    all."""
    beside: tuple[EvaluatorLabeling, ...] = ()
    """The results of further evaluators; tokens, cost and counters are those of all together."""


class Labeler(Protocol):
    """Scores interactions. After an exception the interaction is tried again, until its last delivery.

    More attributes are used if a labeler has them: `metrics`, the qualified names of the metrics that it gives;
    `absent_labeling`, which returns the labeling of an interaction in which all its metrics are absent for one reason;
    `take_criteria`, which replaces the criteria that it asks; `scores_sessions`, whether it scores whole sessions, with
    `criteria`, those that it asks; and `aclose`, which is called at the end.
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
        """Return the scores of one interaction.

        Args:
            interaction: to score.
        """


class OfAnother(ABC):
    """The id of another labeler, which a labeler asks and whose scores it passes on."""

    @property
    @abstractmethod
    def _labeler(self) -> Labeler:
        """The labeler that is asked."""

    @property
    def name(self) -> str:
        """Name of the labeler that is asked."""
        return self._labeler.name

    @property
    def version(self) -> str:
        """Version of the labeler that is asked."""
        return self._labeler.version

    @property
    def profile(self) -> str:
        """Profile of the labeler that is asked."""
        return self._labeler.profile


async def scores_of(labeler: Labeler, interaction: RagInteraction) -> Labeling:
    """Return a labeler's scores of an answer, or of a session: a labeler that knows no sessions has no scores of it.

    A labeler knows sessions if it has `scores_sessions`. It reads the answers without the reasoning of their model.

    Args:
        labeler: to call.
        interaction: an answer, or a whole session.

    Raises:
        LabelerUnavailable: the labeler cannot label now.
    """
    if interaction.is_session and not getattr(labeler, "scores_sessions", False):
        return Labeling({})
    return await labeler.label(without_thoughts(interaction))


def criteria_of(labeler: Labeler) -> Sequence[Criterion]:
    """Return the criteria that the judges of a labeler ask at present; empty without a judge."""
    return getattr(labeler, "criteria", ()) if getattr(labeler, "scores_sessions", False) else ()


def take_criteria(labeler: Labeler, criteria: Sequence[Criterion]) -> None:
    """Replace the criteria that a labeler asks, from the next interaction on; others are left as they are.

    Raises:
        ValueError: the criteria cannot be asked together.
    """
    take = getattr(labeler, "take_criteria", None)
    if take is not None:
        take(criteria)


async def close(labeler: Labeler) -> None:
    """Close a labeler if it has `aclose`."""
    aclose = getattr(labeler, "aclose", None)
    closing = None if aclose is None else aclose()
    if isawaitable(closing):
        await closing
