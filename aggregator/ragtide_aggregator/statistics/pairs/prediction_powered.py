"""Prediction-powered means: from reference scores of a weighted sample, and proxy scores of the items that have one.

**What is estimated.** Of N items each may be chosen for a reference score (of a judge or a person), with a known
probability 1 / w. A chosen item has a reference score y, or none because the judge cannot tell: a = 1 or 0. The target
is the mean of y over the items that can be told, sum a y / sum a, and beside it the share of these items, mean a.

**Two strata.** N_s items have a proxy score f, and N_u have none. Each stratum is estimated by itself, and the two are
added with their known counts. Of the scored items, for z = a y and for a alike and any k,

    mean(z) = k mean_all(f) + sum w (z - k f) / sum w

is correct for any proxy labeler. The better f predicts z, the more sampling error is removed by k = cov(z, f) / var(f).
Of the items without a proxy score the mean is sum w z / sum w. With the shares P of the strata,

    theta = Z / A,   Z = P_s mean_s(z) + P_u mean_u(z),   A = P_s mean_s(a) + P_u mean_u(a).

**Variance.** Let u = a (y - theta), with mean U in its stratum, k that of u, and r = u - k f with the weighted mean R
in its stratum (k = 0 without a proxy score). The n items are among the N items, so

    A^2 var(theta) = sum over strata of P^2 sum w^2 (r - R)^2 / (sum w)^2
                     + (k^2 P_s var(f) + P_s U_s^2 + P_u U_u^2) / N,

because with this k the proxy score and r have no covariance. With both strata each sum of squares counts one more item
at the farthest end of the scale, so that a few equal reference scores do not claim that all are equal.

**A stratum with too few reference scores** (`LEAST_OF_STRATUM`) may be anything. The interval is then that of the other
stratum, and each of the unknown items may have a score of 0 or of 1.

The weighted mean, sum w a y / sum w a, uses the counts only for such a stratum.

Source: Angelopoulos, Duchi, Zrnic (2023), "PPI++: Efficient prediction-powered inference", arXiv:2311.01453, section 6.
There the N items do not include the n; with N + n for their N, its k / (1 + n / N) is the k here.
Strata after sampling, ratios, weights: Sarndal, Swensson, Wretman (1992), Model Assisted Survey Sampling, sections 5.6,
5.7, 6.4 and 7.6.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..intervals.asymptotic import enough
from ..intervals.pair_estimates import Fitted, Powered
from ..means.moments import Moments
from ..tables.batches import Floats, Rows
from ..tables.row_table import ADD, RowColumn, RowTable
from ..tables.tables import checked

TERMS: Final = 28
"""Sums over pairs."""

LEAST_OF_STRATUM: Final = 10
"""Number of equally weighted reference scores, or refusals of one, from which a stratum is estimated."""

_SCORED: Final = slice(4, 12)
_SCORED2: Final = slice(12, 20)
_ALONE: Final = slice(20, 24)
_ALONE2: Final = slice(24, 28)

_FIRST_TERMS: Final = 13
"""Sums of version 1, whose pairs all had both scores: number, w, w^2; with w and w^2 y, f, y^2, f^2, y f."""


class Everything(NamedTuple):
    """What is known about all items, one element per row."""

    moments: Moments
    """Of the proxy scores of the items that have one."""
    n_absent: Floats
    """Number of items without a proxy score."""

    @classmethod
    def scored(cls, moments: Moments) -> "Everything":
        """Return it for items that all have a proxy score."""
        return cls(moments, np.zeros(moments.n.shape))


def pair_terms(reference: Floats, proxy: Floats, probability: Floats) -> Floats:
    """Return what each pair adds to the sums, shape (TERMS, n); nan stands for a score that is missing."""
    answered, scored = ~np.isnan(reference), ~np.isnan(proxy)
    w = 1 / probability
    a, y, f = answered.astype(np.float64), np.where(answered, reference, 0.0), np.where(scored, proxy, 0.0)
    of_scored = scored * np.stack([np.ones_like(w), a, y, f, y * y, f * f, y * f, a * f])
    alone = ~scored * np.stack([np.ones_like(w), a, y, y * y])
    counts = np.stack([scored & answered, scored & ~answered, ~scored & answered, ~scored & ~answered])
    return np.concatenate([counts, w * of_scored, w**2 * of_scored, w * alone, w**2 * alone])


@dataclass(frozen=True, slots=True)
class Linear:
    """Theta as a sum over items, but for terms that vanish faster; one element per row.

    The influence of a chosen item is its w times its `scale` times r - R, divided by `answered`.
    """

    theta: Floats
    answered: Floats
    """A: estimated share of the items that can be told."""
    k: Floats
    """Weight of the proxy score in u."""
    proxy_mean: Floats
    """Mean proxy score of all items that have one; 0 for the weighted mean."""
    scale: Floats
    """P / sum w of both strata; shape (2, rows)."""
    shares: Floats
    """P of both strata; shape (2, rows)."""
    drawn: Floats
    """By how much the variance would be larger if the counts of the strata were not known."""
    few: Floats
    """The part of the variance that is there for strata with few pairs."""


@dataclass(frozen=True, slots=True)
class Strata:
    """The estimates of rows, and what their intervals rest on."""

    whole: Fitted
    """Over all pairs."""
    known: Fitted
    """Over the strata with enough pairs."""
    linear: Linear
    """Of `known`."""
    chosen: Floats
    """Number of pairs in `known`."""
    unknown: Floats
    """Share of the items in a stratum with too few pairs."""

    def powered(self, variance: Floats, units: Floats, trusted: NDArray[np.bool_], *, confidence: float) -> Powered:
        """Return the estimates with intervals; arguments as of `Fitted.powered`, about `known`."""
        trusted = trusted & (self.unknown < 1)
        powered = self.known.powered(variance, units, trusted, confidence=confidence)
        # Each unknown item has the lowest or the highest score, or cannot be told.
        answered = (1 - self.unknown) * self.known.coverage
        part = np.where(self.unknown > 0, answered / np.fmax(answered + self.unknown, 1e-12), 1.0)
        lower, upper = part * powered.lower, part * powered.upper + 1 - part
        whole, estimate = self.whole, np.where(self.whole.n > 0, self.whole.estimate, np.nan)
        return replace(
            powered,
            estimate=estimate,
            lower=np.where(trusted, np.fmin(lower, estimate), 0.0),
            upper=np.where(trusted, np.fmax(upper, estimate), 1.0),
            n=whole.n,
            n_absent=whole.n_absent,
            k=whole.k,
            coverage=whole.coverage,
            proxy_coverage=whole.proxy_coverage,
        )


class PairTable(RowTable, version=2, what="pairs", capacity=16):
    """Weighted sums of pairs of a reference and a proxy score, one row per key; rows are merged by addition."""

    # Numbers of pairs: with both scores, with the proxy's alone, with the reference's alone, with none. Of the pairs
    # with a proxy score, with w and with w^2: sums of 1, a, y, f, y^2, f^2, y f, a f. Of the others: of 1, a, y, y^2.
    _sums = RowColumn(np.float64, (TERMS,), merge=ADD, least=0.0)

    def update(self, rows: Rows, reference: Floats, proxy: Floats, probability: Floats) -> None:
        """Add pairs to rows, in order; a row may occur more than once.

        Args:
            rows: row of each pair, shape (n,).
            reference: reference scores in [0, 1], nan for a chosen item without one; same shape.
            proxy: proxy scores in [0, 1], nan for an item without one; same shape.
            probability: probability with which each item was chosen for a reference score, in (0, 1], same shape.

        Raises: ValueError for a score or a probability out of its range; nothing is added then.
        """
        checked(reference[~np.isnan(reference)])
        checked(proxy[~np.isnan(proxy)])
        if not np.all((probability > 0) & (probability <= 1)):
            raise ValueError("a probability is not in (0, 1]: give the probability with which each item was chosen")
        terms = pair_terms(reference, proxy, probability)
        # Added in order within a row, so that the sums do not depend on how pairs were cut into batches.
        for quantity, added in zip(self._sums, terms, strict=True):
            np.add.at(quantity, rows, added)

    def set_sums(self, row: int, totals: Floats) -> None:
        """Set the sums of a row; shape (TERMS,)."""
        self._sums[:, row] = totals

    def n(self, row: int) -> int:
        """Return the number of reference scores of a row."""
        return int(self._sums[0, row] + self._sums[2, row])

    def scored(self, rows: Rows) -> Floats:
        """Return the number of pairs of rows with a proxy score."""
        return np.asarray(self._sums[0, rows] + self._sums[1, rows])

    def fit(self, rows: Rows, everything: Everything | None, *, powered: bool = True) -> Strata:
        """Return the estimates of rows.

        Args:
            rows: rows to estimate.
            everything: about all items, one element per row; None if nothing is known about them.
            powered: whether proxy scores and counts are used for the estimate; False for the weighted mean.
        """
        return _strata(self._sums[:, rows], everything, powered=powered and everything is not None)

    def read(self, rows: Rows, everything: Everything | None, *, confidence: float, powered: bool = True) -> Powered:
        """Return the estimates of rows.

        Args:
            rows: rows to estimate.
            everything: about all items, one element per row; None if nothing is known about them.
            confidence: level in (0, 1); the intervals hold at every n at once, from `enough` pairs on.
            powered: whether proxy scores and counts are used for the estimate; False for the weighted mean.
        """
        strata = self.fit(rows, everything, powered=powered)
        trusted = enough(strata.known.mean, strata.known.items)
        return strata.powered(strata.known.variance, strata.chosen, trusted, confidence=confidence)

    def sums(self, row: int) -> Floats:
        """Return the sums of a row; shape (TERMS,)."""
        return self._sums[:, row]

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned, also to that of version 1.

        Raises: ValueError if the bytes were written by another version.
        """
        if data[:1] == b"\x01" and len(data) == _FIRST_SIZE:
            data = bytes([2]) + _read_version_1(np.frombuffer(data, "<f8", offset=1)).astype("<f8").tobytes()
        super().load(row, data)

    @classmethod
    def bytes_in(cls, data: bytes) -> int:
        """Return how many bytes at the beginning of some bytes are those of a row, of this version or of version 1."""
        return _FIRST_SIZE if data[:1] == b"\x01" else cls.SIZE


