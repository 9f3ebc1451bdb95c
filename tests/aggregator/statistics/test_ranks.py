"""Ranks among earlier values: the definition, value by value, and how often chance alone looks like a change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.power import answers_to_find
from ragtide_aggregator.statistics.drift.ranks import BINS, LEAST, WAITING, EarlierValues, bins_of
from ragtide_aggregator.statistics.tables.batches import Floats
from ragtide_schemas import Movement

pytestmark = pytest.mark.pure


def by_definition(values: list[int], number: int, movement: Movement) -> float:
    """Return the scaled rank of a value among those before it that do not wait, and one at the bad end."""
    sign, worst = (1, 0) if movement == "fall" else (-1, BINS)
    earlier = [worst, *values[: number - min(number // 3, WAITING)]]

    def rank(value: int) -> float:
        less, equal = (sum(sign * other < sign * value for other in earlier), earlier.count(value))
        return (less + (equal + 1) / 2) / (len(earlier) + 1)

    largest = rank(max(earlier) if movement == "fall" else min(earlier))
    scaled = min(rank(values[number]) / largest, 1.0)
    return scaled if movement == "fall" else 1 - scaled


@given(
    st.lists(st.sampled_from([0, 1, 7, 60, 64, 127, 128]), min_size=LEAST + 1, max_size=120),
    st.sampled_from(["fall", "rise"]),
)
def test_a_rank_is_what_the_definition_says(values: list[int], movement: Movement) -> None:
    earlier = EarlierValues()
    earlier.add(np.array(values[:LEAST]))
    ranked = earlier.ranked(np.array(values[LEAST:]), movement, 0.0)
    expected = [by_definition(values, number, movement) for number in range(LEAST, len(values))]
    assert ranked.ranks == pytest.approx(expected)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.sampled_from(["fall", "rise"]),
    st.booleans(),
)
def test_cuts_and_restarts_change_no_bit(seed: int, cuts: list[int], movement: Movement, binary: bool) -> None:
    rng = np.random.default_rng(seed)
    n = LEAST + sum(cuts)
    bins = bins_of(np.where(binary, rng.random(n) < 0.8, rng.beta(4, 2, n)).astype(np.float64))
    whole, parts = EarlierValues(), EarlierValues()
    whole.add(bins[:LEAST])
    parts.add(bins[:LEAST])
    expected = whole.ranked(bins[LEAST:], movement, 0.02)
    start, ranks, limits = LEAST, [], []
    for cut in cuts:
        part = bins[start : start + cut]
        ranked = parts.ranked(part, movement, 0.02)
        ranks.append(ranked.ranks)
        limits.append(ranked.limits)
        parts.add(part)
        loaded = EarlierValues()
        loaded.load(parts.dump())
        start, parts = start + cut, loaded
    assert np.array_equal(np.concatenate(ranks), expected.ranks)
    assert np.array_equal(np.concatenate(limits), expected.limits)
    whole.add(bins[LEAST:])
    assert whole.dump() == parts.dump()


def first_alarm(values: Floats, movement: Movement = "fall", run_length: float = 10_000) -> float:
    """Return the number of values until the alarm; infinity without one."""
    bins, earlier, table = bins_of(values), EarlierValues(), DetectorTable()
    earlier.add(bins[:LEAST])
    ranked = earlier.ranked(bins[LEAST:], movement, 0.02)
    taken = np.flatnonzero((ranked.limits > 0) & (ranked.limits < 1))
    row = table.add_row()
    table.configure(row, limit=0.5, direction=movement, run_length=run_length)
    alarms, _ = table.update(
        np.full(taken.size, row), ranked.ranks[taken], taken, limits=ranked.limits[taken]
    )  # fmt: skip
    return float(taken[alarms[0].position]) + LEAST + 1 if alarms else np.inf


@pytest.mark.simulation
@pytest.mark.parametrize("good", [0.5, 0.82, 0.95])
@pytest.mark.parametrize("movement", ["fall", "rise"])
def test_false_alarms_are_rarer_than_the_run_length_says(good: float, movement: Movement) -> None:
    rng, runs, n, run_length = np.random.default_rng(int(100 * good)), 60, 3_000, 1_000.0
    times = np.array(
        [first_alarm((rng.random(n) < good).astype(np.float64), movement, run_length) for _ in range(runs)]
    )
    # The sum of the times watched per alarm estimates the run length, with a standard error of about an eighth.
    assert np.minimum(times, n).sum() / max(np.isfinite(times).sum(), 1) > run_length


@pytest.mark.simulation
@pytest.mark.parametrize(("before", "after"), [(0.82, 0.52), (0.82, 0.67), (0.95, 0.75)])
def test_the_delay_is_near_the_limit_and_as_stated(before: float, after: float) -> None:
    rng, runs, n = np.random.default_rng(7), 80, 500
    delays = np.array(
        [
            first_alarm(np.concatenate([rng.random(n) < before, rng.random(2_000) < after]).astype(np.float64)) - n
            for _ in range(runs)
        ]
    )
    median = float(np.median(delays))
    divergence = after * np.log(after / before) + (1 - after) * np.log((1 - after) / (1 - before))
    assert median < 1.5 * np.log(10_000) / divergence
    assert answers_to_find(before - after, mean=before) == pytest.approx(median, rel=0.3)


def test_what_is_never_found_is_said_so() -> None:
    assert answers_to_find(0.2, mean=0.9, slope=0.05) == np.inf
