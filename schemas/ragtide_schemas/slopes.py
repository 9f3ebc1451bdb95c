"""How far the numbers of a labeler move with a failure: the slope that was measured, per metric and failure. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .measured_slopes import SLOPES

NEAR_ZERO: Final = 0.1
"""A slope below this is near zero: the failure is not seen in the traffic of a day."""

UNSUPPORTED: Final = "unsupported claims"
"""The failure in which an answer has a claim that no document supports, as people or a strong judge label it."""

ADHERENCE: Final = "trace.adherence"
"""The metric of which unsupported claims are measured."""

OF_LABELS: Final = {
    ADHERENCE: UNSUPPORTED,
    "trace.context_relevance": "irrelevant documents",
    "trace.context_utilization": "unused documents",
}
"""The failure of which the labels of a metric speak, by metric."""

BROKEN_RETRIEVER: Final = "broken retriever"
"""The failure in which the documents are those of another question, and the answer is taken from them."""

OF_CLAIMS: Final = frozenset({ADHERENCE, "trace.supported_fraction"})
"""Metrics of which a reader expects that they fall with unsupported claims."""

_STEADY_FOR: Final = {
    "broken retriever": "a broken retriever",
    "wrong documents": "wrong documents",
    "wrong answer": "wrong answers",
    "changed numbers": "changed numbers",
}
# The failures that a text names, in its words; `ragtide explain` shows all.


@dataclass(frozen=True, slots=True)
class Slope:
    """How far a labeler's mean of a metric gets worse per unit of the share of answers with a failure.

    It is 1 for a number that is right, and 0 for one that does not see the failure.
    """

    failure: str
    """Name of a corruption such as `wrong documents`, or of what labels say, such as `unsupported claims`."""
    slope: float
    """Mean over the data sets, in units of the metric; below 0 if the mean gets better."""
    lower: float
    """Lowest of the data sets: a new data set lies between both ends in two of three cases with five sets. With a
    single data set both are the ends of its 95% interval."""
    upper: float
    """Highest of the data sets."""
    rows: int
    """Number of rows that were compared."""

    @property
    def is_seen(self) -> bool:
        """Whether the number follows the failure: the slope is not near zero, and above 0 in every data set."""
        return self.slope >= NEAR_ZERO and self.lower > 0

    def __str__(self) -> str:
        """Return the failure with its slope, such as `wrong documents 0.45`."""
        return f"{self.failure} {self.slope:.2f}"


SlopesByMetric = Mapping[str, tuple[Slope, ...]]
"""Slopes of a labeler by metric."""


@lru_cache
def shipped_slopes(labeler: str) -> SlopesByMetric:
    """Return the slopes of a labeler that ship with ragtide; empty if nothing was measured.

    >>> shipped_slopes("mine")
    {}
    """
    return {
        metric: tuple(Slope(failure, *figures) for failure, figures in failures.items())
        for metric, failures in SLOPES.get(labeler, {}).items()
    }


def slopes_of(labeler: str, metric: str) -> tuple[Slope, ...]:
    """Return the slopes of a shipped labeler's numbers of a metric; empty if nothing was measured.

    >>> slopes_of("mine", "trace.adherence")
    ()
    """
    return shipped_slopes(labeler).get(metric, ())


def is_blind(slopes: Iterable[Slope], failure: str) -> bool:
    """Return whether numbers that were measured do not follow a failure.

    >>> metrics = ("retrieval.match", "trace.adherence", "own.f1")
    >>> [is_blind(slopes_of("local", metric), BROKEN_RETRIEVER) for metric in metrics]
    [False, True, False]
    """
    measured = [*slopes]
    return bool(measured) and not any(slope.failure == failure and slope.is_seen for slope in measured)


def misses_claims(slopes: SlopesByMetric, metric: str) -> bool:
    """Return whether the measured numbers of a metric about claims do not follow unsupported claims.

    Args:
        slopes: of the labeler. Of another metric about claims those of adherence count.
        metric: name of the metric.

    >>> local = shipped_slopes("local")
    >>> misses_claims(local, "trace.adherence"), misses_claims(local, "trace.context_relevance")
    (True, False)
    """
    measured = slopes.get(metric, ())
    return metric in OF_CLAIMS and is_blind(measured and (*measured, *slopes.get(ADHERENCE, ())), UNSUPPORTED)


def steady_for(slopes: SlopesByMetric, metric: str) -> str | None:
    """Return for what a steady number of a metric is steady, if it does not see unsupported claims.

    None if it sees them, or if nothing was measured.

    >>> steady_for(shipped_slopes("local"), "trace.adherence")
    'wrong documents, wrong answers and changed numbers'
    >>> steady_for({}, "trace.adherence") is None
    True
    """
    if not misses_claims(slopes, metric):
        return None
    seen = {slope.failure for slope in slopes[metric] if slope.is_seen}
    named = [words for failure, words in _STEADY_FOR.items() if failure in seen]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1]))) if named else "no failure that was measured"


def slopes_in_words(labeler: str, metric: str) -> str:
    """Return a phrase about the slopes of a shipped labeler's numbers of a metric, the steepest first.

    It is empty without any.

    >>> slopes_in_words("mine", "trace.adherence")
    ''
    """
    slopes = sorted(slopes_of(labeler, metric), key=lambda slope: -slope.slope)
    parts = {
        "falls with": [str(slope) for slope in slopes if slope.is_seen],
        "does not see": [str(slope) for slope in slopes if not slope.is_seen],
    }
    return "; ".join(f"{words} {', '.join(named)}" for words, named in parts.items() if named)
