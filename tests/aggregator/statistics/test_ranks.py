"""Ranks among earlier values: the definition, value by value, and how often chance alone looks like a change."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.drift.power import answers_to_find
from ragtide_aggregator.statistics.drift.ranks import BINS, LEAST, WAITING, EarlierTable, Ranked
from ragtide_aggregator.statistics.tables.batches import Floats, grouped
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


def table_of(*streams: Floats, step: float = 0.0) -> EarlierTable:
    """Return a table with a row for each stream and its first values."""
    table = EarlierTable()
    for values in streams:
        row = table.add_row()
        table.step[row] = step
        for value in values.tolist():
            table.add_one(row, value, 1)
    return table


def ranked(table: EarlierTable, row: int, values: Floats, movement: Movement) -> Ranked:
    """Return the ranks of the next values of one row."""
    batch = grouped(np.zeros(values.size, dtype=np.intp))
    return table.ranked(np.array([row]), np.array([movement == "fall"]), batch, values)


def dumped(table: EarlierTable, rows: int = 1) -> list[dict[str, Any]]:
    """Return what is known of the first rows of a table."""
    of_rows = zip(table.dumps(np.arange(rows)), table.answers.tolist(), table.total.tolist(), strict=False)
    return [earlier | {"answers": answers, "total": total} for earlier, answers, total in of_rows]


@given(
    st.lists(st.sampled_from([0, 1, 7, 60, 64, 127, 128]), min_size=LEAST + 1, max_size=120),
    st.sampled_from(["fall", "rise"]),
)
def test_a_rank_is_what_the_definition_says(values: list[int], movement: Movement) -> None:
    shares = np.array(values) / BINS
    expected = [by_definition(values, number, movement) for number in range(LEAST, len(values))]
    assert ranked(table_of(shares[:LEAST]), 0, shares[LEAST:], movement).ranks == pytest.approx(expected)


def values_of(rng: np.random.Generator, n: int, *, binary: bool) -> Floats:
    return (rng.random(n) < 0.8).astype(np.float64) if binary else rng.beta(4, 2, n)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.sampled_from(["fall", "rise"]),
    st.booleans(),
)
def test_cuts_and_restarts_change_no_bit(seed: int, cuts: list[int], movement: Movement, binary: bool) -> None:
    n = LEAST + sum(cuts)
    values = values_of(np.random.default_rng(seed), n, binary=binary)
    whole, parts = (table_of(values[:LEAST], step=0.02) for _ in range(2))
    expected = ranked(whole, 0, values[LEAST:], movement)
    start, ranks, limits = LEAST, [], []
    for cut in cuts:
        part = values[start : start + cut]
        of_part = ranked(parts, 0, part, movement)
        ranks.append(of_part.ranks)
        limits.append(of_part.limits)
        parts.add(np.zeros(cut, dtype=np.intp), part, np.ones(cut, dtype=np.intp))
        loaded = table_of(np.zeros(0), step=0.02)
        loaded.take_dumped(0, parts.dumps(np.array([0]))[0])
        loaded.answers[:], loaded.total[:] = parts.answers, parts.total
        start, parts = start + cut, loaded
    assert np.array_equal(np.concatenate(ranks), expected.ranks)
    assert np.array_equal(np.concatenate(limits), expected.limits)
    whole.add(np.zeros(n - LEAST, dtype=np.intp), values[LEAST:], np.ones(n - LEAST, dtype=np.intp))
    assert dumped(whole) == dumped(parts)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(LEAST, 900), st.integers(0, 300), st.booleans(), st.booleans()), max_size=6),
)
def test_streams_together_equal_each_value_alone(seed: int, streams: list[tuple[int, int, bool, bool]]) -> None:
    rng = np.random.default_rng(seed)
    first = [values_of(rng, n, binary=binary) for n, _, binary, _ in streams]
    later = [values_of(rng, n, binary=binary) for _, n, binary, _ in streams]
    together, alone = table_of(*first, step=0.02), table_of(*first, step=0.02)
    falls = np.array([falls for *_, falls in streams], dtype=bool)
    rows = rng.permutation(np.repeat(np.arange(len(streams)), [part.size for part in later])).astype(np.intp)
    values, sizes = np.zeros(rows.size), rng.integers(1, 4, rows.size)
    for row, part in enumerate(later):
        values[rows == row] = part
    batch = grouped(rows)
    of_all = together.ranked(np.arange(len(streams)), falls, batch, values[batch.order])
    ranks, limits = np.empty((2, rows.size))
    ranks[batch.order], limits[batch.order] = of_all
    for place, (row, value, size) in enumerate(zip(rows.tolist(), values.tolist(), sizes.tolist(), strict=True)):
        one = ranked(alone, row, np.array([value]), "fall" if falls[row] else "rise")
        assert (one.ranks[0], one.limits[0]) == (ranks[place], limits[place])
        alone.add_one(row, value, size)
    together.add(rows, values, sizes)
    assert dumped(together, len(streams)) == dumped(alone, len(streams))


def test_a_stored_stream_with_another_number_of_waiting_values_is_refused() -> None:
    table = table_of(np.linspace(0, 1, 100))
    (earlier,) = table.dumps(np.array([0]))
    with pytest.raises(ValueError, match="wait"):
        table.take_dumped(0, earlier | {"n": 400})


def first_alarm(values: Floats, movement: Movement = "fall", run_length: float = 10_000) -> float:
    """Return the number of values until the alarm; infinity without one."""
    of_all, table = ranked(table_of(values[:LEAST], step=0.02), 0, values[LEAST:], movement), DetectorTable()
    taken = np.flatnonzero((of_all.limits > 0) & (of_all.limits < 1))
    row = table.add_row()
    table.configure(row, limit=0.5, direction=movement, run_length=run_length)
    alarms, _ = table.update(
        np.full(taken.size, row), of_all.ranks[taken], taken, limits=of_all.limits[taken]
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
