"""Which of several estimates of a metric a reader chooses. No NumPy, because every table of numbers needs it."""

from collections.abc import Iterable
from typing import Final

from ragtide_schemas import Estimate

from ..events.keys import GOLD_LABELER, UNBOUNDED
from ..statistics.tables.names import ALL_TIME

PREDICTION_POWERED: Final = "prediction_powered"

ESTIMATORS: Final = ("mean", "weighted", PREDICTION_POWERED)
"""Ways to estimate a mean from scores."""

RECOMMENDED: Final = "recommended"
"""Chooses means, and the prediction-powered means by a reference labeler that have an interval."""


def chosen(
    results: Iterable[Estimate], *, window: str = ALL_TIME, estimator: str = "mean", labeling: bool = False
) -> list[Estimate]:
    """Return the estimates of one window and estimator; by default the means of all time.

    Args:
        results: estimates.
        window: name of the window.
        estimator: `mean`, `weighted`, `prediction_powered`, `recommended`, or `all`.
        labeling: whether to return time and cost of labeling instead of scores.
    """
    return [
        e for e in results if e.window == window and _is_chosen(e, estimator) and (e.metric in UNBOUNDED) == labeling
    ]


def _is_chosen(estimate: Estimate, estimator: str) -> bool:
    if estimator == RECOMMENDED:
        # Below about 30 judged items the interval is the whole range, so the estimate does not help a reader yet.
        # Gold scores of users are no sample with known probabilities, so their estimates are only shown on request.
        sampled = estimate.estimator == PREDICTION_POWERED and estimate.labeler != GOLD_LABELER
        return estimate.estimator == "mean" or (sampled and estimate.has_interval)
    return estimator in ("all", estimate.estimator)
