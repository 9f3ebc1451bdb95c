"""Bootstrap intervals of statistics: from samples of interactions with replacement. Arrays in, numbers out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indexes = NDArray[np.intp]

RESAMPLES: Final = 1000
"""Samples drawn for one interval."""

DEFINED_SHARE: Final = 0.9
"""A statistic has an interval if it is defined in at least this share of the samples."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A statistic with its interval; None for an undefined number."""

    value: float | None
    lower: float | None = None
    upper: float | None = None


def resamples(
    n: int, clusters: NDArray[np.generic] | None = None, *, seed: int = 0, count: int = RESAMPLES
) -> list[Indexes]:
    """Return the indexes of samples drawn with replacement, of items or of whole clusters.

    Args:
        n: number of items.
        clusters: cluster of each item, such as its question; items of one cluster stay together.
        seed: the same seed draws the same samples.
        count: number of samples.
    """
    random = np.random.default_rng(seed)
    if clusters is None:
        return [random.integers(0, n, n) for _ in range(count)]
    _, members = np.unique(clusters, return_inverse=True)
    groups = [np.flatnonzero(members == group) for group in range(int(members.max()) + 1)] if n else []
    return [
        np.concatenate([groups[group] for group in random.integers(0, len(groups), len(groups))]) for _ in range(count)
    ]


def measured(
    statistic: Callable[[Indexes], float], n: int, samples: list[Indexes], *, confidence: float = 0.95
) -> Measured:
    """Return a statistic of all n items with its percentile interval over samples.

    The interval is None if the statistic is undefined (NaN) in more than a tenth of the samples, as for a rare class,
    or if all samples give the same value. Assumes: items, or clusters, are independent. Source: Efron and Tibshirani
    (1993), chapter 13.

    Args:
        statistic: of the items with these indexes; NaN if undefined.
        n: number of items.
        samples: from `resamples`.
        confidence: level of the interval.
    """
    value = statistic(np.arange(n)) if n else float("nan")
    if np.isnan(value):
        return Measured(None)
    drawn = np.array([statistic(sample) for sample in samples])
    drawn = drawn[~np.isnan(drawn)]
    # A statistic that is equal in all samples, such as an AUROC of 1, gives no information about its spread.
    if len(drawn) < DEFINED_SHARE * len(samples) or not np.ptp(drawn):
        return Measured(float(value))
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(drawn, [tail, 1 - tail])
    return Measured(float(value), float(lower), float(upper))
