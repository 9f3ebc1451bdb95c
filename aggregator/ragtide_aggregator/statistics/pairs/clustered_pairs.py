"""Prediction-powered means over clusters of dependent items: from sums over closed clusters of pairs.

Notation of `prediction_powered`: u = a (y - theta), r = u - k f, and the shares P of the items with a proxy score and
of those without. Let m be the mean of f over all items that have one, N the number of all items, and W the sum of w in
a stratum. Take f - m as the proxy score, and 0 where there is none. Without knowing the counts of the strata, the error
of theta is, but for terms that vanish faster, a sum over clusters c:

    A (theta - true mean) = sum over c of (k A_c / N + B_c),
    A_c = sum over the items of c with a proxy score of (f - m),
    B_c = sum over its chosen items of P / W w (u - k (f - m)).

Clusters are independent, so the variance is the sum of the squares,

    k^2 sum A_c^2 / N^2 + 2 k sum A_c B_c / N + sum B_c^2.

Items are chosen independently of each other. The known counts then remove a part of this variance, which is left in:
intervals are a little too wide where strata differ. Where weights differ so much that the part would be negative, it is
added (`Linear.drawn`).

Inside clusters the proxy score of one item may go with the r of another, so the middle term is needed. With a cluster's
sums of w (1, a, y, f) and w (1, a, y) of the two strata, its number n of items with a proxy score and their sum F, A B
and B^2 are quadratic forms. Their sums of products are enough for any k, theta and m. Sum A_c^2 comes from
`ClusterTable`.

A **late** pair comes after the cluster of its item was closed, so its A is not known. Let L_c be the part of B_c with
late pairs. By Cauchy and Schwarz, its share in the middle term is at most 2 |k| sqrt(sum A^2 sum L^2) / N, which is
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
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ..intervals.asymptotic import NO_SPREAD, enough
from ..intervals.pair_estimates import LEAST_CLUSTERS, Powered
from ..tables.batches import Floats, Rows
from ..tables.row_table import ADD, RowColumn, RowTable
from .prediction_powered import Everything, PairTable

_TERMS: Final = 7
"""Sums of w over the pairs of a cluster: of 1, a, y, f with a proxy score, and of 1, a, y without."""

_FIRST, _SECOND = np.triu_indices(_TERMS)
_PRODUCTS: Final = _FIRST.size
_ALL: Final = slice(1, 1 + _PRODUCTS)
_WITH_ITEMS: Final = slice(_ALL.stop, _ALL.stop + 2 * _TERMS)
_LATE: Final = slice(_WITH_ITEMS.stop, _WITH_ITEMS.stop + _PRODUCTS)

_FIRST_SUMS: Final = 19
"""Sums of version 1, whose pairs all had both scores: number of clusters; products of sums of w (1, y, f) with each
other, with n and F, and of late ones with each other."""


@dataclass(frozen=True)
class PairsOfClusters:
    """Pairs of closed clusters: n pairs, in c clusters of each row."""

    rows: Rows
    """Row of each pair, shape (n,)."""
    scores: Floats
    """Reference score, proxy score and probability of each, nan for a score that is missing; shape (3, n)."""
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


class ClusteredPairs(RowTable, version=2, what="pairs of clusters", capacity=16):
    """Sums over closed clusters of pairs, one row per key; rows are merged by addition."""

    # Number of clusters with pairs; sums of products of their sums, of these with n and F, and of late ones.
    _sums = RowColumn(np.float64, (_LATE.stop,), merge=ADD, least=0.0)

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

    def clear_rows(self, rows: Rows) -> None:
        """Set rows to what they were when they were added."""
        super().clear_rows(rows)
        self._pairs.clear_rows(rows)

    def begin(self, row: int, pairs: PairTable, other_row: int) -> None:
        """Set a row to pairs of another table; each is a cluster of its own."""
        self._pairs.clear(row)
        self._pairs.merge(row, pairs, other_row)
        sums = pairs.sums(other_row)
        _, a, y, f, yy, ff, yf, af = sums[12:20]
        squares = np.zeros((_TERMS, _TERMS))
        squares[:4, :4] = [[sums[12], a, y, f], [a, a, y, af], [y, y, yy, yf], [f, af, yf, ff]]
        w, a, y, yy = sums[24:28]
        squares[4:, 4:] = [[w, a, y], [a, a, y], [y, y, yy]]
        w, a, y, f, _, ff, yf, af = sums[4:12]
        with_items = np.zeros((2, _TERMS))
        with_items[:, :4] = [[w, a, y, f], [f, af, yf, ff]]
        late = np.zeros(_PRODUCTS)
        self._sums[:, row] = (sums[:4].sum(), *squares[_FIRST, _SECOND], *with_items.ravel(), *late)

    def update(self, pairs: PairsOfClusters) -> None:
        """Add pairs of closed clusters, in order.

        Raises: ValueError for a score or a probability out of its range; nothing is added then.
        """
        reference, proxy, probability = pairs.scores
        self._pairs.update(pairs.rows, reference, proxy, probability)
        w, scored = 1 / probability, ~np.isnan(proxy)
        a, y = (~np.isnan(reference)).astype(np.float64), np.nan_to_num(reference)
        of_each = np.stack([w, w * a, w * y])
        weighted = np.concatenate([scored * of_each, (w * np.nan_to_num(proxy))[None], ~scored * of_each])
        sums = _by_cluster(weighted, pairs.of, pairs.sizes.size)
        late = _by_cluster(weighted[:, pairs.late], pairs.of[pairs.late], pairs.sizes.size)
        items = np.stack([pairs.sizes, pairs.totals])
        with_items = (items[:, None] * sums).reshape(2 * _TERMS, -1)
        terms = np.concatenate([np.ones((1, pairs.sizes.size)), _products(sums), with_items, _products(late)])
        # Added in order within a row, so that the sums do not depend on how clusters were cut into batches.
        for quantity, added in zip(self._sums, terms, strict=True):
            np.add.at(quantity, pairs.cluster_rows, added)

    def merge(self, row: int, other: Self, other_row: int) -> None:
        """Add the clusters of a row of another table to a row."""
        self._pairs.merge(row, other._pairs, other_row)
        super().merge(row, other, other_row)

    def read(self, rows: Rows, everything: Everything | None, *, confidence: float, powered: bool = True) -> Powered:
        """Return the estimates of rows, over closed clusters.

        Args:
            rows: rows to estimate.
            everything: about all items, with the sums over closed clusters, one element per row; None if nothing is
                known about them.
            confidence: level in (0, 1); the intervals hold at every number of clusters at once, from enough on.
            powered: whether proxy scores and counts are used for the estimate; False for the weighted mean.

        Raises: ValueError if the moments have no sums over clusters.
        """
        powered = powered and everything is not None
        clusters = None if everything is None else everything.moments.clusters
        if everything is not None and clusters is not None:
            # Absences are not counted by cluster: they have the same share in closed clusters as in all.
            absent = everything.n_absent * clusters.n / np.maximum(everything.moments.n, 1)
            closed = np.where(everything.moments.n > 0, absent, everything.n_absent)
            everything = Everything(replace(everything.moments, n=clusters.n, mean=clusters.mean), closed)
        elif powered:
            raise ValueError("everything has no sums over clusters: read them from a ClusterTable")
        fitted = self._pairs.fit(rows, everything, powered=powered)
        sums, linear, fitted_pairs = self._sums[:, rows], fitted.linear, fitted.known
        theta, k, scale = linear.theta, linear.k, linear.scale
        one = np.ones_like(theta)
        # Weights of the sums of w in B.
        of_b = np.stack([k * linear.proxy_mean, -theta, one, -k, 0 * one, -theta, one])
        of_b *= np.repeat(scale, [4, 3], axis=0) / linear.answered
        nothing = np.zeros_like(scale[0])
        of_weights = np.stack([scale[0], *[nothing] * 3, scale[1], *[nothing] * 2])
        weight2, variance = _square(sums[_ALL], of_weights), _square(sums[_ALL], of_b)
        equal = np.where(weight2 > 0, linear.shares.sum(axis=0) ** 2 / np.where(weight2 > 0, weight2, 1.0), 0.0)
        trusted = equal >= LEAST_CLUSTERS
        if powered and clusters is not None:
            share = np.where(linear.shares[0] > 0, linear.shares[0], 1.0)
            size, steep = np.maximum(clusters.n, 1) / share, k / linear.answered
            own = np.where(linear.shares[0] > 0, steep * steep * clusters.squares, 0.0)
            of_a = np.stack([-clusters.mean, one])
            both = np.einsum("ir,jr,ijr->r", of_a, of_b, sums[_WITH_ITEMS].reshape(2, _TERMS, -1))
            late = np.sqrt(own * _square(sums[_LATE], of_b))
            variance += own / size**2 + 2 * (steep * both + late) / size
            variance += np.maximum(-linear.drawn, 0.0) + linear.few
            # Every pair with a proxy score is of an item with one; a repair may have dropped their sums.
            trusted &= 2 * clusters.n >= np.minimum(sums[0], self._pairs.scored(rows))
        variance = np.maximum(variance, 0.0)
        # Clusters with equal means say little about the next one.
        trusted &= variance * sums[0] > NO_SPREAD
        single = fitted_pairs.variance + np.maximum(linear.drawn, 0.0)
        effect = np.where(single > 0, variance / np.where(single > 0, single, 1.0), np.nan)
        trusted &= enough(fitted_pairs.mean, fitted_pairs.items / np.fmax(effect, 1.0))
        estimates = fitted.powered(variance, sums[0], trusted, confidence=confidence)
        return replace(estimates, design_effect=effect, n_clusters=sums[0])

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
        size = _FIRST_SIZE if data[:1] == b"\x01" else self.size
        own = data[:size]
        if data[:1] == b"\x01" and len(own) == _FIRST_SIZE:
            own = bytes([2]) + _read_version_1(np.frombuffer(own, "<f8", offset=1)).astype("<f8").tobytes()
        super().load(row, own)
        self._pairs.load(row, data[size:])


_FIRST_SIZE: Final = 1 + 8 * _FIRST_SUMS


def _read_version_1(sums: Floats) -> Floats:
    def products(numbers: Floats) -> Floats:
        ww, wy, wf, yy, yf, ff = numbers
        matrix = np.zeros((_TERMS, _TERMS))
        matrix[:4, :4] = [[ww, ww, wy, wf], [ww, ww, wy, wf], [wy, wy, yy, yf], [wf, wf, yf, ff]]
        return matrix[_FIRST, _SECOND]

    with_items = np.zeros((2, _TERMS))
    with_items[:, :4] = sums[7:13].reshape(2, 3)[:, [0, 0, 1, 2]]
    return np.concatenate([sums[:1], products(sums[1:7]), with_items.ravel(), products(sums[13:19])])


def read_pairs(
    pairs: PairTable,
    closed: ClusteredPairs | None,
    rows: Rows,
    everything: Everything | None,
    *,
    confidence: float,
    powered: bool = True,
) -> Powered:
    """Return the estimates of rows over all their pairs, with intervals over closed clusters where there are any.

    Args:
        pairs: table with all pairs.
        closed: table with the pairs of closed clusters; None where each item counts by itself.
        rows: indexes in both.
        everything: about all items, with the sums over clusters, one element per row; None if nothing is known.
        powered: whether proxy scores and counts are used for the estimate; False for the weighted mean.
    """
    estimates = pairs.read(rows, everything, confidence=confidence, powered=powered)
    if closed is None:
        return estimates
    interval = closed.read(rows, everything, confidence=confidence, powered=powered)
    # Pairs of open clusters are in the estimate, and not yet in the interval.
    return replace(
        estimates,
        lower=np.fmin(interval.lower, estimates.estimate),
        upper=np.fmax(interval.upper, estimates.estimate),
        standard_error=interval.standard_error,
        n_effective=interval.n_effective,
        design_effect=interval.design_effect,
        n_clusters=interval.n_clusters,
    )


def _by_cluster(values: Floats, cluster_of: Rows, count: int) -> Floats:
    totals = np.zeros((values.shape[0], count))
    for quantity, added in zip(totals, values, strict=True):
        np.add.at(quantity, cluster_of, added)
    return totals


def _products(sums: Floats) -> Floats:
    return np.asarray(sums[_FIRST] * sums[_SECOND])


def _square(products: Floats, weights: Floats) -> Floats:
    twice = np.where(_FIRST == _SECOND, 1.0, 2.0)[:, None]
    return np.asarray(np.maximum((twice * weights[_FIRST] * weights[_SECOND] * products).sum(axis=0), 0.0))
