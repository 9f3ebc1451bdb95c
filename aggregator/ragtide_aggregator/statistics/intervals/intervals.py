"""Intervals that are valid once, at an n that was fixed in advance. For intervals at every look use `running`.

The functions take means of values in [0, 1], one or many at once; `interval` scales other ranges and projects totals.
Formulas: docs/understand/statistics.md, "Which interval".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..tables import scipy_functions
from ..tables.batches import Floats
from ..tables.tables import check_confidence, check_range

_ROUNDING: Final = 1e-9
"""A mean may be outside of its range by this share of the width, because of rounding (0.1 * 3 > 0.3)."""


Number_co = TypeVar("Number_co", covariant=True)
End_co = TypeVar("End_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Interval(Generic[Number_co, End_co]):
    """An estimate with the ends of its interval, in the metric's own unit.

    Each is a number, None where it is unknown, or an array with one element a row, in which nan is unknown.
    """

    estimate: Number_co
    lower: End_co
    upper: End_co

    @property
    def verdict(self: "Interval[float, float]") -> Literal["higher", "lower", "undecided"]:
        """Whether the interval of a difference is above 0, below 0, or neither."""
        if self.lower > 0:
            return "higher"
        return "lower" if self.upper < 0 else "undecided"


def finite_population_correction(n: ArrayLike, population: ArrayLike | None) -> Floats:
    """Return sqrt((N - n) / (N - 1)): 1 without a population (None or nan), 0 once all values are seen.

    Source: Cochran (1977), Sampling Techniques, section 2.6.
    """
    ns = np.asarray(n, dtype=np.float64)
    if population is None:
        return np.ones_like(ns)
    size = np.asarray(population, dtype=np.float64)
    left = np.maximum(size - ns, 0.0) / np.maximum(size - 1, 1.0)
    return np.where(np.isnan(size), 1.0, np.sqrt(left))


def normal_half_width(
    variance: ArrayLike, n: ArrayLike, *, confidence: float, population: ArrayLike | None = None
) -> Floats:
    """Return z sqrt(variance / n) FPC.

    Args:
        variance: sample variances, or p(1 - p) for a proportion.
        n: numbers of values.
        confidence: level in (0, 1).
        population: sizes of the finite populations; None or nan for none.

    Assumes: values independent, or drawn without replacement; n large enough for the central limit theorem.
    """
    spread = np.sqrt(np.asarray(variance, dtype=np.float64) / np.asarray(n))
    return np.asarray(_z(confidence) * spread * finite_population_correction(n, population))


def wilson(
    mean: ArrayLike, n: ArrayLike, *, confidence: float, population: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's score interval for proportions, within [0, 1].

    For other values in [0, 1] it is conservative, because p(1 - p) is their largest possible variance. A finite
    population changes the number of values to n / FPC^2.

    Assumes: values independent, or drawn without replacement.
    Source: Wilson (1927), JASA 22: 209-212.
    """
    means, z = np.asarray(mean, dtype=np.float64), _z(confidence)
    correction = finite_population_correction(n, population)
    all_seen = correction == 0.0
    effective = np.asarray(n) / np.where(all_seen, 1.0, correction) ** 2
    shrink = 1 + z**2 / effective
    center = (means + z**2 / (2 * effective)) / shrink
    margin = z * np.sqrt(means * (1 - means) / effective + z**2 / (4 * effective**2)) / shrink
    lower, upper = np.maximum(center - margin, 0.0), np.minimum(center + margin, 1.0)
    return np.where(all_seen, means, lower), np.where(all_seen, means, upper)


def hoeffding_half_width(n: ArrayLike, *, confidence: float, population: ArrayLike | None = None) -> Floats:
    """Return sqrt(ln(2 / alpha) / 2n) FPC.

    Assumes: values independent (or drawn without replacement), each in [0, 1], of any distribution.
    The finite-population factor is the usual correction and not part of Hoeffding's theorem.
    Source: Hoeffding (1963), JASA 58: 13-30, Theorem 2.
    """
    ns = np.asarray(n, dtype=np.float64)
    return np.asarray(np.sqrt(np.log(2 / (1 - confidence)) / (2 * ns)) * finite_population_correction(ns, population))


