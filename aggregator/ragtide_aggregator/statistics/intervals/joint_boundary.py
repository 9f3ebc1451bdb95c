"""How far two independent sums of bounded deviations go together, at every look at once.

A difference of two means has two errors, a S + b T: S is the sum of deviations of one stream, T that of the other.
Two boundaries, each at half of alpha, add up: a u(V) + b u(W). But both sums are hardly ever extreme at once. For
each sum the gamma-exponential mixture m(S, V) of the `running` sequence is a non-negative supermartingale that begins
at 1. Here it is the mean of the mixtures for S and for -S, with a quarter of the weight on no bet at all, which stays
1. Given everything before, an item moves one of the two factors, so the product m(S, V) m(T, W) is one as well, in
whatever order the items come, and it ever reaches 1 / alpha with probability at most alpha (Ville). The pairs (S, T)
below that are a convex set, nearly an ellipse; the largest a S + b T in it is the half-width. It grows with the root
of the sum of the two variances: for two equal streams it is 0.7 to 0.8 of the sum of two boundaries.

Source: Howard, Ramdas, McAuliffe, Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49(2): Theorem 4 and Proposition 9 for each factor; Kaufmann, Koolen (2021), "Mixture martingales
revisited with applications to sequential tests and confidence intervals", Journal of Machine Learning Research 22
(246), for the product over streams. `two_streams.py` has the same idea for values of one scale, with a grid of bets.
"""

from math import log, log1p
from typing import Final, NamedTuple

import numpy as np

from ..tables import scipy_functions
from ..tables.batches import Floats
from .running import V_OPT

_SEARCHES: Final = 11
"""Halvings in the search for the split of the evidence. The half-width is flat there, so its error is at most 1e-4."""

_STEPS: Final = 20
"""Newton's steps to a root, at most; four are usual."""

_AT_REST: Final = 0.25
"""Weight of the bet 0, whose winnings stay 1: a stream that matters little cannot cost much evidence."""

_MIRRORED: Final = 0.9
"""Part of the intrinsic time up to which the mixture for -S is computed: its formula ends at the whole."""


class Deviations(NamedTuple):
    """The error that one stream contributes to an estimate: arrays of one shape, or that broadcast."""

    scale: Floats
    """The most that one item may deviate from its prediction, in the unit of the estimate, 0 or more."""
    v: Floats
    """Intrinsic time: sum of the items' squared deviations from their predictions, in that unit squared."""


def joint_half_width(one: Deviations, other: Deviations, *, alpha: float, v_opt: float = V_OPT) -> Floats:
    """Return the half-width of an interval for an estimate with the errors of two streams, valid at every look.

    Args:
        one: deviations of one stream.
        other: deviations of the other; a scale of 0 leaves it out.
        alpha: probability that the estimate is ever farther away, on either side, in (0, 1).
        v_opt: intrinsic time, in units of the squared scale, at which a boundary is tightest.

    Assumes: given the past, each item deviates by at most the scale from a prediction that knows only the past.
    Raises: ValueError unless 0 < alpha < 1, v_opt > 0, and no scale or time is negative.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}: give a probability between 0 and 1, such as 0.05")
    if not v_opt > 0:
        raise ValueError(f"v_opt is {v_opt}: give a positive intrinsic time, such as {V_OPT:g}")
    a, v, b, w = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (*one, *other)))
    if not np.all((a >= 0) & (v >= 0) & (b >= 0) & (w >= 0)):
        raise ValueError("a scale or an intrinsic time is negative, or is no number")
    tuned = 2 * log(1 / alpha)
    rho = np.asarray(v_opt / (tuned + log1p(tuned)))
    first = _Mixture.of(np.where(a > 0, v, 0.0) / np.where(a > 0, a, 1.0) ** 2, rho)
    second = _Mixture.of(np.where(b > 0, w, 0.0) / np.where(b > 0, b, 1.0) ** 2, rho)
    level = np.full(a.shape, log(1 / alpha))
    return _largest(a, first, b, second, level)


def _largest(a: Floats, first: "_Mixture", b: Floats, second: "_Mixture", level: Floats) -> Floats:
    nothing = np.zeros(level.shape)
    most = second.root(level - first.log(nothing)[0])
    highest = first.root(level - second.log(nothing)[0])
    low, high, s = nothing, most, highest
    best = np.maximum(a * highest, b * most)
    for _ in range(_SEARCHES):
        t = (low + high) / 2
        at, slope = second.log(t)
        s = first.root(level - at, s)
        best = np.maximum(best, a * s + b * t)
        rises = b * first.log(s)[1] > a * slope
        low, high = np.where(rises, t, low), np.where(rises, high, t)
    return np.asarray(best)


class _Mixture(NamedTuple):
    """The mixture m(s), a convex and even function of a sum s, at given intrinsic times."""

    shape: Floats
    """Intrinsic time plus rho."""
    rest: Floats
    """`_gamma_rest` of the shape."""
    constant: Floats
    """Part of its log that does not depend on s."""

    @classmethod
    def of(cls, v: Floats, rho: Floats) -> "_Mixture":
        """Return the mixture for intrinsic times, in units of the squared scale."""
        shape = v + rho
        rest = _gamma_rest(shape)
        return cls(shape, rest, rest - _gamma_rest(rho) - np.log(scipy_functions.gammainc(rho, rho)))

    def log(self, s: Floats) -> tuple[Floats, Floats]:
        """Return log m(s) for s >= 0, and its slope."""
        up, rising = self._side(s)
        # Far out the log of the mirror image is continued by its tangent. It is convex, so the tangent is below it,
        # m is too small there, and the half-width is too large: the safe side.
        near = np.minimum(s, _MIRRORED * self.shape)
        mirrored, falling = self._side(-near)
        mirrored = mirrored - falling * (s - near)
        share = 1 / (1 + np.exp(np.minimum(up - mirrored, 700.0)))
        value = up - log(2) - np.log1p(-share)
        slope = (1 - share) * rising - share * falling
        whole = np.logaddexp(value + log(1 - _AT_REST), log(_AT_REST))
        return np.asarray(whole), np.asarray(slope * (1 - _AT_REST) * np.exp(value - whole))

    def _side(self, s: Floats) -> tuple[Floats, Floats]:
        x = self.shape + s
        below = np.maximum(scipy_functions.gammainc(self.shape, x), 1e-300)
        gained = s - self.shape * np.log1p(s / self.shape)
        density = np.exp(-gained - self.rest) / x
        return self.constant + gained + np.log(below), s / x + density / below

    def root(self, level: Floats, start: Floats | None = None) -> Floats:
        """Return the s >= 0 at which log m(s) reaches a level; 0 where it is there already.

        Args:
            start: where to begin, above 0; unless given where Bernstein's boundary is.
        """
        needed = np.maximum(level + log(2) - self.constant, 0.0)
        s = np.sqrt(2 * self.shape * needed) + needed if start is None else start
        for _ in range(_STEPS):
            value, slope = self.log(s)
            step = (value - level) / np.maximum(slope, 1e-12)
            s = np.maximum(s - step, 1e-9)
            if np.all(np.abs(step) <= 1e-8 * (1 + s)):
                break
        return np.asarray(s)


def _gamma_rest(k: Floats) -> Floats:
    return np.asarray(scipy_functions.gammaln(k) - k * np.log(k) + k)
