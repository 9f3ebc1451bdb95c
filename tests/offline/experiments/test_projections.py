"""Estimates for all items of an experiment, and paired differences."""

import numpy as np
import pytest
from tests.offline.experiments.scores import METRIC, filled, raced, spread
from tests.support.experiment_plans import plan

from ragtide_aggregator.statistics.intervals.intervals import interval
from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.projections import paired_differences, projection_of
from ragtide_offline.experiments.state import ExperimentState
from ragtide_schemas import (
    METRICS,
    Direction,
    Kind,
    MetricDefinition,
)
from ragtide_schemas.experiments import (
    IntervalOptions,
)


def test_no_interval_closes_before_all_items_are_seen() -> None:
    for strategy in ("normal", "wilson", "hoeffding", "betting", "running", "empirical_bernstein"):
        for value in (0.0, 1.0):
            for n in (1, 5, 19):
                options = IntervalOptions(strategy=strategy)
                (found,) = projection_of([[value] * n], METRICS[METRIC], missing=[0], population=20, options=options)
                assert found.upper - found.lower > 0.01, (strategy, value, n)
            (found,) = projection_of([[value] * 20], METRICS[METRIC], missing=[0], population=20, options=options)
            assert found.lower == found.upper == value


def test_a_mean_is_that_of_the_items_with_a_score_and_closes_when_all_are_known() -> None:
    (found,) = projection_of([[0.5, 1.0]], METRICS[METRIC], missing=[2], population=4, options=IntervalOptions())
    assert (found.n, found.estimate, found.lower, found.upper) == (2, 0.75, 0.75, 0.75)
    (nothing,) = projection_of([[]], METRICS[METRIC], missing=[4], population=4, options=IntervalOptions())
    assert (nothing.n, nothing.estimate, nothing.lower, nothing.upper) == (0, None, 0.0, 1.0)


def test_totals_are_projected_onto_all_items() -> None:
    hits = MetricDefinition("own.projected_hits", 0, 10, Direction.HIGHER, Kind.DISTRIBUTIVE, "Hits.", "test")
    values = [1.0, 4.0, 2.0, 3.0]
    for strategy in ("normal", "wilson", "hoeffding"):
        options = IntervalOptions(strategy=strategy)
        (found,) = projection_of([values], hits, missing=[0], population=40, options=options)
        used = "normal" if strategy == "wilson" else strategy
        expected = interval(
            used, total=10.0, n=4, population=40, value_range=(0, 10), variance=float(np.var(values, ddof=1))
        )
        assert found.estimate == pytest.approx(100.0)
        # The total cannot be below the part that was already seen.
        assert [found.lower, found.upper] == pytest.approx([max(expected.lower, 10.0), expected.upper])


@pytest.mark.simulation
def test_intervals_of_counts_are_as_wide_as_their_spread_and_hold_at_every_look() -> None:
    unsupported = METRICS["sentences.unsupported"]  # from 0 to 1,000 sentences
    random = np.random.default_rng(3)
    looks = range(5, 205, 20)
    missed = 0
    for _ in range(20):
        counts = random.poisson(3, 200).astype(float)
        found = projection_of(
            [counts[:n].tolist() for n in looks],
            unsupported, missing=[0] * len(looks), population=200, options=IntervalOptions(),
        )  # fmt: skip
        missed += any(not one.lower <= counts.sum() + 1e-9 or not counts.sum() - 1e-9 <= one.upper for one in found)
        assert found[-1].upper - found[-1].lower < counts.sum() / 2
    assert missed <= 1
    values = [[2.0, 4.0] * 50]
    (betting,) = projection_of(
        values, unsupported, missing=[0], population=200, options=IntervalOptions(strategy="betting")
    )
    (auto,) = projection_of(values, unsupported, missing=[0], population=200, options=IntervalOptions())
    assert auto.estimate == betting.estimate
    assert auto.upper - auto.lower < 0.1 * (betting.upper - betting.lower)
    # Only counts have another strategy than `betting`.
    mean = [[0.25, 0.75] * 50]
    assert projection_of(
        mean, METRICS[METRIC], missing=[0], population=200, options=IntervalOptions()
    ) == projection_of(mean, METRICS[METRIC], missing=[0], population=200, options=IntervalOptions(strategy="betting"))


def test_use_of_how_many_items_there_are_is_a_choice() -> None:
    values = [[0.2, 0.9, 0.4, 0.6, 0.5, 0.3, 0.8, 0.7]]
    with_fpc, without = (
        projection_of(
            values,
            METRICS[METRIC],
            missing=[0],
            population=10,
            options=IntervalOptions(strategy="normal", use_fpc=choice),
        )[0]
        for choice in (True, False)
    )
    assert with_fpc.upper - with_fpc.lower < 0.6 * (without.upper - without.lower)


def test_an_estimate_closes_over_all_items_only_if_their_number_counts() -> None:
    values = [[0.2, 0.9, 0.4, 0.6]]
    closed, sample = (
        projection_of(values, METRICS[METRIC], missing=[0], population=4, options=IntervalOptions(use_fpc=choice))[0]
        for choice in (True, False)
    )
    assert closed.exact
    assert closed.lower == closed.estimate == closed.upper
    assert not sample.exact
    assert sample.lower < sample.estimate < sample.upper  # type: ignore[operator]


def test_paired_differences_are_surer_than_either_mean() -> None:
    scores = spread(2, 60)
    state = ExperimentState(plan(2, size=200, race={"enabled": False}), filled(scores))
    raced(state)
    assert state.compared == 60
    ((n, gap),) = [found for found in paired_differences(state, "c1", ["c0"]) if found is not None]
    widths = [row.estimates[METRIC].upper - row.estimates[METRIC].lower for row in board(state).rows]
    assert n == 60
    assert gap.estimate == pytest.approx(np.mean(scores["c1"]) - np.mean(scores["c0"]))
    assert (gap.upper - gap.lower) / 2 < min(widths)
