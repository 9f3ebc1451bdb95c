"""Prediction-powered means: from reference scores of a weighted sample, and proxy scores of all items.

Let f be the proxy score, known for all N items, and y the reference score (of a judge or a person), known for n of
them, each chosen with a known probability 1 / w. For any k the estimate

    theta = k mean_all(f) + sum w (y - k f) / sum w

is correct for any proxy labeler. With k = 0 it is the plain weighted mean of y. The better f predicts y, the more
sampling error is removed by k = cov(y, f) / var(f). The n items are among the N items, so

    var(theta) = sum w^2 (r - mean r)^2 / (sum w)^2 + k^2 var(f) / N,   r = y - k f,

because with this k the proxy score and r have no covariance.

Source: Angelopoulos, Duchi, Zrnic (2023), "PPI++: Efficient prediction-powered inference", arXiv:2311.01453, section 6.
There the N items do not include the n; with N + n for their N, its k / (1 + n / N) is the k here.
Weighted: Hajek's ratio estimate, Sarndal, Swensson, Wretman (1992), Model Assisted Survey Sampling, sections 5.7, 6.4.
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .asymptotic import NO_SPREAD, asymptotic_half_width, enough
from .batches import Floats, Rows
from .moments import Moments
from .tables import checked, doubled

VERSION: Final = 1
"""Version of the bytes of one row."""

_ROW = struct.Struct("<B13d")
_CAPACITY = 16


@dataclass(frozen=True, slots=True)
class Powered:
    """Estimates of mean reference scores in [0, 1], one element per row; nan and the whole range without pairs."""

    estimate: Floats
    lower: Floats
    upper: Floats
    n: Floats
    """Number of reference scores."""
    standard_error: Floats
    """Standard error of the estimates."""
    n_effective: Floats
    """Number of uniformly drawn reference scores that would give the same precision without proxy scores."""
    k: Floats
    """Weight of the proxy score."""
    design_effect: Floats
    """How many times larger dependence inside clusters makes the variance; nan where each item counts by itself."""
    n_clusters: Floats
    """Number of clusters with reference scores; nan where each item counts by itself."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Estimates with the numbers that their intervals need, one element per row."""

    n: Floats
    """Number of pairs."""
    weight: Floats
    """Sum of w, at least 1."""
    items: Floats
    """Number of equally weighted pairs that would be as precise, (sum w)^2 / sum w^2."""
    mean: Floats
    """Weighted mean of y."""
    spread: Floats
    """Weighted variance of y."""
    k: Floats
    """Weight of the proxy score."""
    r: Floats
    """Weighted mean of y - k f."""
    estimate: Floats
    """Theta, in [0, 1]."""
    variance: Floats
    """Variance of theta, if items are independent."""

    def powered(self, variance: Floats, units: Floats, trusted: NDArray[np.bool_], *, confidence: float) -> Powered:
        """Return the estimates with intervals.

        Args:
            variance: of theta.
            units: number of independent units that it is the variance of, pairs or clusters.
            trusted: whether there are enough for an interval.
            confidence: level in (0, 1).
        """
        # Variance of one unit's influence on the estimate, with one degree of freedom less than units.
        influence = variance * np.maximum(units, 1.0) ** 2 / np.maximum(units - 1, 1.0)
        half_width = asymptotic_half_width(influence, np.maximum(units, 1.0), confidence=confidence)
        known = trusted & (self.spread > NO_SPREAD)
        precise = (variance > 0) & (units > 1)
        return Powered(
            estimate=np.where(self.n > 0, self.estimate, np.nan),
            lower=np.where(known, np.maximum(self.estimate - half_width, 0.0), 0.0),
            upper=np.where(known, np.minimum(self.estimate + half_width, 1.0), 1.0),
            n=self.n,
            standard_error=np.sqrt(influence / np.maximum(units, 1.0)),
            n_effective=np.where(precise, self.spread / np.where(precise, variance, 1.0), units),
            k=self.k,
            design_effect=np.full(variance.shape, np.nan),
            n_clusters=np.full(variance.shape, np.nan),
        )


