"""The difference of the means of two weighted samples, at fixed sizes: of shares, or of other values in [0, 1].

The mean of values x with weights w in independent units (sessions) is m = sum w x / sum w. Its variance is that of the
sums of w (x - m) over the units, linearized. It gives the size n of a simple sample of verdicts whose mean would be as
certain, m (1 - m) / variance, corrected for the few units that the variance is of. The limits of the mean are the exact
ones (Clopper and Pearson) of n m among n, which stay apart from 0 and 1 where a rare value did not come.

The difference of two means has the limits d - sqrt((a - lower a)^2 + (upper b - b)^2) and the like (MOVER): the sides
of a right angle, because both means are hardly ever at their limits at once.

Assumes: units independent of each other and between the samples. Answers that are in both samples make the interval too
wide.
Sources: Korn and Graubard (1998), Survey Methodology 24: 193-201; Clopper and Pearson (1934), Biometrika 26: 404-413;
Zou and Donner (2008), Statistics in Medicine 27: 1693-1702.
"""

from dataclasses import dataclass

import numpy as np

from ..intervals.intervals import Interval
from ..tables import scipy_functions
from ..tables.batches import Floats, Rows


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """Values that were drawn with known probabilities, one element each."""

    values: Floats
    """In [0, 1]."""
    weights: Floats
    """Inverse probabilities, on any scale; positive."""
    units: Rows
    """Number of the independent unit of each value, from 0."""


def sample_difference(a: WeightedSample, b: WeightedSample, *, confidence: float) -> Interval[float, float]:
    """Return the mean of a minus that of b, in [-1, 1], with an interval for these sizes.

    >>> drawn = WeightedSample(np.repeat([1.0, 0.0], 50), np.ones(100), np.arange(100))
    >>> traffic = WeightedSample(np.repeat([1.0, 0.0], [100, 900]), np.ones(1000), np.arange(1000))
    >>> apart = sample_difference(drawn, traffic, confidence=0.95)
    >>> round(apart.estimate, 2), round(apart.lower, 2), round(apart.upper, 2)
    (0.4, 0.29, 0.51)

    Raises: ValueError if one of them has no values.
    """
    (first, low, high), (second, least, most) = (_limits(sample, confidence) for sample in (a, b))
    gap = first - second
    return Interval(
        gap,
        gap - float(np.hypot(first - low, most - second)),
        gap + float(np.hypot(high - first, second - least)),
    )


def weighted_mean(sample: WeightedSample) -> float:
    """Return the weighted mean.

    Raises: ValueError if there are no values.
    """
    if not sample.values.size:
        raise ValueError("one of the two has no values: a difference needs both")
    return float(np.clip(sample.weights @ sample.values / sample.weights.sum(), 0.0, 1.0))


def _limits(sample: WeightedSample, confidence: float) -> tuple[float, float, float]:
    mean, alpha = weighted_mean(sample), 1 - confidence
    size = _size(sample, mean, alpha)
    inside = mean * size
    lower = 0.0 if inside <= 0 else float(scipy_functions.betaincinv(inside, size - inside + 1, alpha / 2))
    upper = 1.0 if inside >= size else float(scipy_functions.betaincinv(inside + 1, size - inside, 1 - alpha / 2))
    return mean, min(lower, mean), max(upper, mean)


def _size(sample: WeightedSample, mean: float, alpha: float) -> float:
    """Return the number of verdicts of a simple sample whose mean would be as certain."""
    total = sample.weights.sum()
    of_units = np.bincount(sample.units, sample.weights)
    units = int(np.count_nonzero(of_units))
    equal = float(total**2 / (of_units**2).sum())
    residuals = sample.values - mean
    spread = float(sample.weights @ residuals**2 / total)
    squares = float((np.bincount(sample.units, sample.weights * residuals) ** 2).sum())
    if units < 2 or not spread * squares:  # nothing differs, which shows no spread
        return equal
    variance = squares / total**2 * units / (units - 1)
    few = scipy_functions.stdtrit(units - 1, alpha / 2) / scipy_functions.ndtri(alpha / 2)
    # Luck may make the variance small, but such a sample is hardly better than a simple one.
    least = spread * float((sample.weights**2).sum()) / total**2
    return float(max(mean * (1 - mean) / max(variance * float(few) ** 2, least), 1.0))
