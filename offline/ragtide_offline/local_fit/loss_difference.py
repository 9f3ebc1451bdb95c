"""The difference of the squared errors of two labelers over clusters of interactions. Arrays in, numbers out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtide_aggregator.statistics.tables import scipy_functions

from .regression import Floats


@dataclass(frozen=True, slots=True)
class LossDifference:
    """Mean squared errors of two labelers, and the difference with its interval."""

    interactions: int
    questions: int
    shipped: float
    """Mean squared error of the shipped labeler."""
    fitted: float
    """Mean squared error of the fitted labeler."""
    difference: float
    """Fitted minus shipped; negative if the fit is better."""
    lower: float
    upper: float


def loss_difference(
    y: Floats, shipped: Floats, fitted: Floats, weights: Floats, questions: Sequence[str], *, confidence: float
) -> LossDifference:
    """Return the weighted mean difference of squared errors, with an interval by Student's t over questions.

    Assumes: questions are independent. The fits that predicted the folds share most of their interactions, which the
    interval does not count. Raises: ValueError for fewer than two questions.
    Source: the linearized variance of a ratio over clusters, Sarndal, Swensson, Wretman (1992), section 5.7.

    Args:
        y: true scores.
        shipped: scores of the shipped labeler.
        fitted: scores of the fitted labeler, each predicted by a fit to other questions.
        weights: of the interactions.
        questions: of the interactions.
        confidence: level of the interval.
    """
    groups, members = np.unique(np.array(questions, dtype=object), return_inverse=True)
    n = len(groups)
    if n < 2:
        raise ValueError(f"there are {n} questions: an interval needs at least 2")
    total = weights.sum()
    before, after = (shipped - y) ** 2, (fitted - y) ** 2
    mean = float(weights @ (after - before) / total)
    by_question = np.bincount(members, weights * (after - before - mean), n)
    variance = n / (n - 1) * float(by_question @ by_question) / total**2
    half = float(scipy_functions.stdtrit(n - 1, (1 + confidence) / 2)) * variance**0.5
    return LossDifference(
        interactions=len(y),
        questions=n,
        shipped=float(weights @ before / total),
        fitted=float(weights @ after / total),
        difference=mean,
        lower=max(mean - half, -1.0),
        upper=min(mean + half, 1.0),
    )
