"""The `asymptotic` confidence sequence, for weighted and prediction-powered estimates with enough values.

Source: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (2024), "Time-uniform central limit theory and asymptotic
confidence sequences", Annals of Statistics 52(6): Theorem 2.2, tuned by its section 2.
"""

from math import ceil, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..tables.batches import Floats

N_OPT: Final = 1000
"""Number of values at which the sequence is tightest."""

LEAST_OF_A_KIND: Final = 30
"""The limit is trusted from this sum of the values on, and from this sum of 1 minus each value. With 10 the 95%
interval of a Bernoulli 0.9 missed in 5.7% of 1,000 runs of 10,000 (benchmarks/measured/intervals.md has 30)."""

_TINY: Final = 1e-300

NO_SPREAD: Final = 1e-12
"""With a smaller variance, values in [0, 1] differ only by rounding."""


def asymptotic_half_width(variance: ArrayLike, n: ArrayLike, *, confidence: float, n_opt: float = N_OPT) -> Floats:
    """Return the half-width of a sequence that holds at all large n at once, before any clamping.

    Args:
        variance: variances of one value's influence on the estimate.
        n: numbers of values, at least 1.
        confidence: level in (0, 1).
        n_opt: number of values at which the sequence is tightest.

    Assumes: n large enough. For a rate of 1% the first hundreds of values miss far more often than the level says.
    """
    ns = np.asarray(n, dtype=np.float64)
    alpha = 1 - confidence
    rho2 = (-2 * log(alpha) + log(1 - 2 * log(alpha))) / n_opt
    scale = 2 * (ns * rho2 + 1) / (ns**2 * rho2) * np.log(np.sqrt(ns * rho2 + 1) / alpha)
    return np.asarray(np.sqrt(np.asarray(variance) * scale))


def enough(mean: ArrayLike, n: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether the limit can be trusted: values with this mean include enough high and enough low values."""
    total = np.asarray(mean) * np.asarray(n)
    return np.asarray(np.minimum(total, np.asarray(n) - total) >= LEAST_OF_A_KIND)


def values_needed(mean: float, n: int, n_effective: float) -> int:
    """Return about how many values are `enough`, if their mean and their worth stay as they are.

    The mean is taken from n values, one of 0 and one of 1, because some equal values do not say that no other comes.

    Args:
        mean: weighted mean of values in [0, 1].
        n: number of the values, at least 1.
        n_effective: number of independent, equally weighted values that would be as precise.

    >>> values_needed(0.5, 40, 40), values_needed(0.5, 40, 20), values_needed(1.0, 8, 8)
    (60, 120, 300)
    """
    rate = (mean * n + 1) / (n + 2)
    worth = min(max(n_effective / n, 1 / n), 1.0)
    return ceil(LEAST_OF_A_KIND / min(rate, 1 - rate) / worth - 1e-9)


def enough_to_count(
    mean: ArrayLike, n: ArrayLike, variance: ArrayLike
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether the limit can be trusted for values in [0, 1], however small their mean is.

    n mean² / (mean² + variance) is (sum of x)² / sum of x²: n for equal values, the number of ones for zeros and ones,
    and about 1 if a single value makes up the sum. It has no unit, so counts and counts scaled to [0, 1] give the same
    number. The same is computed for 1 minus each value.
    """
    means, ns, spread = (np.asarray(value, dtype=np.float64) for value in (mean, n, variance))
    return np.asarray(_effective(means, ns, np.nan_to_num(spread)) & (np.nan_to_num(spread) > NO_SPREAD))


def _effective(means: Floats, ns: Floats, spread: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    squares = [part * part for part in (means, 1 - means)]
    effective = [ns * square / np.maximum(square + spread, _TINY) for square in squares]
    return np.asarray(np.minimum(*effective) >= LEAST_OF_A_KIND)


def count_variance(mean: ArrayLike, n: ArrayLike, m2: ArrayLike) -> Floats:
    """Return the variance of counts with one more count in it, of 0 or of twice the mean.

    So counts that were all equal do not claim that the next one is: after n of them the half-width is about 1 / n of
    the count for each standard error.

    Args:
        mean: means of counts scaled to [0, 1].
        n: numbers of counts.
        m2: sums of the squared deviations from the mean.
    """
    means = np.asarray(mean, dtype=np.float64)
    return np.asarray((np.asarray(m2) + means * means) / np.maximum(np.asarray(n, dtype=np.float64) - 1, 1.0))


def count_interval(
    mean: ArrayLike, n: ArrayLike, m2: ArrayLike, *, confidence: float
) -> tuple[Floats, Floats, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Return the ends for means of counts scaled to [0, 1], and whether there are enough counts for them.

    The ends follow from the spread of the counts alone, and not from their range (`count_variance`). There are enough
    from (sum of x)² / sum of x² of `LEAST_OF_A_KIND` on, and never while all counts are 0.

    Assumes: fewer than about 1 / n of the counts are far above twice the mean.
    """
    means, ns = np.asarray(mean, dtype=np.float64), np.asarray(n, dtype=np.float64)
    variance = count_variance(means, ns, m2)
    half_width = asymptotic_half_width(variance, np.maximum(ns, 1.0), confidence=confidence)
    trusted = _effective(means, ns, variance) & (means > 0)
    return np.clip(means - half_width, 0.0, 1.0), np.clip(means + half_width, 0.0, 1.0), trusted


def asymptotic_interval(
    mean: ArrayLike, n: ArrayLike, variance: ArrayLike, *, confidence: float
) -> tuple[Floats, Floats]:
    """Return the ends for means of values in [0, 1]; the whole range while there are not enough values.

    Without any spread it is the whole range as well, because equal values say little about the next value.
    """
    means, variances = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    trusted = enough(means, n) & (variances > NO_SPREAD)
    known = np.where(trusted, variances, sqrt(0.25))
    half_width = asymptotic_half_width(known, np.maximum(n, 1), confidence=confidence)
    lower, upper = np.clip(means - half_width, 0.0, 1.0), np.clip(means + half_width, 0.0, 1.0)
    return np.where(trusted, lower, 0.0), np.where(trusted, upper, 1.0)
