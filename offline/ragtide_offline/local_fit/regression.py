"""A regularized logistic regression on top of given log odds, and the choice of its strength. Arrays in, arrays out."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_consumers.labelers.local.adjustment import STEEPEST

Floats = NDArray[np.float64]
Folds = NDArray[np.intp]

FOLDS: Final = 5
"""Parts of the questions; each part is predicted by a fit to the others."""

LEVEL_PENALTY: Final = 0.5
"""Penalty on the square of the shift of all log odds: weak, because a judge may be stricter than another."""

SLOPE_PENALTY: Final = 4.0
"""Penalty on the square of the change of the slope, in standard deviations of the log odds."""

LEAST_SPREAD: Final = 1e-6
"""Standard deviation below which an input counts as constant."""

STEPS: Final = 50
"""Most steps of Newton's method; about six are usual."""

TOLERANCE: Final = 1e-10
"""The method stops if a step lowers the loss by less than this."""


@dataclass(frozen=True, slots=True)
class Strength:
    """How much a fit may change; None for the parts that stay as shipped."""

    slope: bool
    """Whether the slope of the log odds may change, and not only their level."""
    penalty: float | None
    """Penalty on the square of each standardized feature's coefficient; None uses no features."""


STRENGTHS: Final = (
    None,
    Strength(slope=False, penalty=None),
    Strength(slope=True, penalty=None),
    *(Strength(slope=True, penalty=penalty) for penalty in (1024.0, 256.0, 64.0, 16.0, 4.0)),
)
"""Choices from the weakest to the strongest; None is the shipped score."""


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


def fit(x: Floats, y: Floats, weights: Floats, strength: Strength) -> Regression:
    """Return the regression that makes scores in [0, 1] most likely.

    The log odds of the shipped score are the start, so with an infinite penalty nothing changes. The loss is the cross
    entropy, which is convex also for scores between 0 and 1.

    Args:
        x: inputs: 1, the log odds of the shipped score, features; one line an interaction.
        y: true scores in [0, 1].
        weights: of the interactions, positive.
        strength: which parts change, and how much.
    """
    weights = weights * len(weights) / weights.sum()
    mean = weights @ x / weights.sum()
    spread = np.sqrt(weights @ (x - mean) ** 2 / weights.sum())
    used = spread > LEAST_SPREAD
    used[0] = True
    used[1] &= strength.slope
    used[2:] &= strength.penalty is not None
    penalty = np.full(x.shape[1], strength.penalty or 0.0)
    penalty[:2] = LEVEL_PENALTY, SLOPE_PENALTY
    scale = np.where(used & (np.arange(len(used)) > 0), spread, 1.0)
    center = np.where(np.arange(len(used)) > 0, mean, 0.0)
    z = ((x - center) / scale)[:, used]
    theta = _newton(z, x[:, 1], y, weights, penalty[used])
    coefficients = np.zeros(x.shape[1])
    coefficients[used] = theta / scale[used]
    coefficients[0] -= coefficients[1:] @ center[1:]
    coefficients[1] += 1.0
    lowest, highest = x.min(axis=0), x.max(axis=0)
    # The log odds are limited already, and beyond the fitted range their order must stay.
    lowest[1], highest[1] = -np.inf, np.inf
    return Regression(coefficients, lowest, highest)


def expit(logits: Floats) -> Floats:
    """Return the logistic function of log odds, without overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -STEEPEST, STEEPEST))))


def _newton(z: Floats, offset: Floats, y: Floats, weights: Floats, penalty: Floats) -> Floats:
    """Return the minimum of a penalized cross entropy, by Newton's method with shorter steps where it overshoots."""

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


def folds_of(questions: Sequence[str], salt: str = "") -> Folds:
    """Return the fold of each interaction: equal questions are in one fold, and folds have as many questions.

    Args:
        questions: of the interactions.
        salt: another text gives other folds.
    """
    order = sorted(set(questions), key=lambda one: blake2b((salt + one).encode(), digest_size=16).digest())
    fold = {question: number % FOLDS for number, question in enumerate(order)}
    return np.array([fold[question] for question in questions], np.intp)


def chosen(x: Floats, y: Floats, shipped: Floats, weights: Floats, questions: Sequence[str]) -> Strength | None:
    """Return the strength with the least squared error in an inner cross-validation; None if the shipped score has it.

    Of equal errors the weaker one is chosen.

    Args:
        x: inputs of the regression.
        y: true scores.
        shipped: scores of the shipped labeler.
        weights: of the interactions.
        questions: of the interactions; equal ones are never on both sides.
    """
    folds = folds_of(questions, "inner")
    errors = []
    for strength in STRENGTHS:
        predicted = shipped if strength is None else out_of_fold(x, y, weights, folds, strength)
        errors.append(float(weights @ (predicted - y) ** 2))
    return STRENGTHS[int(np.argmin(errors))]


def out_of_fold(x: Floats, y: Floats, weights: Floats, folds: Folds, strength: Strength) -> Floats:
    """Return predictions in which each fold was predicted by a fit to the others."""
    predicted = np.empty(len(y))
    for fold in np.unique(folds):
        held = folds == fold
        predicted[held] = fit(x[~held], y[~held], weights[~held], strength).predict(x[held])
    return predicted


def cross_fitted(x: Floats, y: Floats, shipped: Floats, weights: Floats, questions: Sequence[str]) -> Floats:
    """Return predictions in which each fold was predicted by a fit to the others, which chose its strength, too."""
    folds = folds_of(questions)
    names = np.array(questions, dtype=object)
    predicted = shipped.copy()
    for fold in np.unique(folds):
        held = folds == fold
        rest = x[~held], y[~held]
        strength = chosen(*rest, shipped[~held], weights[~held], names[~held].tolist())
        if strength is not None:
            predicted[held] = fit(*rest, weights[~held], strength).predict(x[held])
    return predicted
