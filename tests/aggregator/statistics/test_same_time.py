"""The difference of two versions within the same time: fair bets, valid intervals, exact bytes."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.comparisons.same_time import DIFFERENCES, FRACTIONS, SameTimeDifference

means = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3)


def expected_capital(second: list[float], first: list[float], center: float, unit: float) -> np.ndarray:
    """Return the mean capital of each bettor after one block of values that are 0 or 1 with these means."""
    total = np.zeros((2, DIFFERENCES.size, FRACTIONS.size))
    for outcome in product((0.0, 1.0), repeat=len(second) + len(first)):
        chances = [mean if value else 1 - mean for mean, value in zip([*second, *first], outcome, strict=True)]
        compared = SameTimeDifference(unit)
        compared.add(second=outcome[: len(second)], first=outcome[len(second) :], center=center)
        total += prod(chances) * np.exp(compared._capital)
    return total


@given(means, means, st.floats(0.0, 1.0), st.sampled_from([1.0, 0.2]))
def test_no_bettor_gains_on_average_if_its_hypothesis_is_true(
    second: list[float], first: list[float], center: float, unit: float
) -> None:
    true = np.mean(second) - np.mean(first)
    below, above = expected_capital(second, first, center, unit)
    hypotheses = unit * DIFFERENCES
    assert below[hypotheses <= true + 1e-12].max(initial=1.0) <= 1 + 1e-9
    assert above[hypotheses >= true - 1e-12].max(initial=1.0) <= 1 + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
def test_no_bettor_gains_on_average_from_sessions_of_both_versions(sessions: list[tuple[float, float]]) -> None:
    total = np.zeros((2, DIFFERENCES.size, FRACTIONS.size))
    for second, first in sessions:
        compared = SameTimeDifference()
        compared.add_session(second=second, first=first, sizes=(1, 1))
        total += np.exp(compared._capital) / len(sessions)
    true = np.mean([second - first for second, first in sessions])
    assert total[0][true + 1e-12 >= DIFFERENCES].max(initial=1.0) <= 1 + 1e-9
    assert total[1][true - 1e-12 <= DIFFERENCES].max(initial=1.0) <= 1 + 1e-9


@pytest.mark.parametrize("swing", [0.0, 0.3])
def test_the_interval_holds_at_every_look_while_the_level_swings(swing: float) -> None:
    rng, true, missed, runs = np.random.default_rng(11), -0.08, 0, 150
    for _ in range(runs):
        compared = SameTimeDifference()
        for block in range(150):
            level = 0.6 + swing * np.sin(block / 10)
            second, first = rng.random(2) < level + true, rng.random(14) < level
            compared.add(second=second.astype(float), first=first.astype(float), center=0.6)
            interval = compared.interval(0.1, 0.1)
            assert interval is not None
            if not interval.lower <= true <= interval.upper:
                missed += 1
                break
    # At most 20% of the runs may miss; four standard errors of 150 runs beside that would be a fault.
    assert missed / runs <= 0.2


def test_the_interval_narrows_to_a_true_difference() -> None:
    rng, compared = np.random.default_rng(3), SameTimeDifference()
    for _ in range(1_500):
        compared.add(second=rng.beta(8, 2, 1), first=rng.beta(9, 1, 16), center=0.9)
    interval = compared.interval(0.025, 0.025)
    assert interval is not None
    assert interval.lower < -0.1 < interval.upper
    assert interval.upper - interval.lower < 0.08
    assert (compared.n_second, compared.n_first) == (1_500, 24_000)


@given(st.lists(st.tuples(means, means), max_size=5), st.sampled_from([1.0, 0.3]))
def test_bytes_hold_everything(blocks: list[tuple[list[float], list[float]]], unit: float) -> None:
    compared = SameTimeDifference(unit)
    for second, first in blocks:
        compared.add(second=second, first=first, center=0.5)
    again = SameTimeDifference.from_bytes(compared.to_bytes())
    for one in (compared, again):
        one.add(second=[0.2], first=[0.4, 0.9], center=0.7)
    assert again.to_bytes() == compared.to_bytes()
    assert again.interval(0.05, 0.05) == compared.interval(0.05, 0.05)


@pytest.mark.parametrize("unit", [0.0, -1.0, 1.5, float("nan")])
def test_an_impossible_unit_is_refused(unit: float) -> None:
    with pytest.raises(ValueError, match="unit"):
        SameTimeDifference(unit)


def test_damaged_bytes_are_refused() -> None:
    data = SameTimeDifference().to_bytes()
    for damaged in (data[:-1], b"\xff" + data[1:], data[:-8] + b"\xff" * 8):
        with pytest.raises(ValueError, match=r"bytes|impossible"):
            SameTimeDifference.from_bytes(damaged)
