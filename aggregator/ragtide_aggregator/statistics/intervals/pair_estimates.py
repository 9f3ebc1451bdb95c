"""Estimates with intervals from a weighted sample, and the weighted mean of values that have no proxy score."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats
from .asymptotic import NO_SPREAD, asymptotic_half_width
from .intervals import Interval

LEAST_CLUSTERS: Final = 30
"""The limit is trusted from this number of equally weighted clusters on."""


@dataclass(frozen=True, slots=True)
class Powered(Interval[Floats, Floats]):
    """Estimates of mean reference scores in [0, 1], one element per row; nan and the whole range without pairs."""

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
    n_absent: Floats
    """Number of chosen items without a reference score."""
    coverage: Floats
    """Estimated share of all items that have a reference score when they are chosen; nan without pairs."""
    proxy_coverage: Floats
    """Share of all items that have a proxy score; nan where it is not known."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Estimates with the numbers that their intervals need, one element per row."""

    n: Floats
    """Number of reference scores."""
    n_absent: Floats
    """Number of chosen items without a reference score."""
    items: Floats
    """Number of equally weighted reference scores that would be as precise, (sum w)^2 / sum w^2."""
    mean: Floats
    """Weighted mean of the reference scores, without proxy scores."""
    spread: Floats
    """Weighted variance of the reference scores."""
    k: Floats
    """Weight of the proxy score."""
    estimate: Floats
    """Theta, in [0, 1]."""
    variance: Floats
    """Variance of theta, if items are independent."""
    coverage: Floats
    """Estimated share of all items that have a reference score when they are chosen."""
    proxy_coverage: Floats
    """Share of all items that have a proxy score; nan where it is not known."""

    def powered(self, variance: Floats, units: Floats, trusted: NDArray[np.bool_], *, confidence: float) -> Powered:
        """Return the estimates with intervals.

        Args:
            units: number of independent units that it is the variance of: chosen items, or clusters of them.
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
            n_absent=self.n_absent,
            coverage=self.coverage,
            proxy_coverage=self.proxy_coverage,
        )


def weighted_fit(n: Floats, w: Floats, w2: Floats, of_w: Floats, of_w2: Floats) -> Fitted:
    """Return the weighted means of values y with weights w, with their variance if values are independent.

    Source: Hajek (1971), in Foundations of Statistical Inference, 236, linearized.

    Args:
        n: numbers of values, one element per row.
        w: sums of w.
        w2: sums of w^2.
        of_w: sums of w y and w y^2; shape (2, rows).
        of_w2: sums of w^2 y and w^2 y^2; shape (2, rows).
    """
    some = np.maximum(w, 1.0)
    mean, square = of_w / some
    squares = of_w2[1] - 2 * mean * of_w2[0] + mean * mean * w2
    return Fitted(
        n=n,
        n_absent=np.zeros_like(mean),
        items=np.where(w2 > 0, w * w / np.where(w2 > 0, w2, 1.0), 0.0),
        mean=mean,
        spread=np.maximum(square - mean * mean, 0.0),
        k=np.zeros_like(mean),
        estimate=np.clip(mean, 0.0, 1.0),
        variance=np.maximum(squares, 0.0) / some**2,
        coverage=np.where(n > 0, 1.0, np.nan),
        proxy_coverage=np.full(mean.shape, np.nan),
    )
