"""The interval of a mean that is looked at once, when no value can follow: arrays in, arrays out.

Wilson's interval needs the number of values only, because it takes the largest variance p (1 - p) of a mean p. Scores
between 0 and 1 vary less, so the interval here is Wilson's at the number of two-valued scores with as much information:
n p (1 - p) / v, where v is the variance of a value. A few values may all be alike by chance, while rare ones are far
away. So v counts one more value, at the farther end of the range. For values that are 0 or 1 it is Wilson's interval.

Where values count in clusters, v is the mean square of Y - n m a value, with one more cluster.

Assumes: the number of values was not chosen by their size; values, or clusters, are independent.
Sources: Wilson (1927), JASA 22: 209-212; Kish (1965), "Survey Sampling", section 5.4, for clusters. Coverage:
tests/aggregator/statistics, simulated.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..intervals.intervals import wilson
from ..tables.batches import Floats
from .moments import Moments
from .strategies import says_nothing


def closed_interval(moments: Moments, *, confidence: float, counts: ArrayLike = False) -> tuple[Floats, Floats]:
    """Return lower and upper ends of the means of closed panes, in [0, 1]; the whole range where nothing is known.

    The ends are valid at one n. For intervals at every look use `moments_interval`. Weighted means keep their interval.

    Args:
        moments: one element per key.
        confidence: level in (0, 1).
        counts: one on the scale of each key's counts, 0 for values that are no counts (`moments_interval`). Their range
            is far wider than their spread, so the one more value is at 0 or at twice their mean.
    """
    n = np.maximum(moments.n, 1).astype(np.float64)
    mean, squares, size = moments.mean, moments.m2, np.ones(n.shape)
    clusters = moments.clusters
    if clusters is not None:
        used = clusters.in_use
        # The prediction of the first cluster of a pane is 1/2. Values that are alike in each cluster bound its square.
        alike = clusters.mean_size * moments.m2 / n * clusters.n
        mean = np.where(used, clusters.mean, mean)
        squares = np.where(used, np.minimum(clusters.squares, alike), squares)
        size = np.where(used, clusters.mean_size, size)
        n = np.where(used, np.maximum(clusters.n, 1), n)
    largest = size * mean * (1 - mean)
    farthest = size * np.where(np.asarray(counts, dtype=bool), mean, np.maximum(mean, 1 - mean))
    variance = np.minimum((squares + farthest**2) / np.maximum(n - size, 1.0), largest)
    known = (variance > 0) & (largest > 0)
    effective = np.where(known, n * mean * (1 - mean) / np.where(known, variance, 1.0), n / size)
    lower, upper = wilson(mean, effective, confidence=confidence)
    none = (moments.n == 0) if clusters is None else (moments.n == 0) | (clusters.in_use & (clusters.count == 0))
    # Values of open clusters are in the mean, and not in the interval.
    lower = np.where(none, 0.0, np.minimum(lower, moments.mean))
    upper = np.where(none, 1.0, np.maximum(upper, moments.mean))
    nothing = says_nothing(lower, upper, moments.mean, counts)
    lower, upper = np.where(nothing, 0.0, lower), np.where(nothing, 1.0, upper)
    if moments.weighted is None:
        return lower, upper
    mixed, intervals = moments.weighted.mixed, moments.weighted.intervals(confidence=confidence, counts=counts)
    return np.where(mixed, intervals.lower, lower), np.where(mixed, intervals.upper, upper)
