"""Our intervals beside the formulas of RapidFire AI's online aggregation, written anew from its documentation.

Where those are sound (a mean strictly inside (0, 1), values that are yes or no) ours are the same. Where they are not,
a test says what ours do instead.
"""

from collections.abc import Callable
from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from ragtide import RunningIntervals, interval

Ends = tuple[float, float]


def correction(n: int, population: int | None) -> float:
    return 1.0 if population is None else sqrt((population - n) / (population - 1))


def their_normal(p: float, n: int, confidence: float, population: int | None) -> Ends:
    z = float(norm.ppf(1 - (1 - confidence) / 2))
    half = z * sqrt(p * (1 - p) / n) * correction(n, population)
    return max(0.0, p - half), min(1.0, p + half)


def their_wilson(p: float, n: int, confidence: float, population: int | None) -> Ends:
    z = float(norm.ppf(1 - (1 - confidence) / 2))
    m = n / correction(n, population) ** 2
    center = (p + z * z / (2 * m)) / (1 + z * z / m)
    half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m)) / (1 + z * z / m)
    return max(0.0, center - half), min(1.0, center + half)


def their_hoeffding(p: float, n: int, confidence: float, population: int | None) -> Ends:
    half = sqrt(log(2 / (1 - confidence)) / (2 * n)) * correction(n, population)
    return max(0.0, p - half), min(1.0, p + half)


THEIRS: dict[str, Callable[[float, int, float, int | None], Ends]] = {
    "normal": their_normal,
    "wilson": their_wilson,
    "hoeffding": their_hoeffding,
}


@pytest.mark.parametrize("population", [None, 400])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("strategy", list(THEIRS))
def test_intervals_are_rapidfires_where_those_are_sound(
    strategy: str, confidence: float, population: int | None
) -> None:
    for n in (1, 2, 50, 399):
        for p in (0.01, 0.3, 0.5, 0.9, 0.999):
            lower, upper = THEIRS[strategy](p, n, confidence, population)
            ours = interval(strategy, mean=p, n=n, confidence=confidence, population=population)
            assert (ours.lower, ours.upper) == pytest.approx((lower, upper), abs=1e-12)


@pytest.mark.parametrize("strategy", ["normal", "hoeffding"])
def test_totals_are_rapidfires_too(strategy: str) -> None:
    lower, upper = THEIRS[strategy](0.3, 50, 0.95, 400)
    ours = interval(strategy, total=15.0, n=50, population=400)
    assert (ours.estimate, ours.lower, ours.upper) == pytest.approx((120, 400 * lower, 400 * upper))


@pytest.mark.parametrize("strategy", list(THEIRS))
def test_running_intervals_of_yes_or_no_scores_are_rapidfires(strategy: str) -> None:
    values = (np.random.default_rng(1).random(50) < 0.7) * 1.0
    seen = RunningIntervals(strategy, keys=1, population=400)
    seen.update(np.zeros(50, dtype=int), values)
    ends = seen.intervals()
    lower, upper = THEIRS[strategy](float(values.mean()), 50, 0.95, 400)
    if strategy == "normal":  # ours divides by n - 1, as a sample's variance does
        half = (upper - lower) / 2 * sqrt(50 / 49)
        lower, upper = values.mean() - half, values.mean() + half
    assert (ends.lower[0], ends.upper[0]) == pytest.approx((lower, upper), abs=1e-12)


@pytest.mark.parametrize("strategy", list(THEIRS))
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_mean_of_0_or_1_has_width_until_all_is_seen(strategy: str, value: float) -> None:
    # Theirs has none, from the first item on: a config with one good answer could never be wrong.
    for n, least in ((1, 0.5), (20, 0.1), (399, 0.0)):
        ours = interval(strategy, mean=value, n=n, population=400)
        assert ours.upper - ours.lower > least
        seen = RunningIntervals(strategy, keys=1, population=400)
        seen.update(np.zeros(n, dtype=int), np.full(n, value))
        assert seen.intervals().upper[0] - seen.intervals().lower[0] > least
    done = interval(strategy, mean=value, n=400, population=400)
    assert (done.lower, done.upper) == (value, value)


def test_the_variance_of_another_range_is_that_of_the_values() -> None:
    # Theirs is that of the uniform distribution, (b - a) ** 2 / 12, whatever the values are.
    rng = np.random.default_rng(2)
    for values in (rng.normal(3.0, 0.1, 200), rng.choice([1.0, 5.0], 200)):
        seen = RunningIntervals("normal", keys=1, value_range=(1.0, 5.0))
        seen.update(np.zeros(200, dtype=int), np.clip(values, 1, 5))
        ends = seen.intervals()
        right = 2 * 1.959964 * float(np.clip(values, 1, 5).std(ddof=1)) / sqrt(200)
        assert ends.upper[0] - ends.lower[0] == pytest.approx(right, rel=1e-6)
        theirs = 2 * 1.959964 * sqrt(16 / 12 / 200)
        assert not 0.6 < theirs / right < 1.6  # 11 times too wide, and 1.7 times too narrow


def test_scores_that_are_not_yes_or_no_are_not_taken_for_it() -> None:
    # With p (1 - p) for the variance an interval of Beta scores of concentration 10 is 3.3 times too wide.
    values = np.random.default_rng(3).beta(6, 4, 400)
    seen = RunningIntervals("normal", keys=1)
    seen.update(np.zeros(400, dtype=int), values)
    ends = seen.intervals()
    width = float(ends.upper[0] - ends.lower[0])
    lower, upper = their_normal(float(values.mean()), 400, 0.95, None)
    assert (upper - lower) / width == pytest.approx(3.3, abs=0.15)
    known = interval("normal", mean=float(values.mean()), n=400, variance=float(values.var(ddof=1)))
    assert known.upper - known.lower == pytest.approx(width)


@pytest.mark.simulation
def test_the_narrower_intervals_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(500):
        population = rng.beta(6, 4, 400)
        seen = RunningIntervals("normal", keys=1, population=400)
        seen.update(np.zeros(100, dtype=int), rng.permutation(population)[:100])
        ends = seen.intervals()
        covered += bool(ends.lower[0] <= population.mean() <= ends.upper[0])
    assert 0.92 <= covered / 500 <= 0.98