def fixed_interval(
    strategy: str,
    mean: ArrayLike,
    n: ArrayLike,
    *,
    confidence: float,
    population: ArrayLike | None = None,
    variance: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Return the ends for the means of values in [0, 1] by `normal`, `wilson` or `hoeffding`, within [0, 1].

    Arguments as in `interval`, but arrays with one element per key, and without checks.
    """
    means, ns = np.asarray(mean, dtype=np.float64), np.asarray(n, dtype=np.float64)
    lower, upper = _STRATEGIES[strategy](means, ns, confidence, population, variance)
    # Rounding must not put the estimate outside of its own interval.
    return np.minimum(np.maximum(lower, 0.0), means), np.maximum(np.minimum(upper, 1.0), means)


def interval(
    strategy: str,
    *,
    mean: float | None = None,
    total: float | None = None,
    n: int,
    confidence: float = 0.95,
    population: int | None = None,
    value_range: tuple[float, float] = (0.0, 1.0),
    variance: float | None = None,
) -> Interval[float, float]:
    """Return an interval by one of the strategies `normal`, `wilson` and `hoeffding`, valid at this one n.

    Unknown is not zero: with a variance of 0 before the whole population is seen, `normal` returns Wilson's interval
    instead of an interval without width. With a single value and its sample variance, it returns the whole range.

    Args:
        strategy: name of the strategy.
        mean: mean of the n values; the result is about the mean of all values.
        total: sum of the n values, instead of the mean. The result is then about the sum over the whole population,
            N times the mean, and `wilson` becomes `normal`, because a sum is not a proportion.
        n: number of values, at least 1.
        confidence: level in (0, 1).
        population: number of all values, if it is finite; at n = N the interval has no width.
        value_range: lowest and highest possible value.
        variance: sample variance (n - 1) of the values in their own unit. None takes the largest variance with this
            mean and range, which is exact for two-valued metrics and too wide for others.

    Raises: ValueError for an argument out of its range; the message names it and the remedy.

    >>> seen = interval("wilson", mean=0.9, n=50, population=400)
    >>> round(seen.lower, 3), round(seen.upper, 3)
    (0.795, 0.954)
    """
    check_range(value_range)
    check_confidence(confidence)
    _check(strategy, n=n, population=population, variance=variance)
    lowest, highest = value_range
    if (mean is None) == (total is None):
        raise ValueError("give either mean or total: the mean of the n values, or their sum")
    if total is not None:
        if population is None:
            raise ValueError("population is missing: a total is projected onto all N values, so give their number")
        mean = total / n
        strategy = "normal" if strategy == "wilson" else strategy
    assert mean is not None  # noqa: S101 - for the type checker: one of the two is given
    width = highest - lowest
    scaled_mean = (mean - lowest) / width
    if not -_ROUNDING <= scaled_mean <= 1 + _ROUNDING:
        wrong = f"mean is {mean}" if total is None else f"total is {total}, a mean of {mean} over {n} values"
        raise ValueError(f"{wrong}, outside value_range {lowest} to {highest}: correct one of them")
    scaled_mean = min(max(scaled_mean, 0.0), 1.0)
    mean = min(max(mean, lowest), highest)
    scaled_variance = None if variance is None else variance / width**2
    lower, upper = fixed_interval(
        strategy, scaled_mean, n, confidence=confidence, population=population, variance=scaled_variance
    )
    factor = 1 if total is None else population or 1
    return Interval(
        estimate=factor * mean,
        lower=factor * min(lowest + width * float(lower), mean),
        upper=factor * max(lowest + width * float(upper), mean),
    )


def ratio(above: Interval[float, float], below: Interval[float, float]) -> Interval[float | None, float | None]:
    """Return the ratio of two means of 0 or more, with the interval that holds whenever both of theirs do.

    It is None where the mean below the line is 0, and has no upper end if the interval below the line reaches 0.

    If each interval holds with probability c, the ratio is inside its interval with probability 2 c - 1 at least
    (Bonferroni). That needs no assumption about the dependence of the two, and holds at every look if theirs do.

    >>> ratio(Interval(0.75, 0.5, 1.0), Interval(0.25, 0.125, 0.5))
    Interval(estimate=3.0, lower=1.0, upper=8.0)

    Raises: ValueError if an end below 0 makes a ratio of ends no bound.
    """
    if above.lower < 0 or below.lower < 0:
        raise ValueError(f"an interval begins at {min(above.lower, below.lower):g}: a ratio needs means of 0 or more")
    return Interval(
        above.estimate / below.estimate if below.estimate > 0 else None,
        above.lower / below.upper if below.upper > 0 else 0.0,
        above.upper / below.lower if below.lower > 0 else None,
    )


def _normal(
    mean: Floats, n: Floats, confidence: float, population: ArrayLike | None, variance: ArrayLike | None
) -> tuple[Floats, Floats]:
    unseen = finite_population_correction(n, population) > 0
    # A single value has no sample variance; if it is the whole population, no variance is needed.
    spread = mean * (1 - mean) if variance is None else np.nan_to_num(np.asarray(variance, dtype=np.float64))
    unknown = np.zeros(np.shape(mean), dtype=bool) if variance is None else (n <= 1) & unseen
    half_width = normal_half_width(spread, n, confidence=confidence, population=population)
    lower, upper = wilson(mean, n, confidence=confidence, population=population)
    flat = (spread == 0) & unseen
    lower, upper = np.where(flat, lower, mean - half_width), np.where(flat, upper, mean + half_width)
    return np.where(unknown, 0.0, lower), np.where(unknown, 1.0, upper)


def _wilson(
    mean: Floats, n: Floats, confidence: float, population: ArrayLike | None, variance: ArrayLike | None
) -> tuple[Floats, Floats]:
    del variance  # the variance of a proportion follows from its mean
    return wilson(mean, n, confidence=confidence, population=population)


def _hoeffding(
    mean: Floats, n: Floats, confidence: float, population: ArrayLike | None, variance: ArrayLike | None
) -> tuple[Floats, Floats]:
    del variance  # the interval depends on the range only
    half_width = hoeffding_half_width(n, confidence=confidence, population=population)
    return mean - half_width, mean + half_width


_STRATEGIES: Final[
    dict[str, Callable[[Floats, Floats, float, ArrayLike | None, ArrayLike | None], tuple[Floats, Floats]]]
] = {
    "normal": _normal,
    "wilson": _wilson,
    "hoeffding": _hoeffding,
}

FIXED: Final = tuple(_STRATEGIES)
"""Names of the strategies that are valid once, at an n that was fixed in advance."""


def _z(confidence: float) -> float:
    return -float(scipy_functions.ndtri((1 - confidence) / 2))


def _check(strategy: str, *, n: int, population: int | None, variance: float | None) -> None:
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown: use one of {', '.join(_STRATEGIES)}")
    if not (n >= 1 and float(n).is_integer()):
        raise ValueError(f"n is {n}: an interval needs a whole number of values, at least one")
    if population is not None and not (population >= n and float(population).is_integer()):
        raise ValueError(f"population is {population} and n is {n}: give the whole number of all values, n or more")
    if variance is not None and not 0 <= variance < float("inf"):
        raise ValueError(f"variance is {variance}: give a finite sample variance of 0 or more, or None")
