"""Weighted means of values that were kept from the traffic with different probabilities: arrays in, arrays out.

A value x that was kept with probability p stands for w = 1 / p values of the traffic. Where all values of a key have
one probability, their plain mean is unbiased, and nothing here is needed. Otherwise the mean is

    m = sum w x / sum w,    var(m) = sum w^2 (x - m)^2 / (sum w)^2,

the ratio estimate of Hajek with its linearized variance, which `prediction_powered` has for samples of a judge as well.
The interval is the `asymptotic` confidence sequence of the linearized values w (x - m). It is given from a sum of w x,
and of w (1 - x), on that 30 values of the largest w would have: before that a rare value of a large weight may not have
come yet (benchmarks/measured/sampled_traffic.md).

Where values count in clusters, with A = sum w and B = sum w x of a cluster, the variance is
sum (B - m A)^2 / (sum A)^2. The sums of A and B are stored for clusters with a sampled value only. For all other
clusters, whose mean is m_u, the sums of `clusters` bound the rest: the root of sum (Y - n m)^2 is at most that of
sum (Y - n m_u)^2 plus |m_u - m| times that of sum n^2.

Sources: Hajek (1971), in Foundations of Statistical Inference, 236; Sarndal, Swensson, Wretman (1992), Model Assisted
Survey Sampling, sections 5.7 and 5.5, and 4.2 for clusters; Waudby-Smith et al. (2024), Annals of Statistics 52(6),
Theorem 2.2, for the sequence.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..intervals.asymptotic import enough, enough_to_count
from ..intervals.pair_estimates import LEAST_CLUSTERS, Fitted, Powered, weighted_fit
from ..tables.batches import Floats
from .clusters import ClusterSums
from .sampling_weights import SampledSums


@dataclass(frozen=True, slots=True)
class ClosedWeights:
    """Weighted means over closed clusters, one element per key."""

    used: NDArray[np.bool_]
    """Whether values of the key count in clusters."""
    count: Floats
    """Number of clusters."""
    estimate: Floats
    """Weighted mean of the values in them, in [0, 1]."""
    variance: Floats
    """Variance of the estimate."""
    equal: Floats
    """Number of equally weighted clusters, (sum A)^2 / sum A^2."""


@dataclass(frozen=True, slots=True)
class WeightedMeans:
    """Weighted means of keys, one element per key; only those of `mixed` keys differ from plain means."""

    mixed: NDArray[np.bool_]
    """Whether values of the key were kept with different probabilities."""
    sampled: NDArray[np.bool_]
    """Whether any value of the key was sampled."""
    traffic: Floats
    """Sum of w over all values."""
    heaviest: Floats
    """Number of values of the largest w that would weigh as much as all values, sum w / max w."""
    fit: Fitted
    """Means with their variances, if values are independent."""
    closed: ClosedWeights | None
    """None if each value counts by itself."""

    @property
    def mean(self) -> Floats:
        """Weighted mean, in [0, 1]."""
        return self.fit.estimate

    @property
    def spread(self) -> Floats:
        """Weighted variance of the values."""
        return self.fit.spread

    def intervals(self, *, confidence: float, counts: ArrayLike = False) -> Powered:
        """Return the weighted means with intervals: the whole range while there are not enough values or clusters.

        Args:
            confidence: level in (0, 1); the intervals hold at every n at once, from enough values on.
            counts: whether each key has counts: values whose range is far wider than their spread.
        """
        fit, closed = self.fit, self.closed

        def trusted(items: Floats) -> NDArray[np.bool_]:
            return np.where(counts, enough_to_count(fit.mean, items, fit.spread), enough(fit.mean, items))

        single = fit.powered(fit.variance, fit.n, trusted(self.heaviest), confidence=confidence)
        if closed is None:
            return single
        known = fit.variance > 0
        effect = np.where(known, closed.variance / np.where(known, fit.variance, 1.0), np.nan)
        enough_clusters = (closed.equal >= LEAST_CLUSTERS) & (closed.variance > 0)
        of_clusters = replace(fit, estimate=closed.estimate).powered(
            closed.variance,
            closed.count,
            enough_clusters & trusted(self.heaviest / np.fmax(effect, 1.0)),
            confidence=confidence,
        )
        used = closed.used
        return replace(
            single,
            # Values of open clusters are in the mean, and not yet in the interval.
            lower=np.where(used, np.fmin(of_clusters.lower, single.estimate), single.lower),
            upper=np.where(used, np.fmax(of_clusters.upper, single.estimate), single.upper),
            standard_error=np.where(used, of_clusters.standard_error, single.standard_error),
            n_effective=np.where(used, of_clusters.n_effective, single.n_effective),
            design_effect=np.where(used, effect, np.nan),
        )


def weighted_means(
    n: ArrayLike, mean: Floats, m2: Floats, sampled: SampledSums, clusters: ClusterSums | None
) -> WeightedMeans:
    """Return the weighted means of keys.

    Args:
        n: number of all values.
        mean: plain mean of all values in [0, 1].
        m2: sum of the squared deviations from it.
        sampled: sums over the sampled values.
        clusters: sums over the closed clusters; None if each value counts by itself.
    """
    n_s, w, w2, wx, w2x, wxx, w2xx, x, xx = sampled.items
    count = np.asarray(n, dtype=np.float64)
    single = np.maximum(count - n_s, 0.0)
    total = count * mean
    # The sums over values with w = 1 are those over all values without the sampled ones.
    y = np.where(single > 0, np.maximum(total - x, 0.0), 0.0)
    yy = np.where(single > 0, np.maximum(m2 + total * mean - xx, 0.0), 0.0)
    of_w, of_w2 = np.stack([y + wx, yy + wxx]), np.stack([y + w2x, yy + w2xx])
    return WeightedMeans(
        mixed=sampled.mixed(count),
        sampled=n_s > 0,
        traffic=sampled.traffic(count),
        heaviest=(single + w) / np.maximum(sampled.most, 1.0),
        fit=weighted_fit(count, single + w, single + w2, of_w, of_w2),
        closed=None if clusters is None or not clusters.in_use.any() else _over_clusters(clusters, sampled),
    )


def _over_clusters(clusters: ClusterSums, sampled: SampledSums) -> ClosedWeights:
    _, a, b, aa, ab, bb, n_s, y_s, nn_s, ny_s, yy_s = sampled.clusters
    single = np.maximum(clusters.n - n_s, 0.0)
    total = np.where(single > 0, np.maximum(clusters.n * clusters.mean - y_s, 0.0), 0.0)
    weights = np.maximum(single + a, 1.0)
    centre = np.clip((total + b) / weights, 0.0, 1.0)
    # Squares around the mean of the clusters without a sampled value.
    theirs = np.where(single > 0, total / np.where(single > 0, single, 1.0), 0.0)
    deviations = clusters.squares - (yy_s - 2 * clusters.mean * ny_s + clusters.mean**2 * nn_s)
    deviations = np.where(single > 0, np.maximum(deviations, 0.0), 0.0)
    sizes = np.where(single > 0, np.maximum(clusters.sizes - nn_s, 0.0), 0.0)
    rest = np.sqrt(deviations) + np.abs(theirs - centre) * np.sqrt(sizes)
    squares = np.maximum(bb - 2 * centre * ab + centre**2 * aa, 0.0) + rest**2
    weight2 = sizes + aa
    return ClosedWeights(
        used=clusters.in_use,
        count=clusters.count.astype(np.float64),
        estimate=centre,
        variance=squares / weights**2,
        equal=np.where(weight2 > 0, weights**2 / np.where(weight2 > 0, weight2, 1.0), 0.0),
    )
