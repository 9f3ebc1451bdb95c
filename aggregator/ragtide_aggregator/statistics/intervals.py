"""Intervals for one look at an n that was fixed beforehand. For looking again and again use `running`.

Every function here works on the mean of values in [0, 1]; `interval` scales other ranges and projects totals.
Formulas: docs/statistics.md, "Fixed n".
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log, sqrt
from typing import Final

from scipy.special import ndtri

_ROUNDING: Final = 1e-9
"""How far, in widths of the range, a mean may lie outside by rounding: three times 0.1 is 0.30000000000000004."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval, in the metric's own unit."""

    estimate: float
    lower: float
    upper: float


def finite_population_correction(n: int, population: int | None) -> float:
    """Return sqrt((N - n) / (N - 1)): 1 without a population, 0 when all of it was seen.

    Source: Cochran (1977), Sampling Techniques, section 2.6.
    """
    if population is None:
        return 1.0
    return 0.0 if n >= population else sqrt((population - n) / (population - 1))


def normal_half_width(variance: float, n: int, *, confidence: float, population: int | None = None) -> float:
    """Return z sqrt(variance / n) FPC.

    Args:
        variance: sample variance, or p(1 - p) for a proportion.
        n: number of values.
        confidence: level in (0, 1).
        population: size of the finite population, if there is one.

    Assumes: values independent, or drawn without replacement; n large enough for the central limit theorem.
    """
    return _z(confidence) * sqrt(variance / n) * finite_population_correction(n, population)


def wilson(mean: float, n: int, *, confidence: float, population: int | None = None) -> tuple[float, float]:
    """Return the ends of Wilson's score interval for a proportion, within [0, 1].

    For other values in [0, 1] it is conservative: p(1 - p) is the most their variance can be. The finite population
    enters as the effective number of values n / FPC^2.

    Assumes: values independent, or drawn without replacement.
    Source: Wilson (1927), JASA 22: 209-212.
    """
    correction = finite_population_correction(n, population)
    if correction == 0.0:
        return mean, mean
    z, effective = _z(confidence), n / correction**2
    shrink = 1 + z**2 / effective
    center = (mean + z**2 / (2 * effective)) / shrink
    margin = z * sqrt(mean * (1 - mean) / effective + z**2 / (4 * effective**2)) / shrink
    return max(center - margin, 0.0), min(center + margin, 1.0)


