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
from ragtide_aggregator.statistics.means.strategies import moments_interval, resolved
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_schemas import Direction, Kind, MetricDeclaration

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


@pytest.mark.parametrize(
    "values",
    [np.random.default_rng(3).poisson(2.0, 12), np.zeros(300), np.eye(1, 100)[0], np.full(20, 2.0)],
    ids=["few", "none", "one", "few equal"],
)
def test_a_few_counts_have_no_interval_rather_than_one_that_says_nothing(values: Any) -> None:
    state = counted(values)
    (one,) = (e for e in estimates(state) if e.metric == COUNT)
    assert one.estimate == pytest.approx(values.mean())
    assert (one.lower, one.upper, one.has_interval, one.strategy) == (None, None, False, "running")
    (running,) = (e for e in estimates(state, strategy="running") if e.metric == COUNT)
    assert running.lower is not None
    assert running.upper is not None
    assert running.upper > running.lower + 4, "the interval of the range was no use"


@pytest.mark.parametrize(
    ("metric", "value"), [("answer.prompt_tokens", 1800.0), ("retrieval.documents", 1.0), ("answer.cost_usd", 0.0004)]
)
def test_equal_counts_have_an_interval_on_their_own_scale(metric: str, value: float) -> None:
    state = AggregatorState(StateOptions())
    for number in range(200):
        state.apply(event(number, {metric: value}))
    (one,) = (e for e in estimates(state) if e.metric == metric)
    assert one.strategy == "asymptotic"
    assert one.lower is not None
    assert one.upper is not None
    # One more of 0 or of twice as much would move the mean by half a percent.
    assert 0.95 * value < one.lower < 0.995 * value
    assert 1.005 * value < one.upper < 1.05 * value


def test_a_count_with_a_small_range_keeps_the_interval_of_its_range() -> None:
    """One is a fifth of the range, so the interval that assumes nothing is of use, also while all are 0."""
    declared = {"mine.tries": MetricDeclaration(lower=0, upper=5, kind=Kind.DISTRIBUTIVE, direction=Direction.LOWER)}
    state = AggregatorState(StateOptions())
    for number in range(300):
        state.apply(event(number, {"mine.tries": 0.0}, declared=declared))
    (one,) = (e for e in estimates(state) if e.metric == "mine.tries")
    assert (one.lower, one.strategy) == (0.0, "running")
    assert one.upper is not None
    assert 0 < one.upper < 0.2


@pytest.mark.simulation
@pytest.mark.parametrize("name", DRAWS)
def test_the_interval_of_counts_misses_in_at_most_a_twentieth_of_the_runs(name: str) -> None:
    """Through `moments_interval`, with looks after every 30 of 1,500 counts; ends that say nothing hold everything."""
    truth, draw = DRAWS[name]
    runs = 400
    x = draw(np.random.default_rng(8), (runs, 1500)) / 1000.0
    table, rows = MomentTable(), np.arange(runs)
    for _ in range(runs):
        table.add_row()
    missed = np.zeros(runs, dtype=bool)
    for start in range(0, 1500, 30):
        part = x[:, start : start + 30]
        table.update(np.repeat(rows, 30), part.ravel())
        lower, upper = moments_interval(AUTO, table.read(rows), confidence=0.95, counts=np.full(runs, 1 / 1000))
        missed |= (lower > truth / 1000) | (upper < truth / 1000)
    assert missed.mean() <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert (upper - lower < 2 * truth / 1000).mean() > 0.99


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
