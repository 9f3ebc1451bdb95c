"""ADWIN over many runs at once, up to the first alarm.

ADWIN keeps its window in an exponential histogram and asks at the border of each bucket whether the means before and
after it differ. Before the first cut the buckets depend on the number of values alone, so the borders are the same in
every run, and the sums on both sides are differences of running sums. The least confidence delta at which a border is a
cut follows from the formula of the cut; thus one pass serves every delta.

Source: Bifet and Gavalda (2007), "Learning from time-changing data with adaptive windowing", SIAM International
Conference on Data Mining; details as in river 0.26.
"""

from math import log

import numpy as np

from .stream import Floats

CLOCK, BUCKETS, LEAST, GRACE = 32, 5, 5, 10
"""Defaults of river: it looks at every 32nd value, keeps 5 buckets of each size, ignores parts shorter than 5, and does
not look before 10."""


def adwin_scores(values: Floats, *, falls_only: bool) -> Floats:
    """Return after each value log(1 / delta) of the least delta at which ADWIN cuts; minus infinity between its looks.

    Args:
        values: shape (runs, n).
        falls_only: whether only borders count after which the mean is lower.
    """
    runs, n = values.shape
    sums = np.concatenate([np.zeros((runs, 1)), np.cumsum(values, axis=1)], axis=1)
    squares = np.concatenate([np.zeros((runs, 1)), np.cumsum(values**2, axis=1)], axis=1)
    scores = np.full((runs, n), -np.inf)
    histogram: list[int] = []
    for width in range(1, n + 1):
        _insert(histogram)
        if width % CLOCK or width <= GRACE:
            continue
        before = _borders(histogram)
        after = width - before
        allowed = (before > LEAST + 1) & (after > LEAST + 1)
        before, after = before[allowed], after[allowed]
        if not before.size:
            continue
        fall = sums[:, before] / before - (sums[:, [width]] - sums[:, before]) / after
        variance = np.maximum(squares[:, width] / width - (sums[:, width] / width) ** 2, 0.0)
        reciprocal = 1 / (before - LEAST + 1) + 1 / (after - LEAST + 1)
        level = _level(np.maximum(fall, 0.0) if falls_only else np.abs(fall), variance[:, None], reciprocal)
        scores[:, width - 1] = np.max(level, axis=1) - log(2 * log(width))
    return scores


def _level(difference: Floats, variance: Floats, reciprocal: Floats) -> Floats:
    """Return log(2 log(width) / delta) at which the cut's bound equals the difference.

    The bound is sqrt(2 m v L) + 2/3 m L with m the reciprocal, v the variance and L the level: quadratic in sqrt(L).
    """
    linear, quadratic = np.sqrt(2 * reciprocal * variance), 2 / 3 * reciprocal
    root = (np.sqrt(linear**2 + 4 * quadratic * difference) - linear) / (2 * quadratic)
    return np.asarray(root**2)


def _insert(histogram: list[int]) -> None:
    """Add a value to the number of buckets of each size; two of one size become one of twice the size."""
    row = 0
    while True:
        if row == len(histogram):
            histogram.append(0)
        histogram[row] += 1
        if histogram[row] <= BUCKETS:
            return
        histogram[row] -= 2
        row += 1


def _borders(histogram: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return how many values are before each border, the oldest first."""
    sizes = np.repeat(2 ** np.arange(len(histogram))[::-1], histogram[::-1])
    return np.cumsum(sizes)[:-1]
