"""Counts: an interval as wide as their spread and not as their range, once there are enough of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import event

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.intervals.asymptotic import (
    LEAST_OF_A_KIND,
    asymptotic_half_width,
    enough_to_count,
)
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.means.strategies import AUTO, moments_interval, resolved

COUNT = "sentences.fully_supported"
Draw = Callable[[np.random.Generator, tuple[int, int]], Any]

DRAWS: dict[str, tuple[float, Draw]] = {
    "Poisson 2": (2.0, lambda rng, size: rng.poisson(2.0, size).astype(float)),
    "rare, Poisson 0.2": (0.2, lambda rng, size: rng.poisson(0.2, size).astype(float)),
    "geometric 2": (2.0, lambda rng, size: rng.geometric(1 / 3, size) - 1.0),
    "mostly none": (0.8, lambda rng, size: rng.poisson(4.0, size) * (rng.random(size) < 0.2) * 1.0),
    "spread out": (2.0, lambda rng, size: rng.negative_binomial(0.5, 0.2, size).astype(float)),
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", DRAWS)
def test_of_runs_that_are_looked_at_after_every_count_at_most_a_twentieth_ever_misses(name: str) -> None:
    """Seeded: 600 runs of 1,500 counts; 5% and three standard errors of it."""
    truth, draw = DRAWS[name]
    runs, length = 600, 1500
    x = draw(np.random.default_rng(7), (runs, length)) / 1000.0
    n = np.arange(1, length + 1)
    mean = x.cumsum(axis=1) / n
    variance = np.maximum((x * x).cumsum(axis=1) / n - mean * mean, 0.0) * n / np.maximum(n - 1, 1)
    shown = enough_to_count(mean, np.broadcast_to(n, mean.shape), variance)
    wrong = np.abs(mean - truth / 1000.0) > asymptotic_half_width(variance, n, confidence=0.95)
    assert (shown & wrong).any(axis=1).mean() <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert shown[:, -1].mean() > 0.99


def counted(values: Any) -> AggregatorState:
    state = AggregatorState(StateOptions())
    for number, value in enumerate(values):
        state.apply(event(number, {COUNT: float(value), "trace.adherence": 0.5}))
    return state


def test_a_count_around_2_has_an_interval_around_2_and_says_how_it_was_made() -> None:
    (one,) = (e for e in estimates(counted(np.random.default_rng(3).poisson(2.0, 60))) if e.metric == COUNT)
    assert (one.strategy, one.anytime_valid) == ("asymptotic", True)
    assert one.estimate is not None
    assert one.lower is not None
    assert one.upper is not None
    assert 0.5 < one.lower < one.estimate < one.upper < 4.0


def test_a_few_counts_or_equal_ones_keep_the_interval_that_assumes_nothing() -> None:
    for values in (np.random.default_rng(3).poisson(2.0, 20), np.full(500, 2.0)):
        state = counted(values)
        (one,) = (e for e in estimates(state) if e.metric == COUNT)
        (running,) = (e for e in estimates(state, strategy="running") if e.metric == COUNT)
        assert one.strategy == "running"
        assert (one.lower, one.upper) == (running.lower, running.upper)


def test_proportions_and_means_keep_the_interval_that_assumes_nothing() -> None:
    (one,) = (e for e in estimates(counted(np.arange(100.0) % 5)) if e.metric == "trace.adherence")
    assert one.strategy == "running"


def test_one_large_count_is_not_enough_to_trust_the_limit() -> None:
    values = np.zeros(1000)
    values[500] = 900.0
    (one,) = (e for e in estimates(counted(values)) if e.metric == COUNT)
    assert one.strategy == "running"


def test_for_zeros_and_ones_enough_is_so_many_of_each() -> None:
    n = 1000
    for ones in (LEAST_OF_A_KIND - 1, LEAST_OF_A_KIND, n - LEAST_OF_A_KIND, n - LEAST_OF_A_KIND + 1):
        mean = ones / n
        assert enough_to_count(mean, n, mean * (1 - mean)) == (min(ones, n - ones) >= LEAST_OF_A_KIND)


def test_the_interval_does_not_depend_on_the_range_that_counts_are_scaled_by() -> None:
    x = np.random.default_rng(5).poisson(2.0, 200)
    ends = []
    for highest in (100.0, 1000.0):
        table = MomentTable()
        table.update(np.full(x.size, table.add_row()), x / highest)
        moments = table.read(np.array([0]))
        assert resolved(AUTO, moments, [True]).tolist() == ["asymptotic"]
        lower, upper = moments_interval(AUTO, moments, confidence=0.95, counts=[True])
        ends.append([highest * float(lower[0]), highest * float(upper[0])])
    assert ends[0] == pytest.approx(ends[1])
