"""Prediction-powered means over clusters of dependent items: from sums over closed clusters of pairs.

Notation of `prediction_powered`: f is the proxy score of all N items, y the reference score of some, each chosen with
probability 1 / w, and r = y - k f with the weighted mean R. Let m be the mean of f over all items, and W = sum w. The
error of theta is, but for terms that vanish faster, a sum over clusters c:

    theta - true mean = sum over c of (k A_c / N + B_c / W),
    A_c = sum over all items of c of (f - m),  B_c = sum over its chosen items of w (r - R).

Clusters are independent, so the variance is the sum of the squares,

    var(theta) = k^2 sum A^2 / N^2 + 2 k sum A B / (N W) + sum B^2 / W^2.

Independent items have sum A B = 0 with this k, which gives the variance of `prediction_powered`. Inside clusters the
proxy score of one item may go with the r of another, so the middle term is needed. With a cluster's sums of w, w y,
w f, its number n of items and its sum F of proxy scores, A B and B^2 are quadratic forms. Their 12 sums of products are
enough for any k, R and m. Sum A^2 comes from `ClusterTable`.

A **late** pair comes after the cluster of its item was closed, so its A is not known. Let L_c be the part of B_c with
late pairs. By Cauchy and Schwarz, its share in the middle term is at most 2 |k| sqrt(sum A^2 sum L^2) / (N W), which is
added.

The interval is the `asymptotic` sequence with clusters for its values. Assumes: clusters are independent of each other,
they close by size or time and not by value, and there are so many that none of them makes up the sum of squares
(Lindeberg); the target is the mean over items, whose weight in a cluster of n is n. Where a late pair is in another
part of its cluster than an earlier pair, the two parts count as independent.

Sources: Waudby-Smith et al. (2024), "Time-uniform central limit theory and asymptotic confidence sequences", Annals of
Statistics 52(6), Theorem 2.2, for the sequence; Angelopoulos, Duchi, Zrnic (2023), arXiv:2311.01453, for theta;
Sarndal, Swensson, Wretman (1992), Model Assisted Survey Sampling, sections 4.2 and 5.5: totals of clusters, and the
linearized ratio.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..intervals.asymptotic import NO_SPREAD, enough
from ..intervals.pair_estimates import LEAST_CLUSTERS, Powered
from ..means.moments import Moments
from ..tables.batches import Floats, Rows
from ..tables.row_table import ADD, RowColumn, RowTable
from .prediction_powered import PairTable

_ALL, _WITH_ITEMS, _LATE = slice(1, 7), slice(7, 13), slice(13, 19)


@dataclass(frozen=True)
class PairsOfClusters:
    """Pairs of closed clusters: n pairs, in c clusters of each row."""

    rows: Rows
    """Row of each pair, shape (n,)."""
    scores: Floats
    """Reference score, proxy score and probability of each; shape (3, n)."""
    late: NDArray[np.bool_]
    """Whether a pair came after the cluster of its item was closed, shape (n,)."""
    of: Rows
    """The place of each pair's cluster in the arrays below, shape (n,)."""
    cluster_rows: Rows
    """Row of each cluster, in the order in which they closed; shape (c,)."""
    sizes: NDArray[np.int64]
    """Number of items with a proxy score, shape (c,)."""
    totals: Floats
    """Sum of these scores, shape (c,)."""

    def at(self, which: NDArray[np.bool_]) -> "PairsOfClusters":
        """Return the pairs of some of the clusters; shape (c,)."""
        pairs, places = which[self.of], np.cumsum(which) - 1
        return PairsOfClusters(
            self.rows[pairs],
            self.scores[:, pairs],
            self.late[pairs],
            places[self.of[pairs]],
            self.cluster_rows[which],
            self.sizes[which],
            self.totals[which],
        )