def hoeffding_half_width(n: int, *, confidence: float, population: int | None = None) -> float:
    """Return sqrt(ln(2 / alpha) / 2n) FPC.

    Assumes: values independent (or drawn without replacement), each in [0, 1]; nothing about their distribution.
    The finite-population factor is the usual correction, not part of Hoeffding's theorem.
    Source: Hoeffding (1963), JASA 58: 13-30, Theorem 2.
    """
    return sqrt(log(2 / (1 - confidence)) / (2 * n)) * finite_population_correction(n, population)


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
) -> Interval:
    """Return an interval by one of the strategies `normal`, `wilson` and `hoeffding`, valid at this one n.

    Unknown is not zero: with a variance of 0 before the whole population was seen, `normal` returns Wilson's interval
    instead of one without width; with a sample variance of a single value, it returns the whole range.

    Args:
        strategy: how.
        mean: mean of the n values; the result is about the mean of all.
        total: sum of the n values instead; the result is then about the sum over the whole population, projected as
            N times the mean, and `wilson` falls back to `normal`, since a sum is no proportion.
        n: number of values, at least 1.
        confidence: level in (0, 1).
        population: number of all values, if it is finite; at n = N the interval closes.
        value_range: lowest and highest possible value.
        variance: sample variance (n - 1) of the values in their own unit; None takes the most that values with this
            mean and range can have, which is exact for two-valued metrics and too wide for others.

    Raises: ValueError for an argument out of its range; the message names it and the remedy.

    >>> seen = interval("wilson", mean=0.9, n=50, population=400)
    >>> round(seen.lower, 3), round(seen.upper, 3)
    (0.795, 0.954)
    """
    lowest, highest = value_range
    _check(
        strategy,
        n=n,
        confidence=confidence,
        population=population,
        lowest=lowest,
        highest=highest,
        variance=variance,
    )
    if (mean is None) == (total is None):
        raise ValueError("give either mean or total: the mean of the n values, or their sum")
    if total is not None:
        if population is None:
            raise ValueError("population is missing: a total is projected onto all N values, so say how many there are")
        mean = total / n
        strategy = "normal" if strategy == "wilson" else strategy
    assert mean is not None  # noqa: S101 - for the type checker: one of the two is given
    width = highest - lowest
    scaled_mean = (mean - lowest) / width
    if not -_ROUNDING <= scaled_mean <= 1 + _ROUNDING:
        given = f"mean is {mean}" if total is None else f"total is {total}, a mean of {mean} over {n} values"
        raise ValueError(f"{given}, outside value_range {lowest} to {highest}: correct one of them")
    scaled_mean = min(max(scaled_mean, 0.0), 1.0)
    mean = min(max(mean, lowest), highest)
    scaled_variance = None if variance is None else variance / width**2
    lower, upper = _STRATEGIES[strategy](scaled_mean, n, confidence, population, scaled_variance)
    factor = 1 if total is None else population or 1
    # Rounding must not put the estimate outside of its own interval.
    return Interval(
        estimate=factor * mean,
        lower=factor * min(lowest + width * max(lower, 0.0), mean),
        upper=factor * max(lowest + width * min(upper, 1.0), mean),
    )


def _normal(
    mean: float, n: int, confidence: float, population: int | None, variance: float | None
) -> tuple[float, float]:
    exhausted = population is not None and n >= population
    if variance is not None and n == 1 and not exhausted:
        return 0.0, 1.0
    spread = mean * (1 - mean) if variance is None else variance
    if spread == 0 and not exhausted:
        return wilson(mean, n, confidence=confidence, population=population)
    half_width = normal_half_width(spread, n, confidence=confidence, population=population)
    return mean - half_width, mean + half_width


def _wilson(
    mean: float, n: int, confidence: float, population: int | None, variance: float | None
) -> tuple[float, float]:
    del variance  # a proportion's follows from its mean
    return wilson(mean, n, confidence=confidence, population=population)


def _hoeffding(
    mean: float, n: int, confidence: float, population: int | None, variance: float | None
) -> tuple[float, float]:
    del variance  # only the range counts
    half_width = hoeffding_half_width(n, confidence=confidence, population=population)
    return mean - half_width, mean + half_width


_STRATEGIES: Final[dict[str, Callable[[float, int, float, int | None, float | None], tuple[float, float]]]] = {
    "normal": _normal,
    "wilson": _wilson,
    "hoeffding": _hoeffding,
}


def _z(confidence: float) -> float:
    return -float(ndtri((1 - confidence) / 2))


def _check(
    strategy: str,
    *,
    n: int,
    confidence: float,
    population: int | None,
    lowest: float,
    highest: float,
    variance: float | None,
) -> None:
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy {strategy!r} is unknown: use one of {', '.join(_STRATEGIES)}")
    if not (isfinite(lowest) and isfinite(highest) and lowest < highest):
        raise ValueError(f"value_range is {lowest} to {highest}: give a finite lowest and a higher highest value")
    if not (n >= 1 and float(n).is_integer()):
        raise ValueError(
            f"n is {n}: an interval needs a whole number of values, at least one; with none, everything is possible"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: give a level between 0 and 1, such as 0.95")
    if population is not None and not (population >= n and float(population).is_integer()):
        raise ValueError(
            f"population is {population} and n is {n}: give the whole number of all values, of which n were seen"
        )
    if variance is not None and not 0 <= variance < float("inf"):
        raise ValueError(f"variance is {variance}: give a finite sample variance of 0 or more, or None")