_FIRST_SIZE: Final = 1 + 8 * _FIRST_TERMS


def _read_version_1(sums: Floats) -> Floats:
    n, w, w2, y, f, yy, ff, yf, y2, f2, yy2, ff2, yf2 = sums
    return np.array(
        [n, 0, 0, 0, w, w, y, f, yy, ff, yf, f, w2, w2, y2, f2, yy2, ff2, yf2, f2, *[0] * 8], dtype=np.float64
    )


def _strata(sums: Floats, everything: Everything | None, *, powered: bool) -> Strata:
    w = np.stack([sums[_SCORED][0], sums[_ALONE][0]])
    w2 = np.stack([sums[_SCORED2][0], sums[_ALONE2][0]])
    chosen = np.stack([sums[0] + sums[1], sums[2] + sums[3]])
    some = w > 0
    size = np.ones(w.shape[1])
    shares, thin = _parts(w), np.zeros(w.shape, dtype=bool)
    proxy_coverage = np.full(size.shape, np.nan)
    proxy_mean = np.zeros_like(size)
    if everything is not None:
        # Every chosen item is one of all items.
        counts = np.maximum(np.stack([everything.moments.n, everything.n_absent]), chosen)
        size, counted = np.maximum(counts.sum(axis=0), 1.0), _parts(counts)
        proxy_coverage = np.where(counts.sum(axis=0) > 0, counted[0], np.nan)
        items = np.where(some, w * w / np.where(some, w2, 1.0), 0.0)
        thin = (counts > 0).all(axis=0) & (items < LEAST_OF_STRATUM)
        unknown = np.where(thin, counted, 0.0).sum(axis=0)
        if powered:
            shares, proxy_mean = counted, everything.moments.mean
    else:
        unknown = np.zeros_like(size)
    inputs = _PairSums(sums, w, w2, size, proxy_mean, proxy_coverage, powered=powered)
    whole, linear = inputs.fitted(shares * some)
    if not thin.any():
        return Strata(whole, whole, linear, chosen.sum(axis=0), unknown)
    used = some & ~thin
    known, linear = inputs.fitted(shares * used)
    return Strata(whole, known, linear, (chosen * used).sum(axis=0), unknown)


