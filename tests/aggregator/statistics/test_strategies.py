import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.support.cases import for_each

from ragtide import confidence_sequence, interval
from ragtide_aggregator.statistics.intervals.betting import BettingTable
from ragtide_aggregator.statistics.means.strategies import ANYTIME_VALID, OF_MOMENTS, STRATEGIES, RunningIntervals

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "stats_golden" / "intervals.json").read_text())["cases"]
STRATEGY = st.sampled_from(STRATEGIES)
VALUES = arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1))
Array = np.ndarray[Any, Any]


def seen(strategy: str, values: Any, **how: Any) -> tuple[float, float, float]:
    """Return estimate and ends after these values of one key."""
    table = RunningIntervals(strategy, keys=1, **how)
    table.update(np.zeros(len(values), dtype=int), values)
    found = table.intervals()
    return float(found.estimate[0]), float(found.lower[0]), float(found.upper[0])


@for_each("case", GOLDEN)
def test_betting_equals_the_golden_values_to_one_grid_step(case: dict[str, Any]) -> None:
    at = np.array(case["at"]) - 1
    for key, population in (
        ("betting_grid1000", None),
        ("betting_without_replacement_grid1000", case["betting_without_replacement_N"]),
    ):
        found = confidence_sequence("betting", case["x"], confidence=1 - case["alpha"], population=population)
        np.testing.assert_allclose(found[at], case[key], rtol=0, atol=1e-3 + 1e-12)


@for_each("strategy", STRATEGIES)
@for_each("case", GOLDEN[:6])
def test_the_table_gives_what_the_functions_give(strategy: str, case: dict[str, Any]) -> None:
    x, confidence = np.array(case["x"][:200]), 1 - case["alpha"]
    _, *ends = seen(strategy, x, confidence=confidence)
    if strategy in ANYTIME_VALID:
        expected = confidence_sequence(strategy, x, confidence=confidence)[-1].tolist()
    else:
        found = interval(strategy, mean=x.mean(), n=x.size, confidence=confidence, variance=x.var(ddof=1))
        expected = [found.lower, found.upper]
    assert ends == pytest.approx(expected, abs=1e-9)


@given(STRATEGY, st.floats(1e-6, 1 - 1e-9))
def test_without_a_value_everything_is_possible(strategy: str, confidence: float) -> None:
    estimate, lower, upper = seen(strategy, [], confidence=confidence)
    assert np.isnan(estimate)
    assert (lower, upper) == (0.0, 1.0)


@given(STRATEGY, st.floats(0, 1))
def test_one_value_leaves_more_than_half_of_the_range_open(strategy: str, value: float) -> None:
    estimate, lower, upper = seen(strategy, [value])
    assert estimate == pytest.approx(value, abs=1e-12)
    assert upper - lower >= 0.5


@given(STRATEGY, VALUES, st.floats(1e-9, 1 - 1e-12))
def test_an_interval_lies_in_the_range_and_is_not_upside_down(strategy: str, values: Array, confidence: float) -> None:
    _, lower, upper = seen(strategy, values, confidence=confidence)
    assert 0 <= lower <= upper <= 1


@given(STRATEGY, st.floats(0, 1), st.integers(2, 200))
def test_equal_values_never_close_the_interval_before_all_are_seen(strategy: str, value: float, n: int) -> None:
    estimate, lower, upper = seen(strategy, [value] * n)
    assert estimate == pytest.approx(value, abs=1e-12)
    assert upper - lower > 1e-4


@given(VALUES)
@example(np.array([5e-324] * 3))
def test_betting_closes_when_the_whole_population_is_seen(values: Array) -> None:
    estimate, lower, upper = seen("betting", values, population=values.size)
    assert lower == pytest.approx(estimate, abs=1e-9)
    assert upper == pytest.approx(estimate, abs=1e-9)


@given(st.sampled_from(OF_MOMENTS), VALUES)
def test_intervals_of_moments_close_when_the_whole_population_is_seen(strategy: str, values: Array) -> None:
    """N = 1 included."""
    estimate, lower, upper = seen(strategy, values, population=values.size)
    assert lower == estimate == upper


@given(st.sampled_from(OF_MOMENTS), VALUES, st.integers(1, 500), st.floats(0.01, 0.99))
def test_what_is_not_yet_seen_moves_the_mean_so_far_and_no_further(
    strategy: str, values: Array, unseen: int, confidence: float
) -> None:
    size = values.size + unseen
    estimate, lower, upper = seen(strategy, values, population=size, confidence=confidence)
    total = float(values.sum())
    assert total / size - 1e-12 <= lower <= estimate <= upper <= (total + unseen) / size + 1e-12
    if strategy in ANYTIME_VALID:
        _, least, most = seen(strategy, values, confidence=confidence)
        assert lower == pytest.approx(max(least, total / size), abs=1e-12)
        assert upper <= most


@given(STRATEGY, VALUES, st.integers(0, 40))
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(strategy: str, values: Array, cut: int) -> None:
    whole = RunningIntervals(strategy, keys=1)
    whole.update(np.zeros(values.size, dtype=int), values)
    first, second = RunningIntervals(strategy, keys=1), RunningIntervals(strategy, keys=1)
    first.update(np.zeros(values[:cut].size, dtype=int), values[:cut])
    second.load(0, first.to_bytes(0))
    second.update(np.zeros(values[cut:].size, dtype=int), values[cut:])
    assert second.to_bytes(0) == whole.to_bytes(0)


