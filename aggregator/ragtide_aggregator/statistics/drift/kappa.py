"""Cohen's kappa of two yes-or-no verdicts, as the mean of bounded values: for detectors and intervals over time.

Kappa is 1 - d / c. Here d is the share of items whose two verdicts differ. c is that share by chance: of the verdict of
one side on an item and that of the other side on another item. Two items in a row are a couple. It shows d in its
own verdicts (`own`) and c in its crossed verdicts (`crossed`): each is 0, 1/2 or 1, and the means of both are unbiased.
So kappa is at least k exactly if the mean of own - (1 - k) crossed is at most 0. That value is bounded, and no share of
either side must be known or stay the same.

Assumes: the two items of a couple are independent, with the same shares of verdicts, given everything before them.
Source: Cohen (1960), "A Coefficient of Agreement for Nominal Scales"; decisions/0025-*.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..intervals.running import FIRST_GUESS, running_interval
from ..tables.batches import Floats

_STEP: Final = 0.005
"""Distance of the values of kappa that an interval distinguishes."""
_GRID: Final = -1 + _STEP * np.arange(round(2 / _STEP))
_PACK: Final = 2.0**24
"""Twice the sum of own disagreements stays below it; it holds 8 million couples."""


class Couple(NamedTuple):
    """The disagreements of two items."""

    own: float
    """Share of the two items whose verdicts differ: 0, 1/2 or 1."""
    crossed: float
    """Share of the two crossings whose verdicts differ: one side's on an item, the other side's on the other item."""


def disagreements(judge: NDArray[np.bool_], people: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return own and crossed disagreements of the couples of items in a row, each of shape (n // 2,).

    >>> disagreements(np.array([True, False, True]), np.array([True, False, True]))
    (array([0.]), array([1.]))

    Args:
        judge: verdicts of one side, shape (n,); the last of an odd number is left out.
        people: verdicts of the other side on the same items, shape (n,).
    """
    even = judge.size // 2 * 2
    mine, theirs = judge[:even].reshape(-1, 2), people[:even].reshape(-1, 2)
    return (mine != theirs).mean(axis=1), (mine != theirs[:, ::-1]).mean(axis=1)


def scaled(own: Floats, crossed: Floats, kappa: Any) -> Floats:
    """Return values in [0, 1] of couples, whose mean is at most `limit_of(kappa)` exactly if kappa is not lower.

    Args:
        own: own disagreements, shape (n,).
        crossed: crossed disagreements, shape (n,).
        kappa: below 1; a number, or an array of shape (n,).
    """
    chance = 1 - kappa
    return np.asarray((own + chance * (1 - crossed)) / (1 + chance))


def limit_of(kappa: float) -> float:
    """Return the mean of `scaled` values at a kappa, which must be below 1.

    >>> limit_of(0.0), limit_of(-1.0)
    (0.5, 0.6666666666666666)
    """
    return (1 - kappa) / (2 - kappa)


def kappa_of(own: float, crossed: float) -> float:
    """Return kappa from means of disagreements, from -1 to 1; 1 without any disagreement."""
    if own <= 0:
        return 1.0
    return max(1 - own / crossed, -1.0) if crossed > 0 else -1.0


def kappa_interval(own: float, crossed: float, n: int, *, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return Cohen's interval of kappa of n items for one fixed n, within -1 to 1; z is the quantile of the normal law.

    The standard error is sqrt(d (1 - d) / n) / c, and with fewer than two items the interval is the whole range.
    """
    if n < 2 or crossed <= 0:
        return -1.0, 1.0
    half = z * sqrt(own * (1 - own) / n) / crossed
    kappa = kappa_of(own, crossed)
    return max(kappa - half, -1.0), min(kappa + half, 1.0)


def packed(own: Floats, crossed: Floats) -> Floats:
    """Return both disagreements of each couple in one number, so that the mean of the numbers tells both means."""
    return own + _PACK * crossed


def couple_of(number: Any) -> tuple[Any, Any]:
    """Return own and crossed disagreements of `packed` numbers, each of one couple; numbers or arrays.

    >>> couple_of(packed(np.array([0.5, 1.0]), np.array([1.0, 0.5])))
    (array([0.5, 1. ]), array([1. , 0.5]))
    """
    crossed, own = np.divmod(2 * number, _PACK)
    return own / 2, crossed / 2


def unpacked(mean: float, n: int) -> Couple:
    """Return the means of the disagreements of n couples, from the mean of their `packed` numbers; exact.

    >>> unpacked(float(packed(np.array([0.5, 0.0, 1.0]), np.array([1.0, 0.5, 0.0])).mean()), 3)
    Couple(own=0.5, crossed=0.5)
    """
    crossed, own = divmod(round(2 * mean * n), int(_PACK))
    return Couple(own / (2 * n), crossed / (2 * n))


@dataclass(slots=True)
class CoupleSums:
    """Moments of couples in their order, with the intrinsic times of the running interval for every kappa at once.

    The lowest kappa is the first of the grid that this interval does not exclude:

    >>> own, crossed = np.array([0.0, 0.5, 0.0, 0.0] * 50), np.array([0.5, 0.5, 1.0, 0.5] * 50)
    >>> def possible(kappa):
    ...     values = scaled(own, crossed, kappa)
    ...     guesses = [FIRST_GUESS, *(values[:n].mean() for n in range(1, values.size))]
    ...     v = sum((values - guesses) ** 2)
    ...     _, upper = running_interval([values.mean()], [values.size], [v], confidence=0.95)
    ...     return bool(upper[0] >= limit_of(kappa))

    >>> sums = CoupleSums()
    >>> for couple in zip(own, crossed):
    ...     sums.add(Couple(*couple))
    >>> lowest = sums.lowest(0.95) + 0.005
    >>> possible(lowest), possible(lowest - 0.005), bool(0 < lowest < 0.8)
    (True, False, True)
    """

    n: int = 0
    """Number of couples."""
    own: float = 0.0
    """Mean of the own disagreements."""
    crossed: float = 0.0
    v_own: float = 0.0
    """Sum of the squared distances of own disagreements from their mean before."""
    v_both: float = 0.0
    """Sum of the products of both distances."""
    v_crossed: float = 0.0

    def add(self, couple: Couple) -> None:
        """Add a couple."""
        guess_own, guess_crossed = (self.own, self.crossed) if self.n else (FIRST_GUESS, FIRST_GUESS)
        away, across = couple.own - guess_own, couple.crossed - guess_crossed
        self.v_own += away * away
        self.v_both += away * across
        self.v_crossed += across * across
        self.n += 1
        self.own += (couple.own - self.own) / self.n
        self.crossed += (couple.crossed - self.crossed) / self.n

    def lowest(self, confidence: float) -> float:
        """Return the lower end of kappa, -1 to 1: with probability `confidence` it is never above kappa, at any n.

        It is the lowest kappa of a grid that the running interval of `scaled` values does not exclude, less a step.
        """
        if not self.n:
            return -1.0
        chance = 1 - _GRID
        v = (self.v_own - 2 * chance * self.v_both + chance**2 * self.v_crossed) / (1 + chance) ** 2
        means = scaled(np.full(_GRID.shape, self.own), np.full(_GRID.shape, self.crossed), _GRID)
        n = np.full(_GRID.shape, self.n)
        _, upper = running_interval(means, n, np.maximum(v, 0.0), confidence=confidence)
        possible = np.flatnonzero(upper >= chance / (1 + chance))
        return max(float(_GRID[possible[0]]) - _STEP, -1.0) if possible.size else float(_GRID[-1])
