"""The `running` confidence sequence: valid at every look, while the mean may move. Arrays in, arrays out.

Source: Howard, Ramdas, McAuliffe, Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49(2): Theorem 4 (empirical-Bernstein sequence for bounded values) with the gamma-exponential
mixture boundary of Proposition 9.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaln

Floats = NDArray[np.float64]

V_OPT: Final = 25.0
"""Intrinsic time V at which the boundary is tightest, about 25 / variance values."""

FIRST_GUESS: Final = 0.5
"""What the first value is predicted to be; every later one is predicted by the mean before it."""

_STIRLING_FROM = 1e3


def running_interval(
    mean: ArrayLike, n: ArrayLike, v: ArrayLike, *, confidence: float, v_opt: float = V_OPT
) -> tuple[Floats, Floats]:
    """Return lower and upper ends for the average of what the true mean has been, clamped to [0, 1].

    With probability at least `confidence` they hold at every n at once, so one may look as often as one likes and stop
    when one likes. The ends are not intersected over time, because the mean may move.

    Args:
        mean: means of the first n values, each value in [0, 1].
        n: numbers of values, at least 1; same shape.
        v: intrinsic times, sums of (x_i - mean of the values before it)^2, the first against 1/2; same shape.
        confidence: in (0, 1).
        v_opt: intrinsic time at which the boundary is tightest, positive.

    Assumes: each value lies in [0, 1]; nothing about independence or a constant mean.
    Raises: ValueError unless 0 < confidence < 1, every n >= 1, every v >= 0 and v_opt > 0.
    """
    means, ns, vs = (np.asarray(array, dtype=np.float64) for array in (mean, n, v))
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a level between 0 and 1, such as 0.95")
    if np.any(ns < 1):
        raise ValueError("n holds a value below 1: an interval needs at least one observation")
    half_width = _boundary(vs, 1 - confidence, v_opt) / ns
    return np.clip(means - half_width, 0.0, 1.0), np.clip(means + half_width, 0.0, 1.0)


def _boundary(v: Floats, alpha: float, v_opt: float) -> Floats:
    """Return u(v): a sum of deviations with intrinsic time v stays below it at all times but for alpha / 2.

    Raises: ValueError unless every v >= 0 and v_opt > 0.
    """
    if np.any(~(v >= 0)) or v_opt <= 0:
        raise ValueError("v and v_opt must be 0 or more, and positive: v is a sum of squares, v_opt a typical one")
    # Imported late: it takes half of the start-up time of commands that compute no interval.
    from scipy.optimize import elementwise  # noqa: PLC0415

    log_level = np.log(2 / alpha)
    # The closed approximation of the best rho for v_opt, at the whole alpha: it tunes the interval, not one side of it.
    rho = v_opt / (2 * np.log(1 / alpha) + np.log1p(2 * np.log(1 / alpha)))
    lowest = np.zeros_like(v)
    # Bernstein's boundary at a fixed time, twice as wide, is above the mixture's root or a few doublings below it.
    highest = 2 * (np.sqrt(2 * (v + rho) * log_level) + log_level)
    while np.any(short := _log_mixture(highest, v, rho) < log_level):
        highest = np.where(short, 2 * highest, highest)
    found = elementwise.find_root(lambda s, t: _log_mixture(s, t, rho) - log_level, (lowest, highest), args=(v,))
    return np.asarray(found.x, dtype=np.float64)


def _log_mixture(s: Floats, v: Floats, rho: float) -> Floats:
    """Return the logarithm of the gamma-exponential mixture supermartingale (c = 1) at sum s and intrinsic time v.

    Written with the difference of the two gamma arguments, so that it stays exact when v is in the billions.
    """
    shape = v + rho
    excess = s / shape
    leading = -_stirling_rest(rho) - np.log(gammainc(rho, rho))
    return np.asarray(
        leading + _stirling_rest(shape) + s - shape * np.log1p(excess) + np.log(gammainc(shape, shape + s))
    )


def _stirling_rest(a: ArrayLike) -> Floats:
    """Return log Gamma(a) - a log(a) + a."""
    a = np.asarray(a, dtype=np.float64)
    large = np.maximum(a, _STIRLING_FROM)
    series = 0.5 * np.log(2 * np.pi / large) + 1 / (12 * large) - 1 / (360 * large**3)
    small = np.minimum(a, _STIRLING_FROM)
    return np.asarray(np.where(a >= _STIRLING_FROM, series, gammaln(small) - small * np.log(small) + small))
