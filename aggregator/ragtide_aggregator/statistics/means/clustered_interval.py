"""The `running` confidence sequence over clusters of dependent values: arrays in, arrays out.

A cluster (a session, a batch) has n values in [0, 1] with sum Y. Anything may happen inside a cluster. With the mean
m of the values of all closed clusters before, which predicts Y as n m, every bet size l in (0, 1 / (n m)) has

    exp(l (Y - n mu) - psi(l, n m) (Y - n m)^2) <= 1 on average,  psi(l, c) = (-log(1 - c l) - c l) / c^2,

where n mu is the mean of Y given everything before and given n. The product over clusters is therefore a
supermartingale for every l, and so is a mixture over a fixed grid of l. The other side has c = n (1 - m).

psi is convex in c, so psi(l, c) <= psi(l, 0) + c / C (psi(l, C) - psi(l, 0)) for c <= C. The exponent then needs three
numbers only: the sum of squares, the sum of squares times c, and the largest c. Clusters of one value cost nothing
for the size that another cluster could have had.

Assumes: a cluster's mean given the clusters that closed before it does not depend on when they closed; that holds if
clusters are independent of each other and close by size or by time, not by value. The target is the average of n mu
over clusters, divided by the number of values: the mean over values, which may move.

Sources: Fan, Grama, Liu (2015), "Exponential inequalities for martingales with applications", Electronic Journal of
Probability 20, Proposition 4.1 (the factor above for c = 1); Howard, Ramdas, McAuliffe, Sekhon (2021), Annals of
Statistics 49(2), Theorem 4 (predictions); Robbins (1970), Annals of Mathematical Statistics 41 (mixtures).
"""

from math import log
from typing import Final

import numpy as np

from ..tables.batches import Floats
from ..tables.tables import check_confidence
from .clusters import ClusterSums
from .moments import Moments

_GRID: Final = np.geomspace(3e-4, 0.9, 46)
"""Bet sizes, per value: the smallest suits about 10^8 values, the largest the first dozens."""

_SHAPE: Final = np.exp(-((np.log(_GRID / 0.12) / 1.3) ** 2) / 2)
_LOG_WEIGHTS: Final = np.log(0.4 / _GRID.size + 0.6 * _SHAPE / _SHAPE.sum())
"""Weights of the bets: most on those that are best for some hundred to some ten thousand values."""

LEAST_CLUSTERS: Final = 10
"""Fewest clusters from which a design effect is measured."""

_ROUNDS: Final = 200
_SERIES_BELOW: Final = 1e-3


def clustered_interval(sums: ClusterSums, *, confidence: float) -> tuple[Floats, Floats]:
    """Return lower and upper ends for the average of the true mean over the values of the closed clusters, in [0, 1].

    They hold at every look at once with probability at least `confidence`, while the mean may move. The ends are the
    whole range while no cluster is closed.

    Args:
        confidence: in (0, 1).

    Raises: ValueError unless 0 < confidence < 1.
    """
    check_confidence(confidence)
    side = (1 - confidence) / 2
    n = np.maximum(sums.n, 1)
    below = clustered_boundary(sums.squares, sums.squares_below, sums.largest_below, alpha_side=side) / n
    above = clustered_boundary(sums.squares, sums.squares_above, sums.largest_above, alpha_side=side) / n
    some = sums.n > 0
    lower = np.where(some, np.clip(sums.mean - below, 0.0, 1.0), 0.0)
    return lower, np.where(some, np.clip(sums.mean + above, 0.0, 1.0), 1.0)


def design_effects(moments: Moments) -> Floats:
    """Return how many times larger the dependence inside clusters makes the variance of a mean, one element a key.

    It is the mean square of Y - n m a value, over clusters, divided by that of single values; nan below
    `LEAST_CLUSTERS`, or without spread. Source: Kish (1965), "Survey Sampling", section 5.4, for the ratio.
    """
    sums = moments.clusters
    if sums is None:
        return np.full(moments.n.shape, np.nan)
    known = (sums.count >= LEAST_CLUSTERS) & (moments.v > 0)
    single = moments.v / np.maximum(moments.n, 1)
    clustered = sums.squares / np.maximum(sums.n, 1)
    return np.where(known, clustered / np.where(known, single, 1.0), np.nan)


def clusters_used(moments: Moments) -> list[int | None]:
    """Return the number of closed clusters that `running` takes for each key; None where each value is by itself."""
    sums = moments.clusters
    if sums is None:
        return [None] * moments.n.size
    return [count if used else None for count, used in zip(sums.count.tolist(), sums.in_use.tolist(), strict=True)]


def clustered_boundary(squares: Floats, weighted: Floats, largest: Floats, *, alpha_side: float) -> Floats:
    """Return the value below which a sum of Y - n mu stays at all times but for `alpha_side`, one element a key.

    Args:
        squares: sums of (Y - n m)^2.
        weighted: sums of c (Y - n m)^2.
        largest: largest c so far.
        alpha_side: probability of ever crossing, in (0, 1/2).

    Raises: ValueError unless 0 < alpha_side < 1/2.
    """
    if not 0 < alpha_side < 0.5:
        raise ValueError(f"alpha_side is {alpha_side}: give one side's half of alpha, such as 0.025")
    if not squares.size:
        return np.zeros(squares.shape)
    level = -log(alpha_side)
    spent = _spent(squares, weighted, largest) - _LOG_WEIGHTS
    # One bet alone reaches the level here, so the mixture reaches it earlier.
    sums = np.min((level + spent) / _GRID, axis=-1)
    going = np.ones(sums.shape, dtype=bool)
    for _ in range(_ROUNDS):
        exponents = _GRID * sums[..., None] - spent
        highest = np.max(exponents, axis=-1)
        parts = np.exp(exponents - highest[..., None])
        total = np.sum(parts, axis=-1)
        # The log of the mixture is convex and rising in the sum, so Newton's steps go down to the root from above.
        step = np.where(going, (highest + np.log(total) - level) * total / np.sum(parts * _GRID, axis=-1), 0.0)
        sums = sums - step
        # Each key stops by itself, so that its boundary does not depend on the other keys.
        going &= step > 1e-13 * sums
        if not np.any(going):
            break
    return np.asarray(sums)


def _spent(squares: Floats, weighted: Floats, largest: Floats) -> Floats:
    c = largest[..., None]
    stakes = c * _GRID
    possible = stakes < 1
    safe = np.where(possible, stakes, 0.0)
    least = _GRID * _GRID / 2
    exact = (-np.log1p(-safe) - safe) / np.where(c > 0, c, 1.0) ** 2
    psi = np.where(safe < _SERIES_BELOW, least * (1 + safe * (2 / 3 + safe * (1 / 2 + safe * (2 / 5)))), exact)
    share = weighted[..., None] / np.where(c > 0, c, 1.0)
    return np.where(possible, squares[..., None] * least + share * (psi - least), np.inf)
