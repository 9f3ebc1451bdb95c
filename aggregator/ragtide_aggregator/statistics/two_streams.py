"""The difference of the means of two streams that share no items: one interval, in place of the sum of two.

Let S_a be the sum of x - mu over the values of stream a, mu the mean of x given everything before in both streams, and
V_a the intrinsic time of `running_interval`. For every bet l in [0, 1),

    exp(l S_a - psi(l) V_a),   psi(l) = -log(1 - l) - l,

falls on average with each value of a, and stays as it is with each value of b. The same holds for -S_b with V_b. So the
product of two mixtures over a fixed grid of bets, m(S_a, V_a) m(-S_b, V_b), falls on average with every value of either
stream. It ever reaches 2 / alpha with a probability of at most alpha / 2. While it has not, the error of the
difference, S_a / n_a - S_b / n_b, is at most its largest value over the sums with

    log m(S_a, V_a) + log m(-S_b, V_b) <= log(2 / alpha).

Both errors at their own ends at once would be far outside: they add like the sides of a right angle, not end to end. So
the interval is narrower than the sum of two intervals at half of alpha each, and assumes no more than they do: values
in [0, 1]. It holds at every look. The bet 0 is in the grid, so a stream with few values beside one with many costs
little: what the many values say of their own sum is then of no use, and bets nothing.

Sources: Fan, Grama, Liu (2015), Electronic Journal of Probability 20, Proposition 4.1; Howard, Ramdas, McAuliffe,
Sekhon (2021), Annals of Statistics 49(2), Theorem 4 (predictions in V); Robbins (1970), Annals of Mathematical
Statistics 41 (mixtures); the product over streams: Kaufmann, Koolen (2021), "Mixture martingales revisited with
applications to sequential tests and confidence intervals", Journal of Machine Learning Research 22 (246).
"""

from math import log
from typing import Final

import numpy as np

from .batches import Floats
from .moments import Moments
from .tables import check_confidence

NO_BET: Final = 0.15
"""Weight of the bet 0."""

_BETS: Final = np.geomspace(3e-4, 0.9, 40)
"""The smallest suits about 10^8 values, the largest the first dozens."""

_COSTS: Final = -np.log1p(-_BETS) - _BETS
_SHAPE: Final = np.exp(-((np.log(_BETS / 0.1) / 1.3) ** 2) / 2)
_LOG_WEIGHTS: Final = np.log((1 - NO_BET) * (0.4 / _BETS.size + 0.6 * _SHAPE / _SHAPE.sum()))
"""Most weight is on the bets that are best for some hundred to some ten thousand values."""

_HALVINGS: Final = 30
_STEPS: Final = 100
_NEAR: Final = 1e-9


def stream_difference(a: Moments, b: Moments, *, confidence: float) -> tuple[Floats, Floats]:
    """Return lower and upper ends for mean a - mean b, each the average of its stream's true mean so far, in [-1, 1].

    With probability at least `confidence` they hold at every look at once.

    Args:
        a: moments of values in [0, 1], one element a comparison.
        b: moments of the other streams.
        confidence: level in (0, 1).

    Assumes: of values nothing but their range; no value is in both streams.
    Raises: ValueError unless 0 < confidence < 1 and every stream has a value.

    >>> from .moments import MomentTable
    >>> table = MomentTable()
    >>> first, second = table.add_row(), table.add_row()
    >>> table.update(np.array([first, second] * 500), np.array([1.0, 1.0, 1.0, 0.0] * 250)).size
    1000
    >>> lower, upper = stream_difference(table.read([first]), table.read([second]), confidence=0.95)
    >>> bool(lower[0] > 0.38), bool(upper[0] < 0.62)
    (True, True)
    """
    check_confidence(confidence)
    if not (np.all(a.n > 0) and np.all(b.n > 0)):
        raise ValueError("one of the two has no values yet: a difference needs both")
    half_width = joint_half_width(a, b, level=log(2 / (1 - confidence)))
    estimate = a.mean - b.mean
    return np.clip(estimate - half_width, -1.0, 1.0), np.clip(estimate + half_width, -1.0, 1.0)


def joint_half_width(a: Moments, b: Moments, *, level: float) -> Floats:
    """Return the largest S_a / n_a - S_b / n_b with log m(S_a, V_a) + log m(-S_b, V_b) <= level.

    That region is convex, so the error has one largest value along its edge, where the logarithms add up to the level.
    It lies where the mean bets, times the numbers of values, are the same, and is found by halving.
    """
    least = log(NO_BET) + _NEAR
    low, high = np.full(a.v.shape, least), np.full(a.v.shape, level - least)
    # Each sum at the larger end of what halving has left, so that it makes the interval no narrower to stop early.
    most_a, most_b = (_sum_at(v, high, _above(v, high)) for v in (a.v, b.v))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        sum_a, sum_b = _sum_at(a.v, middle, most_a), _sum_at(b.v, level - middle, most_b)
        rising = _mean_bet(sum_a, a.v) * a.n < _mean_bet(sum_b, b.v) * b.n
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        most_a, most_b = np.where(rising, most_a, sum_a), np.where(rising, sum_b, most_b)
    return most_a / a.n + most_b / b.n


def _parts(sums: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return the parts of the mixtures that bet, each over the largest part, and the logarithms of the largest."""
    logs = _LOG_WEIGHTS + _BETS * sums[..., None] - _COSTS * times[..., None]
    top = np.maximum(np.max(logs, axis=-1), log(NO_BET))
    return np.exp(logs - top[..., None]), top


def _mean_bet(sums: Floats, times: Floats) -> Floats:
    """Return the mean bets of the mixtures at sums: the slopes of their logarithms, which rise with the sums."""
    parts, top = _parts(sums, times)
    total = np.add.reduce(parts, axis=-1) + np.exp(log(NO_BET) - top)
    return np.asarray(np.add.reduce(parts * _BETS, axis=-1) / total)


def _above(times: Floats, logs: Floats) -> Floats:
    """Return sums above those at which the logarithms of the mixtures are `logs`: there one part alone is as large."""
    return np.asarray(np.min((logs[..., None] - _LOG_WEIGHTS + _COSTS * times[..., None]) / _BETS, axis=-1))


def _sum_at(times: Floats, logs: Floats, above: Floats) -> Floats:
    """Return the sums at which the logarithms of the mixtures are `logs`, or a little more.

    Newton's steps on a convex function go down to the root from above.
    """
    found = above
    going = np.ones(found.shape, dtype=bool)
    for _ in range(_STEPS):
        parts, top = _parts(found, times)
        total = np.add.reduce(parts, axis=-1) + np.exp(log(NO_BET) - top)
        step = (np.log(total) + top - logs) * total / np.add.reduce(parts * _BETS, axis=-1)
        # Each stops by itself, so that its sum does not depend on what else was asked for.
        going &= step > 1e-9 * (1 + np.abs(found))
        if not np.any(going):
            break
        found = np.where(going, found - step, found)
    return found