def _parts(counts: Floats) -> Floats:
    total = counts.sum(axis=0)
    return np.asarray(counts / np.where(total > 0, total, 1.0))


@dataclass(frozen=True, slots=True)
class _PairSums:
    """Sums of pairs and what is known about all items."""

    sums: Floats
    w: Floats
    w2: Floats
    size: Floats
    proxy_mean: Floats
    proxy_coverage: Floats
    powered: bool

    def fitted(self, parts: Floats) -> tuple[Fitted, Linear]:
        """Return the estimates over some strata, given the share of each in all items, 0 to leave it out; (2, rows)."""
        sums, w, w2 = self.sums, np.maximum(self.w, 1.0), self.w2
        shares, size = _parts(parts), np.maximum(self.size * parts.sum(axis=0), 1.0)
        a, y, f, yy, ff, yf, af = sums[_SCORED][1:] / w[0]
        a_u, y_u, yy_u = sums[_ALONE][1:] / w[1]
        variance_f = np.maximum(ff - f * f, 0.0)
        if self.powered:
            steep = np.where(variance_f > 0, variance_f, 1.0)
            k_y, k_a = (np.where(variance_f > 0, part / steep, 0.0) for part in (yf - y * f, af - a * f))
            drawn_in = self.proxy_mean - f
        else:
            k_y = k_a = drawn_in = np.zeros_like(y)
        z = np.clip(shares[0] * (y + k_y * drawn_in) + shares[1] * y_u, 0.0, 1.0)
        share_answered = np.clip(shares[0] * (a + k_a * drawn_in) + shares[1] * a_u, z, 1.0)
        divisor = np.where(share_answered > 0, share_answered, 1.0)
        theta, k = z / divisor, k_y - z / divisor * k_a
        mean_r = np.stack([y - theta * a - k * f, y_u - theta * a_u])
        centre = mean_r if self.powered else np.zeros_like(mean_r)
        both = self.powered & (shares > 0).all(axis=0)
        # Sums of w^2 (r - centre)^2 for r = y - theta a - k f, written out; a y is y, and a^2 is a.
        a2, y2, f2, yy2, ff2, yf2, af2 = sums[_SCORED2][1:]
        c, c_u = centre
        squares = yy2 + theta * theta * a2 + k * k * ff2 + c * c * w2[0]
        squares += 2 * (-theta * y2 - k * yf2 - c * y2 + theta * k * af2 + theta * c * a2 + k * c * f2)
        a2_u, y2_u, yy2_u = sums[_ALONE2][1:]
        squares_u = yy2_u + theta * theta * a2_u + c_u * c_u * w2[1]
        squares_u += 2 * (-theta * y2_u - c_u * y2_u + theta * c_u * a2_u)
        farthest = np.maximum(np.abs(1 - theta - centre), np.abs(theta + centre))
        more = np.where(both, (w2 / w * farthest) ** 2, 0.0)
        scale = shares / w
        few = (scale**2 * more).sum(axis=0)
        variance = (scale**2 * np.maximum(np.stack([squares, squares_u]), 0.0)).sum(axis=0) + few
        drawn = np.zeros_like(theta)
        if self.powered:
            means = mean_r + np.stack([k * self.proxy_mean, np.zeros_like(k)])
            variance += (shares[0] * k * k * variance_f + (shares * means**2).sum(axis=0)) / size
            of_r = np.stack([y2 - theta * a2 - k * f2, y2_u - theta * a2_u]) - centre * w2
            drawn = (scale**2 * (means**2 * (w2 - self.w) + 2 * means * of_r)).sum(axis=0) / divisor**2
        answered, mean_y = shares[0] * a + shares[1] * a_u, shares[0] * y + shares[1] * y_u
        some = np.where(answered > 0, answered, 1.0)
        mean = mean_y / some
        spread = np.maximum((shares[0] * yy + shares[1] * yy_u) / some - mean * mean, 0.0)
        of_items = (scale**2 * np.stack([a2, a2_u])).sum(axis=0)
        fitted = Fitted(
            n=sums[0] + sums[2],
            n_absent=sums[1] + sums[3],
            items=np.where(of_items > 0, answered**2 / np.where(of_items > 0, of_items, 1.0), 0.0),
            mean=mean,
            spread=spread,
            k=k / divisor,
            estimate=np.clip(theta, 0.0, 1.0),
            variance=variance / divisor**2,
            coverage=np.where(self.w.sum(axis=0) > 0, share_answered, np.nan),
            proxy_coverage=self.proxy_coverage,
        )
        return fitted, Linear(theta, divisor, k, self.proxy_mean, scale, shares, drawn, few / divisor**2)
