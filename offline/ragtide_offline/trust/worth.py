"""The worth of a labeler's numbers: how far they move with labels, how soon a rule sees a fall, and the price. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.comparisons.agreement import Agreement, agreement
from ragtide_aggregator.statistics.comparisons.bootstrap import Floats
from ragtide_aggregator.statistics.drift.sights import Sight, sight
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_schemas import Direction, MetricDefinition
from ragtide_schemas.known_labelers import KNOWN
from ragtide_schemas.slopes import OF_LABELS, Slope

FALLS: Final = (0.1, 0.2, 0.4)
"""Falls of the true mean, as shares of the metric's range, of which it is shown how soon they are seen."""

RATES: Final = (0.05, 0.1)
"""Shares of the answers that a labeler with a price scores, unless others are given."""

ENOUGH_ROWS: Final = 50
"""Fewest rows with which the intervals are narrow enough to choose a labeler."""


@dataclass(frozen=True, slots=True)
class PipelineTraffic:
    """The traffic at which labelers are compared."""

    answers_a_day: float
    pipeline: str | None = None
    """The pipeline that has it now; None if it was given."""


@dataclass(frozen=True, slots=True)
class LabeledScores:
    """The scores of one labeler of one metric beside the labels of the same rows, n values each."""

    metric: str
    labeler: LabelerId
    predicted: Floats
    truth: Floats
    """Labels, as values of the metric."""
    questions: NDArray[np.str_] | None = None
    """Digest of the question of each row, because answers to one question are alike; None if they are not known."""
    absent: int = 0
    """Number of rows with a label and without a score."""
    cost_usd: float | None = None
    """US dollars for the scores of one row; None if the price is not known."""


@dataclass(frozen=True, slots=True)
class LabelerWorth:
    """What the numbers of one labeler of one metric are worth."""

    metric: str
    labeler: LabelerId
    agreement: Agreement
    """With the labels: the slope, kappa, AUROC and more, each with its interval."""
    good: int | None
    """Number of rows with the label 1; None if other labels than 0 and 1 are there."""
    bad: int | None
    """Number of rows with the label 0."""
    absent: int
    """Number of rows with a label and without a score."""
    mean: float | None
    """Mean of the scores; None without any."""
    sd: float | None
    """Their standard deviation; None of scores that are all at an end of the range, and without any."""
    cost_usd: float | None
    """US dollars for one row; None if the price is not known."""
    higher_is_better: bool
    sights: tuple[Sight, ...]

    @property
    def follows_the_labels(self) -> bool:
        """Whether the scores are known to move with the labels: the interval of the slope is above 0."""
        lower = self.agreement.slope.lower
        return lower is not None and lower > 0

    @property
    def slope(self) -> Slope | None:
        """The slope as other parts read it; None without an interval, or of a metric without a named failure."""
        measured, failure = self.agreement.slope, OF_LABELS.get(self.metric)
        if failure is None or measured.value is None or measured.lower is None or measured.upper is None:
            return None
        return Slope(failure, measured.value, measured.lower, measured.upper, self.agreement.n)

    def as_dict(self) -> dict[str, Any]:
        """Return the worth as values that JSON can hold."""
        measures = asdict(self.agreement)
        return {
            "metric": self.metric,
            "labeler": self.labeler.name,
            "labeler_version": self.labeler.version,
            "profile": self.labeler.profile,
            "rows": measures.pop("n"),
            "good": self.good,
            "bad": self.bad,
            "absent": self.absent,
            "mean": self.mean,
            "sd": self.sd,
            **measures,
            "cost_usd_per_item": self.cost_usd,
            "higher_is_better": self.higher_is_better,
            "sees": [asdict(sight) for sight in self.sights],
        }


def worth_of(
    scores: LabeledScores,
    definition: MetricDefinition | None,
    *,
    rates: Sequence[float] = RATES,
    traffic: float | None = None,
    threshold: float = 0.5,
    confidence: float = 0.95,
    seed: int = 0,
) -> LabelerWorth:
    """Return what the numbers of a labeler are worth.

    Args:
        scores: of the labeler, beside labels.
        definition: of the metric; None for one between 0 and 1 whose higher values are better.
        rates: shares of the answers that the labeler may score, each above 0 and at most 1; a labeler that is free
            scores all.
        traffic: answers a day; None if it is not known.
        threshold: share of the metric's range from which values count as high, for kappa and AUROC.
        confidence: level of the intervals.
        seed: of the bootstrap, which draws questions.
    """
    lowest, highest = (0.0, 1.0) if definition is None else (definition.lower, definition.upper)
    verdicts = bool(np.isin(scores.predicted, (lowest, highest)).all())
    binary = bool(np.isin(scores.truth, (lowest, highest)).all())
    measures = agreement(
        scores.predicted,
        scores.truth,
        threshold=lowest + threshold * (highest - lowest),
        confidence=confidence,
        clusters=scores.questions,
        seed=seed,
    )
    high, low = (int((scores.truth == end).sum()) for end in (highest, lowest))
    lower_is_better = definition is not None and definition.direction is Direction.LOWER
    good, bad = (low, high) if lower_is_better else (high, low)
    known = bool(len(scores.predicted))
    worth = LabelerWorth(
        metric=scores.metric,
        labeler=scores.labeler,
        agreement=measures,
        good=good if binary else None,
        bad=bad if binary else None,
        absent=scores.absent,
        mean=float(scores.predicted.mean()) if known else None,
        sd=float(scores.predicted.std()) if known and not verdicts else None,
        cost_usd=scores.cost_usd,
        higher_is_better=not lower_is_better,
        sights=(),
    )
    used = (1.0,) if is_free(scores.labeler.name) else tuple(rates)
    return replace(worth, sights=tuple(_sight(worth, (lowest, highest), rate, traffic) for rate in used))


def is_free(labeler: str) -> bool:
    """Return whether a labeler makes no calls, so that it scores every answer."""
    return labeler in KNOWN and KNOWN[labeler].is_free


def _sight(worth: LabelerWorth, ends: tuple[float, float], rate: float, traffic: float | None) -> Sight:
    width = ends[1] - ends[0]
    mean = ends[0] if worth.mean is None else worth.mean
    return sight(
        rate,
        FALLS,
        mean=(mean - ends[0] if worth.higher_is_better else ends[1] - mean) / width,
        slope=worth.agreement.slope.value if worth.follows_the_labels and worth.mean is not None else None,
        sd=None if worth.sd is None else worth.sd / width,
        usd_per_score=worth.cost_usd,
        answers_a_day=traffic,
    )
