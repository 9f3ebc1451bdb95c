"""The `running` confidence sequence: valid at every look, for a mean that may change. Arrays in, arrays out.

Source: Howard, Ramdas, McAuliffe, Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49(2): Theorem 4 (empirical-Bernstein sequence for bounded values) with the gamma-exponential
mixture boundary of Proposition 9.
"""

from math import isfinite, log, log1p
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..tables import scipy_functions
from ..tables.batches import Floats
from ..tables.tables import check_confidence

V_OPT: Final = 25.0
"""Intrinsic time V at which the boundary is tightest, about 25 / variance values."""

FIRST_GUESS: Final = 0.5
"""The prediction of the first value; the mean of the values before it predicts every later value."""

_STIRLING_FROM = 1e3
_SERIES_BELOW = 0.01
_ROUNDS = 100


def running_interval(
    mean: ArrayLike, n: ArrayLike, v: ArrayLike, *, confidence: float, v_opt: float = V_OPT
) -> tuple[Floats, Floats]:
    """Return lower and upper ends for the average of the true mean so far, clamped to [0, 1].

    With probability at least `confidence` they hold at every n at once, so they stay valid at every look and at any
    stop. The ends are not intersected over time, because the mean may change.

    Args:
        mean: means of the first n values, each value in [0, 1].
        n: numbers of values, at least 1; same shape.
        v: intrinsic times, sums of (x_i - mean of the values before it)^2, where 1/2 stands before the first value;
            same shape.
        confidence: in (0, 1).
        v_opt: intrinsic time at which the boundary is tightest, positive.

    Assumes: each value is in [0, 1]; neither independence nor a constant mean.
    Raises: ValueError unless 0 < confidence < 1, every n >= 1, every v >= 0 and v_opt > 0.
    """
    means = np.asarray(mean, dtype=np.float64)
    half_width = running_half_width(n, v, confidence=confidence, v_opt=v_opt)
    return np.clip(means - half_width, 0.0, 1.0), np.clip(means + half_width, 0.0, 1.0)


def running_half_width(n: ArrayLike, v: ArrayLike, *, confidence: float, v_opt: float = V_OPT) -> Floats:
    """Return u(v) / n with alpha / 2 on each side, before any clamping; arguments as in `running_interval`."""
    ns = np.asarray(n, dtype=np.float64)
    check_confidence(confidence)
    if not np.all(ns >= 1):
        raise ValueError("an n is below 1: an interval needs at least one value")
    return np.asarray(boundary(v, alpha_side=(1 - confidence) / 2, v_opt=v_opt) / ns)


def boundary(v: ArrayLike, *, alpha_side: float, v_opt: float = V_OPT) -> Floats:
    """Return u(v): a sum of deviations with intrinsic time v ever crosses it with probability `alpha_side` at most.

    At u(v) the log of the gamma-exponential mixture reaches log(1 / alpha_side). That log is convex and rising in the
    sum, so after the first of Newton's steps the others descend to the root from above.

    Args:
        v: intrinsic times, 0 or more.
        alpha_side: probability of ever crossing on one side, half of alpha, in (0, 1/2).
        v_opt: intrinsic time at which the boundary is tightest, positive.

    Raises: ValueError unless every v is finite and 0 or more, v_opt finite and positive, and 0 < alpha_side < 1/2.
    Source: Howard et al. (2021), Proposition 9, for c = 1; rho from v_opt by the closed approximation for mixtures.
    """
    vs = np.asarray(v, dtype=np.float64)
    if not np.all((vs >= 0) & np.isfinite(vs)):
        raise ValueError("a v is below 0 or not finite: v is a sum of squares")
    if not (v_opt > 0 and isfinite(v_opt)):
        raise ValueError(f"v_opt is {v_opt}: give a positive intrinsic time, such as {V_OPT:g}")
    if not 0 < alpha_side < 0.5:
        raise ValueError(f"alpha_side is {alpha_side}: give half of alpha, such as 0.025")
    log_level = -log(alpha_side)
    # Tuned at the whole alpha, so that the interval is tightest, not one side of it.
    log_tuned = -2 * log(2 * alpha_side)
    rho = v_opt / (log_tuned + log1p(log_tuned))
    s = np.sqrt(2 * (vs + rho) * log_level) + log_level  # Bernstein's boundary at one fixed time: the right size
    shape = vs + rho
    rest = _stirling_rest(shape)
    leading = -_stirling_rest(np.asarray(rho)) - np.log(scipy_functions.gammainc(rho, rho))
    going = np.ones(vs.shape, dtype=bool)
    for number in range(_ROUNDS):
        log_mixture, slope = _log_mixture(s, shape, rest)
        log_mixture = log_mixture + leading
        step = np.where(going, (log_mixture - log_level) / slope, 0.0)
        s = s - step
        # From the second round on a step that does not go down is rounding. Each value stops by itself, so that its
        # boundary does not depend on the other values.
        going &= (number == 0) | (step > 1e-13 * s)
        if not np.any(going):
            break
    return np.asarray(s)


def _log_mixture(s: Floats, shape: Floats, rest: Floats) -> tuple[Floats, Floats]:
    x = s / shape
    gained = np.asarray(x - np.log1p(x))
    # By its series where the difference would be rounded away, which is so after many values only.
    small = np.flatnonzero(x < _SERIES_BELOW)
    if small.size:
        near = x.reshape(-1)[small]
        gained.reshape(-1)[small] = near * near * np.polyval([(-1) ** k / k for k in range(10, 1, -1)], near)
    gained = shape * gained
    below = scipy_functions.gammainc(shape, shape + s)
    density = np.exp(-rest - gained) / (shape + s)
    return rest + gained + np.log(below), s / (shape + s) + density / below


def _stirling_rest(a: Floats) -> Floats:
    large = np.maximum(a, _STIRLING_FROM)
    series = 0.5 * np.log(2 * np.pi / large) + 1 / (12 * large) - 1 / (360 * large**3)
    small = np.minimum(a, _STIRLING_FROM)
    return np.where(a >= _STIRLING_FROM, series, scipy_functions.gammaln(small) - small * np.log(small) + small)
