"""Predicts the score of an interaction by a linear function, and moves its sentences' probabilities to a score. Pure.

The formulas of TRACe then give that score. The probabilities keep their order, so no sentence overtakes another.
"""

from collections.abc import Sequence
from math import exp, fsum, log
from typing import Final, NamedTuple

from ...metrics.trace import TOGETHERNESS

STEEPEST: Final = 30.0
"""Log odds beyond this are cut, so that no number overflows."""


class Term(NamedTuple):
    """One summand of a linear function."""

    place: int
    """Position of its input."""
    coefficient: float
    lowest: float
    """Smaller inputs count as this."""
    highest: float
    """Larger inputs count as this."""


def predicted_score(terms: Sequence[Term], inputs: Sequence[float], constant: float = 0.0) -> float:
    """Return the score, in (0, 1), whose log odds are the sum of the terms.

    Every input is limited to a range, so unusual interactions cannot lead to extreme scores. The sum is exact before
    rounding, so no order of the terms matters.
    """
    parts = [coefficient * min(max(inputs[place], low), high) for place, coefficient, low, high in terms]
    logit = fsum((constant, *parts))
    return 1 / (1 + exp(-min(max(logit, -STEEPEST), STEEPEST)))


def move_to_mean(probabilities: Sequence[float], mean: float) -> list[float]:
    """Return probabilities with another mean and the same order; a mean outside [0, 1] becomes the nearest in it.

    To lower the mean all are divided by one number; to raise it their differences from 1 are.
    """
    if not probabilities:
        return []
    mean = min(max(mean, 0.0), 1.0)
    before = fsum(probabilities) / len(probabilities)
    if mean <= before:
        factor = mean / before if before else 1.0
        return [p * factor for p in probabilities]
    factor = (1.0 - mean) / (1.0 - before)
    return [1.0 - (1.0 - p) * factor for p in probabilities]


def temper(supported: Sequence[float], adherence: float) -> list[float]:
    """Return probabilities of supported sentences, raised to one power, that together give an adherence in (0, 1).

    Their order stays. If all are 1 they stay 1.
    """
    now = log_adherence(supported)
    if now == 0:
        return list(supported)
    power = log(adherence) / now
    return [_not_zero(p) ** power for p in supported]


def log_adherence(supported: Sequence[float]) -> float:
    """Return the logarithm of the probability that all sentences are supported, as `expected_trace_metrics` has it."""
    return fsum([log(_not_zero(p)) for p in supported]) * float(len(supported) ** -TOGETHERNESS)


def _not_zero(p: float) -> float:
    return max(p, 1e-300)