class PairTable:
    """Weighted sums of pairs of a reference and a proxy score, one row per key; rows are merged by addition."""

    def __init__(self) -> None:
        self._used = 0
        # Number of pairs, sums of w and w^2; with w and with w^2: sums of y, f, y^2, f^2, y f.
        self._sums = np.zeros((13, _CAPACITY))

    def __len__(self) -> int:
        return self._used

    SIZE: Final = _ROW.size
    """Bytes of a row."""

    def add_row(self) -> int:
        """Add a row without pairs and return its index."""
        if self._used == self._sums.shape[1]:
            self._sums = doubled(self._sums, axis=1)
        self._used += 1
        return self._used - 1

    def update(self, rows: Rows, reference: Floats, proxy: Floats, probability: Floats) -> None:
        """Add pairs to rows, in order; a row may occur more than once.

        Args:
            rows: row of each pair, shape (n,).
            reference: reference scores in [0, 1], same shape.
            proxy: proxy scores in [0, 1], same shape.
            probability: probability with which each item was chosen for a reference score, in (0, 1], same shape.

        Raises: ValueError for a score or a probability out of its range; nothing is added then.
        """
        checked(reference)
        checked(proxy)
        if not np.all((probability > 0) & (probability <= 1)):
            raise ValueError("a probability is not in (0, 1]: give the probability with which each item was chosen")
        w = 1 / probability
        products = np.stack([reference, proxy, reference**2, proxy**2, reference * proxy])
        terms = np.concatenate([np.stack([np.ones_like(w), w, w**2]), w * products, w**2 * products])
        # Added in order within a row, so that the sums do not depend on how pairs were cut into batches.
        for quantity, added in zip(self._sums, terms, strict=True):
            np.add.at(quantity, rows, added)

    def merge(self, row: int, other: "PairTable", other_row: int) -> None:
        """Add the pairs of a row of another table to a row."""
        self._sums[:, row] += other._sums[:, other_row]

    def n(self, row: int) -> int:
        """Return the number of pairs of a row."""
        return int(self._sums[0, row])

    def fit(self, rows: Rows, everything: Moments | None) -> Fitted:
        """Return the estimates of rows with their variance, if items are independent.

        Args:
            rows: rows to estimate.
            everything: moments of the proxy scores of all items, one element per row; None for the weighted mean.
        """
        n, w, w2, *sums = self._sums[:, rows]
        some = np.maximum(w, 1.0)
        y, f, yy, ff, yf = (part / some for part in sums[:5])
        variance_y, variance_f = np.maximum(yy - y * y, 0.0), np.maximum(ff - f * f, 0.0)
        covariance = yf - y * f
        if everything is None:
            k, drawn_in, size = np.zeros_like(y), np.zeros_like(y), np.ones_like(y)
        else:
            k = np.where(variance_f > 0, covariance / np.where(variance_f > 0, variance_f, 1.0), 0.0)
            drawn_in, size = everything.mean - f, np.maximum(everything.n, 1)
        estimate = np.clip(y + k * drawn_in, 0.0, 1.0)
        # Sum of w^2 (r - mean r)^2 for r = y - k f, written out.
        y2, f2, yy2, ff2, yf2 = sums[5:]
        r = y - k * f
        squares = yy2 - 2 * k * yf2 + k * k * ff2 - 2 * r * (y2 - k * f2) + r * r * w2
        variance = np.maximum(squares, 0.0) / some**2
        variance += k * k * variance_f / size
        items = np.where(w2 > 0, w * w / np.where(w2 > 0, w2, 1.0), 0.0)
        return Fitted(n, some, items, y, variance_y, k, r, estimate, variance)

    def read(self, rows: Rows, everything: Moments | None, *, confidence: float) -> Powered:
        """Return the estimates of rows.

        Args:
            rows: rows to estimate.
            everything: moments of the proxy scores of all items, one element per row; None for the weighted mean.
            confidence: level in (0, 1); the intervals hold at every n at once, from `enough` pairs on.
        """
        fitted = self.fit(rows, everything)
        trusted = enough(fitted.mean, fitted.items)
        return fitted.powered(fitted.variance, fitted.n, trusted, confidence=confidence)

    def sums(self, row: int) -> Floats:
        """Return the sums of a row: number of pairs, w, w^2; with w and with w^2: y, f, y^2, f^2, y f; shape (13,)."""
        return self._sums[:, row]

    def clear(self, row: int) -> None:
        """Remove all pairs from a row."""
        self._sums[:, row] = 0.0

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a number is negative or not finite; same shape."""
        sums = self._sums[:, rows]
        return np.asarray(~(np.isfinite(sums) & (sums >= 0)).all(axis=0))

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return _ROW.pack(VERSION, *self._sums[:, row].tolist())

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != _ROW.size or data[0] != VERSION:
            raise ValueError(f"a row of pairs has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        self._sums[:, row] = _ROW.unpack(data)[1:]
