"""Luck of clusters: interactions of one session, user or batch go well or badly together.

A cluster's luck p has a Beta distribution with mean m and intraclass correlation r: Beta(m (1 - r) / r,
(1 - m) (1 - r) / r), whose variance is r m (1 - m). Yes-or-no values drawn with probability p have mean m, and the
correlation of two of the same cluster is r (the beta-binomial distribution: Skellam 1948, Journal of the Royal
Statistical Society B 10: 257-261).
"""

import numpy as np
from numpy.typing import ArrayLike

from .stream import Codes, Floats

_EDGE = 1e-9
"""A Beta distribution needs a mean inside (0, 1)."""


def beta_luck(rng: np.random.Generator, mean: ArrayLike, icc: ArrayLike) -> Floats:
    """Return luck with these means and intraclass correlations.

    Args:
        rng: source of randomness.
        mean: in [0, 1].
        icc: in [0, 1); 0 is no luck, the mean itself. Broadcast against `mean`.
    """
    means, iccs = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(icc, dtype=np.float64))
    inside = np.clip(means, _EDGE, 1 - _EDGE)
    weight = (1 - iccs) / np.where(iccs > 0, iccs, 1.0)
    drawn = rng.beta(inside * weight, (1 - inside) * weight)
    return np.where(iccs > 0, drawn, means)


def moved(luck: Floats, before: ArrayLike, after: ArrayLike) -> Floats:
    """Return luck in [0, 1] whose expected value was `before` so that it is `after`; linear, and it stays in [0, 1]."""
    was, now = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    down = luck * now / np.maximum(was, _EDGE)
    up = 1 - (1 - luck) * (1 - now) / np.maximum(1 - was, _EDGE)
    return np.where(now <= was, down, up)


def firsts(clusters: Codes) -> tuple[Codes, Codes]:
    """Return clusters with codes that differ between runs, and the column at which each cluster begins.

    Args:
        clusters: codes of each run, from 0; shape (runs, n).

    Returns:
        The codes, shape (runs, n), and the first column of each code; -1 for a code that does not occur.
    """
    runs, n = clusters.shape
    apart = clusters + np.arange(runs)[:, None] * (int(clusters.max(initial=0)) + 1)
    first = np.full(int(apart.max(initial=-1)) + 1, -1, dtype=np.int64)
    # Of several assignments to one place the last stays, so columns go from the last to the first.
    first[apart[:, ::-1].ravel()] = np.tile(np.arange(n)[::-1], runs)
    return apart, first


def intraclass_correlation(values: Floats, means: Floats, clusters: Codes) -> float:
    """Return the correlation of two values of one cluster, estimated over all pairs with known means.

    Args:
        values: shape (runs, n).
        means: expected values, same shape.
        clusters: codes of each run, same shape.

    Raises:
        ValueError: no cluster has two values.
    """
    apart, _ = firsts(clusters)
    rest = (values - means).ravel()
    sums = np.bincount(apart.ravel(), rest)
    squares = np.bincount(apart.ravel(), rest**2)
    sizes = np.bincount(apart.ravel())
    pairs = float(np.sum(sizes * (sizes - 1.0)))
    if not pairs:
        raise ValueError("no cluster has two values: there is no correlation within clusters")
    return float(np.sum(sums**2 - squares)) / pairs / float(np.mean(rest**2))


def design_effect(values: Floats, means: Floats, clusters: Codes) -> float:
    """Return the variance of cluster sums over that of the same number of independent values; 1 without dependence.

    Arguments as in `intraclass_correlation`.
    """
    apart, _ = firsts(clusters)
    rest = (values - means).ravel()
    return float(np.sum(np.bincount(apart.ravel(), rest) ** 2) / np.sum(rest**2))