class ClusteredPairs(RowTable, version=1, what="pairs of clusters", capacity=16):
    """Sums over closed clusters of pairs, one row per key; rows are merged by addition."""

    # Number of clusters with pairs; sums of products of w, w y, w f (6), of these with n, F (6), of late ones (6).
    _sums = RowColumn(np.float64, (19,), merge=ADD, least=0.0)

    def __init__(self) -> None:
        super().__init__()
        self._pairs = PairTable()

    def add_row(self) -> int:
        """Add a row without clusters and return its index."""
        self._pairs.add_row()
        return super().add_row()

    def clear(self, row: int) -> None:
        """Set a row to what it was when it was added."""
        super().clear(row)
        self._pairs.clear(row)

    def begin(self, row: int, pairs: PairTable, other_row: int) -> None:
        """Set a row to pairs of another table; each is a cluster of its own."""
        self._pairs.clear(row)
        self._pairs.merge(row, pairs, other_row)
        n, w, w2, y, f, _, ff, yf, y2, f2, yy2, ff2, yf2 = pairs.sums(other_row)
        # The products of a single pair: those of w (1, y, f) with itself, and with (1, f); it is not late.
        with_items = (w, y, f, f, yf, ff)
        self._sums[:, row] = (n, w2, y2, f2, yy2, yf2, ff2, *with_items, *np.zeros(6))

    def update(self, pairs: PairsOfClusters) -> None:
        """Add pairs of closed clusters, in order.

        Raises: ValueError for a score or a probability out of its range; nothing is added then.
        """
        reference, proxy, probability = pairs.scores
        self._pairs.update(pairs.rows, reference, proxy, probability)
        w = 1 / probability
        weighted = np.stack([w, w * reference, w * proxy])
        sums = _by_cluster(weighted, pairs.of, pairs.sizes.size)
        late = _by_cluster(weighted[:, pairs.late], pairs.of[pairs.late], pairs.sizes.size)
        items = np.stack([pairs.sizes, pairs.totals])
        with_items = (items[:, None] * sums).reshape(6, -1)
        terms = np.concatenate([np.ones((1, pairs.sizes.size)), _products(sums), with_items, _products(late)])
        # Added in order within a row, so that the sums do not depend on how clusters were cut into batches.
        for quantity, added in zip(self._sums, terms, strict=True):
            np.add.at(quantity, pairs.cluster_rows, added)

    def merge(self, row: int, other: Self, other_row: int) -> None:
        """Add the clusters of a row of another table to a row."""
        self._pairs.merge(row, other._pairs, other_row)
        super().merge(row, other, other_row)

    def read(self, rows: Rows, everything: Moments | None, *, confidence: float) -> Powered:
        """Return the estimates of rows, over closed clusters.

        Args:
            rows: rows to estimate.
            everything: moments of the proxy scores of all items with the sums over closed clusters, one element per
                row; None for the weighted mean.
            confidence: level in (0, 1); the intervals hold at every number of clusters at once, from enough on.

        Raises: ValueError if the moments have no sums over clusters.
        """
        clusters = None if everything is None else everything.clusters
        if everything is not None:
            if clusters is None:
                raise ValueError("everything has no sums over clusters: read them from a ClusterTable")
            everything = replace(everything, n=clusters.n, mean=clusters.mean)
        fitted = self._pairs.fit(rows, everything)
        sums = self._sums[:, rows]
        total, k, r = fitted.weight, fitted.k, fitted.r
        # Weights of w, w y, w f in B.
        of_b = np.stack([-r, np.ones_like(r), -k])
        variance, weight2 = _square(sums[_ALL], of_b) / total**2, sums[_ALL][0]
        equal = np.where(weight2 > 0, total**2 / np.where(weight2 > 0, weight2, 1.0), 0.0)
        trusted = equal >= LEAST_CLUSTERS
        if clusters is not None:
            size, own = np.maximum(clusters.n, 1), k * k * clusters.squares
            of_a = np.stack([-clusters.mean, np.ones_like(r)])
            both = np.einsum("ir,jr,ijr->r", of_a, of_b, sums[_WITH_ITEMS].reshape(2, 3, -1))
            late = np.sqrt(own * _square(sums[_LATE], of_b))
            variance += own / size**2 + 2 * (k * both + late) / (size * total)
            # Every pair has an item with a proxy score; a repair may have dropped their sums.
            trusted &= 2 * clusters.n >= sums[0]
        variance = np.maximum(variance, 0.0)
        # Clusters with equal means say little about the next one.
        trusted &= variance * sums[0] > NO_SPREAD
        known = fitted.variance > 0
        effect = np.where(known, variance / np.where(known, fitted.variance, 1.0), np.nan)
        trusted &= enough(fitted.mean, fitted.items / np.fmax(effect, 1.0))
        powered = fitted.powered(variance, sums[0], trusted, confidence=confidence)
        return replace(powered, design_effect=effect, n_clusters=sums[0])

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a number is negative or not finite; same shape."""
        return np.asarray(self._pairs.impossible(rows) | super().impossible(rows))

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return super().to_bytes(row) + self._pairs.to_bytes(row)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        super().load(row, data[: self.size])
        self._pairs.load(row, data[self.size :])


def read_pairs(
    pairs: PairTable, closed: ClusteredPairs | None, row: int, everything: Moments | None, *, confidence: float
) -> Powered:
    """Return the estimate of a row over all its pairs, with an interval over closed clusters where there are any.

    Args:
        pairs: table with all pairs.
        closed: table with the pairs of closed clusters; None where each item counts by itself.
        row: index in both.
        everything: moments of all proxy scores, with the sums over clusters; None for the weighted mean.
        confidence: of the interval.
    """
    rows = np.array([row])
    found = pairs.read(rows, everything, confidence=confidence)
    if closed is None:
        return found
    interval = closed.read(rows, everything, confidence=confidence)
    # Pairs of open clusters are in the estimate, and not yet in the interval.
    return replace(
        interval,
        estimate=found.estimate,
        lower=np.fmin(interval.lower, found.estimate),
        upper=np.fmax(interval.upper, found.estimate),
        n=found.n,
        k=found.k,
    )


def _by_cluster(values: Floats, of: Rows, count: int) -> Floats:
    """Return the sums of values of each cluster, added in order; shape (quantities, count)."""
    found = np.zeros((values.shape[0], count))
    for quantity, added in zip(found, values, strict=True):
        np.add.at(quantity, of, added)
    return found


def _products(sums: Floats) -> Floats:
    w, y, f = sums
    return np.stack([w * w, w * y, w * f, y * y, y * f, f * f])


def _square(products: Floats, weights: Floats) -> Floats:
    """Return the sum of squares of weighted sums, from the sums of their products; shape (rows,)."""
    ww, wy, wf, yy, yf, ff = products
    a, b, c = weights
    squares = a * a * ww + b * b * yy + c * c * ff + 2 * (a * b * wy + a * c * wf + b * c * yf)
    return np.asarray(np.maximum(squares, 0.0))
