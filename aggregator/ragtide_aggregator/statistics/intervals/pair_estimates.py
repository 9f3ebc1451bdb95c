"""Weighted and prediction-powered means from sums of pairs; prediction_powered.py has the formulas."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats
from .asymptotic import NO_SPREAD, asymptotic_half_width

LEAST_CLUSTERS: Final = 30
"""The limit is trusted from this number of equally weighted clusters on."""


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


def fitted(sums: Floats, everything: tuple[Floats, Floats] | None) -> Fitted:
    """Return the estimates of sums of pairs with their variance, if items are independent.

    Args:
        sums: as of `PairTable.sums`, one column per row; shape (13, rows).
        everything: mean and number of the proxy scores of all items, one element per row; None for the weighted mean.
    """
    n, w, w2, *parts = sums
    some = np.maximum(w, 1.0)
    y, f, yy, ff, yf = (part / some for part in parts[:5])
    variance_y, variance_f = np.maximum(yy - y * y, 0.0), np.maximum(ff - f * f, 0.0)
    covariance = yf - y * f
    if everything is None:
        k, drawn_in, size = np.zeros_like(y), np.zeros_like(y), np.ones_like(y)
    else:
        k = np.where(variance_f > 0, covariance / np.where(variance_f > 0, variance_f, 1.0), 0.0)
        drawn_in, size = everything[0] - f, np.maximum(everything[1], 1)
    estimate = np.clip(y + k * drawn_in, 0.0, 1.0)
    # Sum of w^2 (r - mean r)^2 for r = y - k f, written out.
    y2, f2, yy2, ff2, yf2 = parts[5:]
    r = y - k * f
    squares = yy2 - 2 * k * yf2 + k * k * ff2 - 2 * r * (y2 - k * f2) + r * r * w2
    variance = np.maximum(squares, 0.0) / some**2
    variance += k * k * variance_f / size
    items = np.where(w2 > 0, w * w / np.where(w2 > 0, w2, 1.0), 0.0)
    return Fitted(n, some, items, y, variance_y, k, r, estimate, variance)
