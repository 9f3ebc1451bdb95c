"""The mean difference of two scores of the same items, valid at every look. Arrays in, numbers out."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..intervals.asymptotic import LEAST_OF_A_KIND
from ..means.clustered_interval import clusters_used
from ..means.clusters import summed
from ..means.moments import MomentTable
from ..means.strategies import AUTO, moments_interval, resolved
from .comparing import Difference

CLOSED = "closed"
"""Strategy of a difference that is exact, because every item of a finite set is known."""


class PairedDifference(NamedTuple):
    """A mean difference with its number of pairs and the strategy of its interval."""

    n: int
    means: tuple[float, float]
    difference: Difference
    strategy: str
    """`running`; `asymptotic` for counts with enough pairs that differ; `closed` if all pairs are known."""
    n_clusters: int | None = None
    """Number of clusters of pairs that the interval rests on; None where each pair counts by itself."""


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    *,
    value_range: tuple[float, float],
    confidence: float,
    counts: bool = False,
    closed: bool = False,
    clusters: Sequence[Hashable] | None = None,
) -> PairedDifference:
    """Return the mean of first - second with its interval.

    Args:
        first: scores of the items, in their order; shape (n,).
        second: other scores of the same items, in the same order.
        value_range: lowest and highest possible score.
        confidence: level in (0, 1).
        counts: whether the scores are counts, whose interval may be `asymptotic`.
        closed: whether these are all items of a finite set.
        clusters: the cluster of each item, such as its session or its topic; None for items by themselves.

    Assumes: only the range of scores; for counts that enough pairs differ (docs/comparing.md); with clusters, that
        these are independent of each other.
    Raises: ValueError without a pair, or for a score outside the range.
    Source: `running_interval` on the differences, scaled from [-width, width] to [0, 1].
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    lowest, highest = value_range
    if not a.size or a.shape != b.shape:
        raise ValueError(f"first has {a.size} scores and second {b.size}: give as many of both, at least one")
    if clusters is not None and len(clusters) != a.size:
        raise ValueError(f"clusters has {len(clusters)} names for {a.size} scores: name the cluster of each item")
    if not np.all((a >= lowest) & (a <= highest) & (b >= lowest) & (b <= highest)):
        raise ValueError(f"a score is outside {lowest:g} to {highest:g}: give the right value_range")
    gaps = (a - b) / (highest - lowest)
    means = float(a.mean()), float(b.mean())
    mean = (highest - lowest) * float(gaps.mean())
    if closed:
        return PairedDifference(a.size, means, Difference(mean, mean, mean), CLOSED)
    table = MomentTable()
    table.update(np.full(a.size, table.add_row()), (gaps + 1) / 2)
    moments = table.read([0])
    enough = counts and _differing(gaps) >= LEAST_OF_A_KIND
    if clusters is not None:
        moments = replace(moments, clusters=summed((gaps + 1) / 2, clusters))
    ends = moments_interval(AUTO, moments, confidence=confidence, counts=enough)
    lower, upper = ((highest - lowest) * (2 * float(end[0]) - 1) for end in ends)
    strategy = str(resolved(AUTO, moments, [enough])[0])
    used = clusters_used(moments)[0] if strategy == "running" else None
    return PairedDifference(a.size, means, Difference(mean, lower, upper), strategy, used)


def _differing(gaps: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    squares = float((gaps * gaps).sum())
    return float(np.abs(gaps).sum()) ** 2 / squares if squares > 0 else 0.0