@given(STRATEGY, st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=40))
def test_a_key_is_what_it_would_be_alone(strategy: str, batch: list[tuple[int, float]]) -> None:
    table = RunningIntervals(strategy, keys=4)
    table.update([key for key, _ in batch], [value for _, value in batch])
    for key in range(4):
        alone = RunningIntervals(strategy, keys=1)
        mine = [value for one, value in batch if one == key]
        alone.update(np.zeros(len(mine), dtype=int), mine)
        assert table.to_bytes(key) == alone.to_bytes(0)


@given(st.sampled_from(OF_MOMENTS), VALUES, st.integers(0, 40))
def test_merging_equals_having_all_values(strategy: str, values: Array, cut: int) -> None:
    parts = [RunningIntervals(strategy, keys=1) for _ in range(2)]
    for table, part in zip(parts, (values[:cut], values[cut:]), strict=True):
        table.update(np.zeros(part.size, dtype=int), part)
    parts[0].merge(0, parts[1], 0)
    found = parts[0].intervals()
    estimate, lower, upper = seen(strategy, values)
    assert found.estimate[0] == estimate
    if strategy != "running":  # its intrinsic time is that of the parts: as valid, not the same
        assert (found.lower[0], found.upper[0]) == pytest.approx((lower, upper), abs=1e-7)


@pytest.mark.parametrize("strategy", ["betting", "empirical_bernstein"])
def test_a_state_that_cannot_be_merged_says_so(strategy: str) -> None:
    one, other = (RunningIntervals(strategy, keys=1) for _ in range(2))
    with pytest.raises(ValueError, match="depend on the order"):
        one.merge(0, other, 0)


@given(STRATEGY, VALUES)
def test_a_range_scales_the_intervals(strategy: str, values: Array) -> None:
    unit = seen(strategy, values)
    scaled = seen(strategy, -8 + 16 * values, value_range=(-8, 8))
    assert scaled == pytest.approx([-8 + 16 * end for end in unit], abs=1e-6)


def test_totals_are_projected_onto_the_population() -> None:
    mean = seen("hoeffding", [1.0, 0.0, 1.0, 1.0], population=400)
    total = seen("hoeffding", [1.0, 0.0, 1.0, 1.0], population=400, kind="distributive")
    assert total == pytest.approx([400 * end for end in mean])
    # A sum is no proportion: wilson falls back to normal.
    assert seen("wilson", [1.0, 0.0] * 9, population=400, kind="distributive") == seen(
        "normal", [1.0, 0.0] * 9, population=400, kind="distributive"
    )


@for_each("strategy", STRATEGIES)
@for_each("wrong", [-1e-9, 1.0000001, float("nan"), float("inf")])
def test_a_value_out_of_range_is_named_and_nothing_is_added(strategy: str, wrong: float) -> None:
    table = RunningIntervals(strategy, keys=1)
    table.update([0], [0.5])
    before = table.to_bytes(0)
    with pytest.raises(ValueError, match=r"values\[1\]"):
        table.update([0, 0], [0.0, wrong])
    assert table.to_bytes(0) == before
    for edge in (0.0, 1.0):
        table.update([0], [edge])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strategy": "bayes"}, "use one of running"),
        ({"confidence": 1.0}, "confidence is 1"),
        ({"confidence": float("nan")}, "confidence is nan"),
        ({"value_range": (1, 1)}, "value_range"),
        ({"kind": "distributive"}, "population is missing"),
        ({"population": 0}, "population is 0"),
        ({"population": 2.5}, "population is 2.5"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    given_: dict[str, Any] = {"strategy": "running", "keys": 1, **arguments}
    with pytest.raises(ValueError, match=words):
        RunningIntervals(given_.pop("strategy"), **given_)


def test_more_values_than_the_population_are_refused() -> None:
    table = RunningIntervals("betting", keys=1, population=2)
    with pytest.raises(ValueError, match="more values than the population"):
        table.update([0, 0, 0], [1.0, 1.0, 0.0])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bytes_of_another_version_are_refused(strategy: str) -> None:
    table = RunningIntervals(strategy, keys=1)
    with pytest.raises(ValueError, match="version"):
        table.load(0, b"\x09" + table.to_bytes(0)[1:-1])


def test_the_asymptotic_interval_is_the_whole_range_until_there_is_enough_of_both_kinds() -> None:
    few = [1.0] * 300 + [0.0] * 29
    assert seen("asymptotic", few)[1:] == (0.0, 1.0)
    _, lower, upper = seen("asymptotic", [*few, 0.0])
    assert 0.8 < lower < 0.95 < upper


def test_tables_grow() -> None:
    for strategy in STRATEGIES:
        table = RunningIntervals(strategy, keys=70)
        table.update(np.arange(70), np.linspace(0, 1, 70))
        np.testing.assert_allclose(table.intervals().estimate, np.linspace(0, 1, 70), atol=1e-12)
    one = BettingTable(0.95, steps=10)
    assert [one.add_row() for _ in range(40)] == list(range(40))
