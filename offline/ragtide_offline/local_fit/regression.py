"""A regularized logistic regression on top of given log odds, and its gain over them. Arrays in, arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.statistics.tables import scipy_functions
from ragtide_consumers.labelers.local.adjustment import STEEPEST
from ragtide_consumers.labelers.local.correction_file import CrossValidated

Floats = NDArray[np.float64]
Folds = NDArray[np.intp]

PairScores = tuple[Floats, Floats]
"""The scores of n clean interactions and of their n spoilt versions."""

FOLDS: Final = 5
"""Parts of the questions; each part is predicted by a fit to the others."""

PAIRS_SHARE: Final = 0.1
"""A spoilt interaction, with all its pairs, counts as so many judged ones. With a larger
share the scores follow corruptions better, and a judge's scores less."""

LEVEL_PENALTY: Final = 0.5
"""Half of it times the square of the shift of all log odds: weak, because a judge may be stricter than another."""

SLOPE_PENALTY: Final = 4.0
"""The same for the change of the slope, in standard deviations of the log odds."""

FEATURE_PENALTY: Final = 128.0
"""The same for each feature in standard deviations. On RAGBench, with 25 to 500 judged interactions, it was within 0.2%
of the best of 8, 32, 128 and 512, and better than by cross-validation (benchmarks/measured/fitted_proxy.md)."""

LEAST_SPREAD: Final = 1e-6
"""Standard deviation below which an input counts as constant."""

STEPS: Final = 50
"""Most steps of Newton's method; about six are usual."""

TOLERANCE: Final = 1e-10
"""The method stops if a step lowers the loss by less than this."""


@dataclass(frozen=True, slots=True)
class Regression:
    """Coefficients of inputs, with the range to which each input is limited."""

    coefficients: Floats
    lowest: Floats
    highest: Floats

    def predict(self, x: Floats) -> Floats:
        """Return the predicted scores of interactions.

        Args:
            x: inputs: 1, the log odds of the shipped score, features; one line an interaction.
        """
        return expit(np.clip(x, self.lowest, self.highest) @ self.coefficients)


@dataclass(frozen=True, slots=True)
class SpoiltPairs:
    """Inputs of n clean interactions, and of n spoilt versions of them whose scores should be lower."""

    clean: Floats
    spoilt: Floats
    weights: Floats
    """Of the pairs; a judged interaction has the weight 1 on average."""
    questions: Sequence[str]
    """Of the clean interactions."""

    def part(self, chosen: NDArray[np.bool_]) -> "SpoiltPairs":
        """Return the chosen pairs."""
        questions = [question for question, is_chosen in zip(self.questions, chosen, strict=True) if is_chosen]
        return SpoiltPairs(self.clean[chosen], self.spoilt[chosen], self.weights[chosen], questions)


def fit(
    x: Floats,
    y: Floats,
    weights: Floats,
    *,
    pairs: SpoiltPairs | None = None,
    feature_penalty: float = FEATURE_PENALTY,
    level_penalty: float = LEVEL_PENALTY,
) -> Regression:
    """Return the regression that makes scores in [0, 1] most likely.

    The log odds of the shipped score are the start, so with an infinite penalty nothing changes. The loss is the cross
    entropy, which is convex also for scores between 0 and 1. Each pair adds the logistic loss of the difference of its
    log odds (Burges et al., ICML 2005), in which the constant cancels, so pairs do not move the level.

    Args:
        x: inputs: 1, the log odds of the shipped score, features; one line an interaction.
        y: true scores in [0, 1].
        weights: of the interactions, positive.
        pairs: clean and spoilt interactions.
        feature_penalty: half of it times the square of the coefficient of each standardized feature is the penalty.
        level_penalty: the same for the shift of all log odds. If it is 0, the mean of the predictions is that of y.
    """
    weights = weights * len(weights) / weights.sum()
    center = weights @ x / weights.sum()
    scale = np.sqrt(weights @ (x - center) ** 2 / weights.sum())
    center[0], scale[0] = 0.0, 1.0
    used = scale > LEAST_SPREAD
    penalty = np.full(x.shape[1], feature_penalty)
    penalty[:2] = level_penalty, SLOPE_PENALTY
    z, offset, seen = (x - center)[:, used] / scale[used], x[:, 1], x
    if pairs is not None:
        change = pairs.clean - pairs.spoilt
        z, offset = np.r_[z, change[:, used] / scale[used]], np.r_[offset, change[:, 1]]
        y, weights = np.r_[y, np.ones(len(change))], np.r_[weights, pairs.weights]
        seen = np.r_[x, pairs.clean, pairs.spoilt]
    theta = _newton(z, offset, y, weights, penalty[used])
    coefficients = np.zeros(x.shape[1])
    coefficients[used] = theta / scale[used]
    coefficients[0] -= coefficients[1:] @ center[1:]
    coefficients[1] += 1.0
    lowest, highest = seen.min(axis=0), seen.max(axis=0)
    # The log odds are limited already, and beyond the fitted range their order must stay.
    lowest[1], highest[1] = -np.inf, np.inf
    return Regression(coefficients, lowest, highest)


