"""Drawn rows: the weighted mean is unbiased, and its interval covers the mean of the traffic, simulated."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.cases import for_each

from ragtide_aggregator.statistics.intervals.intervals import wilson
from ragtide_aggregator.statistics.means.stratified import (
    DrawnFrom,
    RowWeights,
    draw_of,
    stratified_difference,
    stratified_mean,
)

pytestmark = pytest.mark.pure

RUNS = 2_000
Floats = NDArray[np.float64]


def scores(kind: str, means: Sequence[float], rows: Sequence[int], random: np.random.Generator, runs: int) -> Floats:
    p = np.repeat(np.array(means), rows)
    shape = runs, p.size
    if kind == "binary":
        return np.asarray(random.random(shape) < p, dtype=np.float64)
    return np.where(random.random(shape) < p, random.uniform(0.8, 1, shape), random.uniform(0, 0.2, shape))


def expected(kind: str, means: Sequence[float]) -> Floats:
    p = np.array(means)
    return p if kind == "binary" else 0.9 * p + 0.1 * (1 - p)


DRAWS = {
    "ten strata": ([0.99] * 9 + [0.5], [138] * 10, [20] * 10),
    "skewed sizes": ([0.98, 0.9, 0.6, 0.3], [1000, 250, 100, 30], [60, 50, 50, 20]),
    "two rows each": ([0.5 + 0.012 * place for place in range(40)], [100] * 40, [2] * 40),
    "a few rows of the largest": ([0.97, 0.5], [5000, 200], [15, 60]),
    "one row of many": ([0.9] * 30, [40] * 30, [1] * 30),
    "one stratum": ([0.87], [1380], [200]),
}


@for_each("kind", ("binary", "bounded"))
@for_each("name", DRAWS)
def test_the_mean_is_unbiased_and_its_interval_covers(kind: str, name: str) -> None:
    means, sizes, rows = DRAWS[name]
    random = np.random.default_rng(60)
    draw = RowWeights.of(sizes, rows)
    truth = float(np.average(expected(kind, means), weights=sizes))
    mean = stratified_mean(scores(kind, means, rows, random, RUNS), draw, confidence=0.95)
    error = float(mean.estimate.std()) / RUNS**0.5
    assert abs(float(mean.estimate.mean()) - truth) < 4 * error
    assert np.mean((mean.lower <= truth) & (truth <= mean.upper)) > 0.935  # 0.95, less three errors of the simulation


def test_rows_weighted_alike_would_be_biased() -> None:
    means, sizes, rows = DRAWS["skewed sizes"]
    values = scores("binary", means, rows, np.random.default_rng(60), 200)
    truth = float(np.average(means, weights=sizes))
    assert abs(values.mean() - truth) > 0.1


def test_strata_make_the_interval_narrower_than_a_uniform_draw_does() -> None:
    means, sizes, rows = [0.99, 0.5], [1200, 180], [115, 85]
    random = np.random.default_rng(60)
    drawn = stratified_mean(scores("binary", means, rows, random, 500), RowWeights.of(sizes, rows), confidence=0.95)
    uniform = stratified_mean(
        random.random((500, 200)) < np.average(means, weights=sizes), RowWeights.of([1380], [200]), confidence=0.95
    )
    assert np.mean(drawn.upper - drawn.lower) < 0.8 * np.mean(uniform.upper - uniform.lower)


def test_one_stratum_of_zeros_and_ones_has_about_the_interval_of_wilson() -> None:
    values = np.array([1.0] * 170 + [0.0] * 30)
    mean = stratified_mean(values, RowWeights.of([1e6], [200]), confidence=0.95)
    lower, upper = wilson(0.85, 200, confidence=0.95)
    assert float(mean.lower) == pytest.approx(float(lower), abs=0.005)
    assert float(mean.upper) == pytest.approx(float(upper), abs=0.005)


@for_each("n", (15, 50, 200))
def test_the_coverage_of_one_stratum_is_exactly_that_of_a_good_interval_of_a_share(n: int) -> None:
    """Over all shares from .5 to .999 it is 95% on average, and nowhere as low as that of Wilson's interval, 84%."""
    ones = np.arange(n + 1)
    mean = stratified_mean(np.arange(n) < ones[:, None], RowWeights.of([1e9], [n]), confidence=0.95)
    shares = np.linspace(0.5, 0.999, 500)[:, None]
    logarithms = np.cumsum(np.log(np.maximum(ones, 1)))
    chances = np.exp(
        logarithms[n] - logarithms - logarithms[::-1] + ones * np.log(shares) + (n - ones) * np.log(1 - shares)
    )
    covered = (chances * ((mean.lower <= shares) & (shares <= mean.upper))).sum(axis=1)
    assert covered.mean() > 0.95
    assert covered.min() > 0.915


