"""Measures the agreement of predictions with reference scores of the same responses. Arrays in, numbers out.

The formulas and their pitfalls are in docs/scores/agreement.md. An undefined number is None, never 0, such as a rank
correlation of constants, or an AUROC or a kappa of a single class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Floats, Indexes, Measured, measured, resamples

UNDEFINED: Final = float("nan")


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of the predictions of one metric with the reference."""

    n: int
    rmse: Measured
    constant_rmse: float | None
    """RMSE of always predicting the reference's mean; a useful labeler has a lower RMSE."""
    bias: Measured
    """Mean of prediction minus reference."""
    slope: Measured
    """How far the mean of the predictions moves per unit of the reference."""
    spearman: Measured
    auroc: Measured
    """Probability that an item whose reference is high has a higher prediction than an item whose reference is low."""
    f1: Measured
    """F1 of finding the low items (below the threshold), such as unsupported answers."""
    kappa: Measured
    """Cohen's kappa for the two sides of the threshold."""
    accuracy: Measured
    majority: float | None
    """Accuracy of always predicting the more frequent side of the threshold."""


@dataclass(frozen=True, slots=True)
class FamilyAgreement:
    """The error over all metrics of a family."""

    rmse: Measured
    """Root of the mean of the metrics' squared RMSEs."""
    consistency: Measured
    """1 - min(RMSE, 1)."""


def agreement(
    predicted: Floats,
    reference: Floats,
    *,
    threshold: float = 0.5,
    confidence: float = 0.95,
    clusters: NDArray[np.generic] | None = None,
    seed: int = 0,
) -> Agreement:
    """Return the agreement of predictions with a reference, each statistic with its bootstrap interval.

    Args:
        predicted: n values.
        reference: n values of the same responses.
        threshold: lowest value that counts as high.
        confidence: level of the intervals.
        clusters: cluster of each item; the bootstrap draws whole clusters.

    Raises: ValueError unless both have the same length and are finite.
    """
    if predicted.shape != reference.shape or predicted.ndim != 1:
        raise ValueError(f"predicted has shape {predicted.shape} and reference {reference.shape}: give one of each")
    if not (np.isfinite(predicted).all() and np.isfinite(reference).all()):
        raise ValueError("a value of predicted or reference is not finite: leave such items out")
    n = len(predicted)
    samples = resamples(n, clusters, seed=seed) if n else []
    high, named = reference >= threshold, predicted >= threshold

    def of(statistic: Callable[..., float], *columns: NDArray[np.generic]) -> Measured:
        def at(index: Indexes) -> float:
            return statistic(*(column[index] for column in columns))

        return measured(at, n, samples, confidence=confidence)

    return Agreement(
        n=n,
        rmse=of(rmse, predicted, reference),
        constant_rmse=float(np.std(reference)) if n else None,
        bias=of(bias, predicted, reference),
        slope=of(slope, predicted, reference),
        spearman=of(spearman, predicted, reference),
        auroc=of(auroc, predicted, high),
        f1=of(f1, ~named, ~high),
        kappa=of(kappa, named, high),
        accuracy=of(accuracy, named, high),
        majority=float(max(high.mean(), 1 - high.mean())) if n else None,
    )


def family_agreement(
    errors: Mapping[str, Floats],
    *,
    confidence: float = 0.95,
    clusters: NDArray[np.generic] | None = None,
    seed: int = 0,
) -> FamilyAgreement:
    """Return the aggregated RMSE of several metrics, and the consistency score.

    Args:
        errors: prediction minus reference by metric, n values each; NaN for an item without the metric.
        confidence: level of the intervals.
        clusters: cluster of each item.
    """
    columns = np.array(list(errors.values()))
    n = columns.shape[1] if columns.size else 0
    samples = resamples(n, clusters, seed=seed) if n else []

    def aggregated(index: Indexes) -> float:
        squares = columns[:, index] ** 2
        there = ~np.isnan(squares)
        counts = there.sum(axis=1)
        if not counts.all():
            return UNDEFINED
        return float(np.sqrt((np.where(there, squares, 0.0).sum(axis=1) / counts).mean()))

    total = measured(aggregated, n, samples, confidence=confidence)
    consistency = measured(lambda index: 1 - min(aggregated(index), 1.0), n, samples, confidence=confidence)
    return FamilyAgreement(total, consistency if total.value is not None else Measured(None))


def rmse(predicted: Floats, reference: Floats) -> float:
    """Return the root of the mean squared difference."""
    return float(np.sqrt(np.mean((predicted - reference) ** 2)))


def bias(predicted: Floats, reference: Floats) -> float:
    """Return the mean of prediction minus reference."""
    return float(np.mean(predicted - reference))


def slope(predicted: Floats, reference: Floats) -> float:
    """Return the least-squares slope of the predictions on the reference; NaN of a constant reference.

    If the reference is 0 or 1, this is the mean prediction of the items with 1 minus that of the items with 0. A mean
    of the reference that falls by d moves the mean of the predictions by d times the slope, if the predictions depend
    on the reference as they do here.

    >>> slope(np.array([0.75, 0.5, 0.5, 0.25]), np.array([1.0, 1.0, 0.0, 0.0]))
    0.25
    """
    if not np.ptp(reference):
        return UNDEFINED
    centered = reference - reference.mean()
    return float(centered @ predicted) / float(centered @ centered)


def average_ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1; equal values have the mean of their ranks.

    This is `scipy.stats.rankdata`, whose import takes longer than most comparisons.
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def spearman(predicted: Floats, reference: Floats) -> float:
    """Return the correlation of the ranks; NaN if predictions or references are constant."""
    ranks, others = average_ranks(predicted), average_ranks(reference)
    ranks, others = ranks - ranks.mean(), others - others.mean()
    spread = float(np.sqrt((ranks @ ranks) * (others @ others)))
    return float(ranks @ others) / spread if spread > 0 else UNDEFINED


def auroc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Return the probability that a positive has a higher score than a negative; ties count half; NaN with one class.

    Source: Hanley and McNeil (1982); Mann and Whitney's U over the number of pairs.
    """
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return UNDEFINED
    return (float(average_ranks(scores)[positive].sum()) - n * (n + 1) / 2) / (n * m)


def f1(named: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Return the harmonic mean of precision and recall; NaN if no item is true and none is named."""
    both = float((named & true).sum())
    total = float(named.sum() + true.sum())
    return 2 * both / total if total else UNDEFINED


def kappa(named: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Return Cohen's kappa, the agreement beyond chance; NaN if chance alone always agrees."""
    chance = float(named.mean() * true.mean() + (1 - named.mean()) * (1 - true.mean()))
    return (accuracy(named, true) - chance) / (1 - chance) if chance < 1 else UNDEFINED


def accuracy(named: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    """Return the share of items on which both agree."""
    return float((named == true).mean())