def expit(logits: Floats) -> Floats:
    """Return the logistic function of log odds, without overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -STEEPEST, STEEPEST))))


def _newton(z: Floats, offset: Floats, y: Floats, weights: Floats, penalty: Floats) -> Floats:
    def loss(theta: Floats) -> float:
        logits = offset + z @ theta
        return float(weights @ (np.logaddexp(0, logits) - y * logits) + penalty @ theta**2 / 2)

    theta = np.zeros(z.shape[1])
    now = loss(theta)
    for _ in range(STEPS):
        p = expit(offset + z @ theta)
        slope = z.T @ (weights * (p - y)) + penalty * theta
        curvature = (z.T * (weights * p * (1 - p))) @ z + np.diag(penalty)
        step = np.linalg.solve(curvature, slope)
        tried = next(
            ((at, value) for half in range(30) if (value := loss(at := theta - step / 2**half)) <= now), (theta, now)
        )
        gain, (theta, now) = now - tried[1], tried
        if gain < TOLERANCE:
            break
    return theta


def folds_of(questions: Sequence[str]) -> Folds:
    """Return the fold of each interaction: equal questions are in one fold, and folds have as many questions."""
    order = sorted(set(questions), key=lambda question: blake2b(question.encode(), digest_size=16).digest())
    fold = {question: number % FOLDS for number, question in enumerate(order)}
    return np.array([fold[question] for question in questions], np.intp)


def cross_fit(
    x: Floats,
    y: Floats,
    weights: Floats,
    questions: Sequence[str],
    *,
    feature_penalty: float = FEATURE_PENALTY,
    level_penalty: float = LEVEL_PENALTY,
) -> Floats:
    """Return predictions in which each fold of the questions was predicted by a fit to the others.

    Args:
        x: inputs, as of `fit`.
        y: true scores in [0, 1].
        weights: of the interactions, positive.
        questions: of the interactions; at least two different ones.
        feature_penalty: as of `fit`.
        level_penalty: as of `fit`.
    """
    folds = folds_of(questions)
    predicted = np.empty(len(y))
    for fold in np.unique(folds):
        held = folds == fold
        fitted = fit(x[~held], y[~held], weights[~held], feature_penalty=feature_penalty, level_penalty=level_penalty)
        predicted[held] = fitted.predict(x[held])
    return predicted


def cross_mean(y: Floats, weights: Floats, questions: Sequence[str]) -> Floats:
    """Return predictions in which each fold of the questions has the weighted mean of the others, as `cross_fit`."""
    folds = folds_of(questions)
    predicted = np.empty(len(y))
    for fold in np.unique(folds):
        held = folds == fold
        predicted[held] = weights[~held] @ y[~held] / weights[~held].sum()
    return predicted


def correlation(first: Floats, second: Floats, weights: Floats) -> float:
    """Return the weighted correlation of two columns; 0 if one of them is constant."""
    shares = weights / weights.sum()
    a, b = first - shares @ first, second - shares @ second
    spread = float(shares @ a**2) * float(shares @ b**2)
    return 0.0 if spread < LEAST_SPREAD**2 else float(np.clip(float(shares @ (a * b)) / spread**0.5, -1.0, 1.0))


def cross_fit_pairs(
    x: Floats,
    y: Floats,
    weights: Floats,
    questions: Sequence[str],
    *,
    pairs: SpoiltPairs,
    level_penalty: float = LEVEL_PENALTY,
) -> tuple[Floats, PairScores]:
    """Return what `cross_fit` does, for fits to interactions and pairs: scores of the interactions, and of the pairs.

    Args:
        x: inputs, as of `fit`.
        y: true scores in [0, 1].
        weights: of the interactions, positive.
        pairs: clean and spoilt interactions.
        level_penalty: as of `fit`.
    """
    folds = folds_of([*questions, *pairs.questions])
    of_rows, of_pairs = folds[: len(y)], folds[len(y) :]
    predicted, clean, spoilt = np.empty(len(y)), np.empty(len(pairs.clean)), np.empty(len(pairs.clean))
    for fold in np.unique(folds):
        rows, some = of_rows == fold, of_pairs == fold
        fitted = fit(x[~rows], y[~rows], weights[~rows], pairs=pairs.part(~some), level_penalty=level_penalty)
        predicted[rows] = fitted.predict(x[rows])
        clean[some] = fitted.predict(pairs.clean[some])
        spoilt[some] = fitted.predict(pairs.spoilt[some])
    return predicted, (clean, spoilt)


def loss_difference(
    y: Floats, shipped: Floats, fitted: Floats, weights: Floats, questions: Sequence[str], *, confidence: float
) -> CrossValidated:
    """Return the weighted mean difference of squared errors, with an interval by Student's t over questions.

    Assumes: questions are independent. The fits that predicted the folds share most of their interactions, which the
    interval does not count. Raises: ValueError for fewer than two questions.
    Source: the linearized variance of a ratio over clusters, Sarndal, Swensson, Wretman (1992), section 5.7.

    Args:
        y: true scores.
        shipped: scores of the shipped labeler.
        fitted: scores of the fitted labeler, each predicted by a fit to other questions.
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
    return CrossValidated(
        interactions=len(y),
        questions=n,
        shipped=float(weights @ before / total),
        fitted=float(weights @ after / total),
        difference=mean,
        lower=max(mean - half, -1.0),
        upper=min(mean + half, 1.0),
    )