@for_each("sizes", ([40], [40, 40], [400, 40]))
def test_rows_that_are_all_alike_have_an_interval_with_a_width(sizes: list[int]) -> None:
    mean = stratified_mean(np.ones(10 * len(sizes)), RowWeights.of(sizes, [10] * len(sizes)), confidence=0.95)
    assert float(mean.lower) < 0.95
    assert float(mean.upper) == 1.0
    gap = stratified_difference(
        np.ones(10 * len(sizes)), np.ones(10 * len(sizes)), RowWeights.of(sizes, [10] * len(sizes)), confidence=0.95
    )
    assert float(gap.lower) < -0.05
    assert float(gap.upper) > 0.05


def test_the_ends_are_the_least_and_greatest_mean_that_fit() -> None:
    """No other division of z^2 among the strata reaches farther."""
    draw = RowWeights.of([900, 300, 60], [40, 40, 40])
    values = np.concatenate([[1.0] * 38 + [0.0] * 2, [1.0] * 30 + [0.0] * 10, [1.0] * 15 + [0.0] * 25])
    mean = stratified_mean(values, RowWeights(draw.starts, draw.answers * 1e9, draw.weights), confidence=0.95)
    part = np.log(1 / 0.05) / 3.8414588
    share, means = np.array([900, 300, 60]) / 1260, np.array([0.95, 0.75, 0.375])
    random = np.random.default_rng(1)
    parts = 3.8414588 * random.dirichlet([0.5, 0.5, 0.5], 20_000)
    a = parts / 39
    b = a * part * (2 * means - 1)
    down = (b + np.sqrt(b * b + 4 * (1 + a * part**2) * a * means * (1 - means))) / (2 * (1 + a * part**2))
    at = means - part * down
    assert np.allclose(down**2, a * at * (1 - at))
    farthest = float(((means - down) @ share).min())
    assert float(mean.lower) == pytest.approx(farthest, abs=2e-4)


@for_each("kind", ("binary", "bounded"))
def test_a_difference_of_the_same_rows_covers(kind: str) -> None:
    means, sizes, rows = [0.95, 0.8, 0.5], [900, 300, 180], [80, 60, 60]
    random = np.random.default_rng(60)
    before = scores(kind, means, rows, random, RUNS)
    worse = random.random(before.shape) < 0.1
    after = np.where(worse, 0.0, before)
    truth = -0.1 * float(np.average(expected(kind, means), weights=sizes))
    gap = stratified_difference(after, before, RowWeights.of(sizes, rows), confidence=0.95)
    assert float(gap.estimate.mean()) == pytest.approx(truth, abs=0.002)
    assert np.mean((gap.lower <= truth) & (truth <= gap.upper)) > 0.935
    assert np.mean(gap.upper < 0) > 0.9


def test_a_metric_that_some_rows_do_not_have_is_the_mean_of_those_that_have_it() -> None:
    random = np.random.default_rng(60)
    draw = RowWeights.of([900, 100], [60, 60])
    covered = []
    for _ in range(500):
        values = (random.random(120) < np.repeat([0.9, 0.3], 60)).astype(float)
        values[random.random(120) > np.repeat([0.2, 0.8], 60)] = np.nan
        mean = stratified_mean(values, draw, confidence=0.95)
        truth = (900 * 0.2 * 0.9 + 100 * 0.8 * 0.3) / (900 * 0.2 + 100 * 0.8)
        covered.append(float(mean.lower) <= truth <= float(mean.upper))
    assert np.mean(covered) > 0.92


def test_known_scores_make_the_interval_narrower_and_keep_the_mean() -> None:
    random = np.random.default_rng(60)
    draw = RowWeights.of([1380], [200])
    quality = random.beta(4, 1, (500, 200))
    values = (random.random(quality.shape) < quality).astype(float)
    plain = stratified_mean(values, draw, confidence=0.95)
    narrow, covered, estimates = [], [], []
    for row, known in zip(values, quality - 0.8, strict=True):
        mean = stratified_mean(row, draw, confidence=0.95, known=known)
        narrow.append(float(mean.upper - mean.lower))
        estimates.append(float(mean.estimate))
        covered.append(float(mean.lower) <= 0.8 <= float(mean.upper))
    assert np.mean(narrow) < 0.97 * np.mean(plain.upper - plain.lower)
    assert np.mean(estimates) == pytest.approx(0.8, abs=0.005)
    assert np.mean(covered) > 0.92


def test_rows_that_are_missing_are_stood_for_by_the_others_of_their_stratum() -> None:
    rows = [DrawnFrom("a", 10, 0.1)] * 5 + [DrawnFrom("b", 10, 0.5)] * 10
    order, draw = draw_of(rows)
    assert sorted(order.tolist()) == list(range(15))
    assert draw.stands_for == pytest.approx(100 + 20)
    assert draw.rows.tolist() == [5, 10]


def test_a_sample_of_the_traffic_weighs_as_much_as_the_traffic() -> None:
    _, draw = draw_of([DrawnFrom("a", 10, 0.1, kept=0.25)] * 10)
    assert draw.stands_for == pytest.approx(400)
    assert float(draw.answers.sum()) == pytest.approx(100)
