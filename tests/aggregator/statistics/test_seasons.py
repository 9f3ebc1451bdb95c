from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_aggregator.statistics.drift.seasons import HOUR_MS, SeasonTable
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.means.clustered_interval import clustered_boundary

Array = np.ndarray[Any, Any]
DAY_MS = 24 * HOUR_MS


def table_with(rows: int, *, least_cycles: int = 1, offset_ms: int = 0) -> SeasonTable:
    table = SeasonTable("day", least_cycles=least_cycles, offset_ms=offset_ms)
    for _ in range(rows):
        table.add_row()
    return table


def add(table: SeasonTable, row: int, start_ms: int, values: Array) -> int:
    """Add one pane with these values."""
    at, n = np.array([start_ms]), np.array([values.size])
    return table.add(np.array([row]), at, n, np.array([values.sum()]), np.array([(values**2).sum()]))


def random_panes(seed: int, rows: int) -> tuple[Array, ...]:
    """Return panes of a quarter of an hour, in order of time for each row, with gaps."""
    rng = np.random.default_rng(seed)
    count = 60
    starts = np.sort(rng.integers(0, 3 * 96, size=count)) * (HOUR_MS // 4)
    n = rng.integers(0, 6, size=count)
    values = rng.random((count, 6)) * (np.arange(6) < n[:, None])
    return rng.integers(rows, size=count), starts, n, values.sum(axis=1), (values**2).sum(axis=1)


def stored(table: SeasonTable, rows: int) -> list[bytes]:
    return [table.to_bytes(row) for row in range(rows)]


def test_a_slot_has_the_running_interval_of_its_values_each_predicted_by_the_cells_before() -> None:
    rng = np.random.default_rng(1)
    table, first = table_with(1), None
    seen, v, of_day = np.zeros(0), 0.0, []
    for day in range(6):
        cell = rng.random(40)
        predicted = seen.mean() if seen.size else 0.5
        v += float(((cell - predicted) ** 2).sum())
        for part, start in ((cell[:25], 0), (cell[25:], HOUR_MS // 2)):
            assert add(table, 0, day * DAY_MS + 9 * HOUR_MS + start, part) == 0
        seen = np.concatenate([seen, cell])
        of_day.append(cell.mean())
        # A pane of the next hour closes the cell.
        add(table, 0, day * DAY_MS + 10 * HOUR_MS, np.array([0.5]))
        first = running_interval(seen.mean(), seen.size, v, confidence=1 - 0.05 / 24)
        found = table.intervals(np.array([0]), confidence=0.95)
        np.testing.assert_allclose([ends[0, 9] for ends in found], first, atol=1e-9)
    of_cells = np.array(of_day)
    before = np.concatenate([[0.5], np.cumsum(of_cells)[:-1] / np.arange(1, 6)])
    expected = running_interval(of_cells.mean(), 6, ((of_cells - before) ** 2).sum(), confidence=1 - 0.05 / 24)
    cycles = table.intervals(np.array([0]), confidence=0.95, unit="cycle")
    np.testing.assert_allclose([ends[0, 9] for ends in cycles], expected, atol=1e-9)
    assert table.cycles(np.array([0]))[0, 9] == 6


@given(st.lists(st.integers(0, 60), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(cuts: list[int], seed: int) -> None:
    panes = random_panes(seed, 3)
    whole, cut = table_with(3), table_with(3)
    assert whole.add(*panes) == 0
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True):
        again = table_with(3)
        for row in range(3):
            again.load(row, cut.to_bytes(row))
        cut = again
        assert cut.add(*(part[start:end] for part in panes)) == 0
    together = table_with(3)
    together.load_each(np.arange(3), cut.bytes_of(np.arange(3)))
    assert stored(cut, 3) == stored(together, 3) == stored(whole, 3)


def test_a_pane_that_comes_after_its_cell_was_closed_is_left_out_and_counted() -> None:
    table = table_with(1)
    add(table, 0, 2 * HOUR_MS, np.ones(3))
    before = table.to_bytes(0)
    assert add(table, 0, HOUR_MS, np.ones(3)) == 1
    assert table.to_bytes(0) == before


@settings(max_examples=40)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_values_and_clusters_one_by_one_or_together_give_the_same_bits(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, hours = rng.integers(3, size=300), np.sort(rng.integers(0, 60, size=300))
    sizes = rng.choice([1, 1, 1, 2, 9], size=300)
    values = rng.integers(0, sizes + 1) / sizes
    whole, cut = table_with(3), table_with(3)
    assert whole.add_values(rows, hours, values, sizes=sizes) == 0
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 300], strict=True):
        again = table_with(3)
        for row in range(3):
            again.load(row, cut.to_bytes(row))
        cut = again
        inside = slice(start, end)
        assert cut.add_values(rows[inside], hours[inside], values[inside], sizes=sizes[inside]) == 0
    assert stored(cut, 3) == stored(whole, 3)


def test_single_values_are_panes_of_one() -> None:
    rng = np.random.default_rng(2)
    hours, values = np.sort(rng.integers(0, 100, size=200)), rng.random(200)
    rows, single, panes = np.zeros(200, dtype=np.intp), table_with(1), table_with(1)
    single.add_values(rows, hours, values)
    panes.add(rows, hours * HOUR_MS, np.ones(200, dtype=np.intp), values, values**2)
    for mine, other in zip(*(one.intervals(rows[:1], confidence=0.9) for one in (single, panes)), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)


def test_clusters_count_as_a_whole_with_the_boundary_for_their_size() -> None:
    table, row = table_with(1), np.array([0])
    sizes = np.array([3, 1, 5, 2] * 20)
    totals = np.random.default_rng(8).integers(0, sizes + 1)
    seen, v, weighted = 0.5, 0.0, 0.0
    for day in range(4):
        mine = slice(20 * day, 20 * day + 20)
        n, y = sizes[mine], totals[mine]
        table.add_values(np.zeros(20, dtype=np.intp), np.full(20, 24 * day + 9), y / n, sizes=n)
        squares = (y - n * seen) ** 2
        v, weighted = v + squares.sum(), weighted + (n * squares).sum()
        seen = totals[: mine.stop].sum() / sizes[: mine.stop].sum()
    table.close(row)
    wide = clustered_boundary(np.array([v]), np.array([weighted]), np.array([5.0]), alpha_side=0.05 / 48)[0]
    lower, upper = table.intervals(row, confidence=0.95)
    assert (upper[0, 9], lower[0, 9]) == pytest.approx((seen + wide / sizes.sum(), seen - wide / sizes.sum()))
    with pytest.raises(ValueError, match="sizes holds a size"):
        table.add_values(row, row, np.array([0.5]), sizes=np.array([0]))


def test_nothing_is_known_of_an_hour_before_enough_cycles() -> None:
    table, row = table_with(1, least_cycles=3), np.array([0])
    for day in range(4):
        limits = [
            table.limits(row, day * DAY_MS, direction=direction, confidence=0.95)[0] for direction in ("fall", "rise")
        ]
        assert (limits == [0.0, 1.0]) == (day < 3)
        add(table, 0, day * DAY_MS, np.full(500, 0.7))
        add(table, 0, day * DAY_MS + HOUR_MS, np.full(500, 0.3))
    limit = table.limits(row, 9 * DAY_MS, direction="fall", confidence=0.95, min_effect=0.05)
    assert 0.55 < limit[0] < 0.65
    assert np.isnan(table.means(row)[0, 2])


def test_hours_are_cut_where_the_offset_says() -> None:
    table = table_with(1, offset_ms=2 * HOUR_MS)
    assert table.slot(np.array([0, 22 * HOUR_MS, 21 * HOUR_MS])).tolist() == [2, 0, 23]
    week = SeasonTable("week")
    assert week.slot(8 * DAY_MS + HOUR_MS) == 25


def test_a_rise_is_the_mirror_of_a_fall() -> None:
    up, down, row = table_with(1), table_with(1), np.array([0])
    rng = np.random.default_rng(4)
    for hour in range(24 * 5):
        values = (rng.random(60) < 0.6 + 0.2 * (hour % 24 < 12)).astype(float)
        add(up, 0, hour * HOUR_MS, values)
        add(down, 0, hour * HOUR_MS, 1 - values)
    limits = up.limits(row, 0, direction="rise", confidence=0.9), down.limits(row, 0, direction="fall", confidence=0.9)
    np.testing.assert_allclose(limits[0], 1 - limits[1], atol=1e-12)
    swings = (
        up.swings(row, direction="rise", confidence=0.9),
        down.swings(row, direction="fall", confidence=0.9),
    )
    np.testing.assert_allclose(astuple(swings[0]), astuple(swings[1]), atol=1e-12)


def test_the_swing_is_unknown_without_enough_cycles() -> None:
    found = table_with(2, least_cycles=2).swings(np.arange(2), direction="fall", confidence=0.95)
    assert np.isnan(astuple(found)).all()
    assert np.isnan(table_with(2).wobble(np.arange(2))).all()


@pytest.mark.parametrize(
    ("n", "total", "squares"),
    [(2, 2.5, 2.0), (2, 1.0, 1.5), (2, -1.0, 1.0), (2, 2.0, 1.0), (-1, 0.0, 0.0), (1, np.nan, 0)],
)
def test_sums_that_no_values_have_are_refused_and_nothing_is_added(n: int, total: float, squares: float) -> None:
    table = table_with(1)
    before = table.to_bytes(0)
    with pytest.raises(ValueError, match="sums that no values"):
        table.add(np.array([0]), np.array([0]), np.array([n]), np.array([total]), np.array([squares]))
    assert table.to_bytes(0) == before


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(ValueError, match="season is"):
        SeasonTable("year")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="least_cycles"):
        SeasonTable("day", least_cycles=0)
    table = table_with(1)
    with pytest.raises(ValueError, match="confidence"):
        table.intervals(np.array([0]), confidence=1.0)
    data = table.to_bytes(0)
    for wrong in (b"", b"\x09" + data[1:], data + b"\0", SeasonTable("week").to_bytes(0)):
        with pytest.raises(ValueError, match=r"bytes|version"):
            table.load(0, wrong)
    with pytest.raises(ValueError, match="finite"):
        table.load(0, data[:1] + np.array([np.inf]).tobytes() + data[9:])


def hours(rng: np.random.Generator, days: int, per_hour: int, means: Array) -> SeasonTable:
    """Return tables, one row a run, of yes-or-no values; means has shape (runs, days, 24)."""
    runs = len(means)
    table = table_with(runs, least_cycles=4)
    for number in range(24 * days + 1):
        mean = means[:, min(number // 24, days - 1), number % 24]
        totals = rng.binomial(per_hour, mean).astype(float)
        table.add(np.arange(runs), np.full(runs, number * HOUR_MS), np.full(runs, per_hour), totals, totals)
    return table


def day_and_night(runs: int, days: int, swing: float) -> Array:
    return np.broadcast_to(0.85 + swing * np.sin(2 * np.pi * (np.arange(24) + 0.5) / 24), (runs, days, 24))


@pytest.mark.simulation
def test_the_swing_is_measured_and_its_interval_holds_it() -> None:
    rng = np.random.default_rng(5)
    runs, rows = 100, np.arange(100)
    found = hours(rng, 28, 83, day_and_night(runs, 28, 0.05)).swings(rows, direction="fall", confidence=0.95)
    assert abs(found.estimate.mean() - 0.05) < 0.01
    assert np.all((found.lower < 0.0496) & (found.upper > 0.0496))
    none = hours(rng, 28, 83, day_and_night(runs, 28, 0.0)).swings(rows, direction="fall", confidence=0.95)
    assert none.estimate.mean() < 0.006
    assert np.all(none.lower == 0)


@pytest.mark.simulation
@pytest.mark.parametrize("wobble", [0.0, 0.03])
def test_the_wobble_from_day_to_day_is_measured(wobble: float) -> None:
    rng = np.random.default_rng(6)
    means = day_and_night(50, 20, 0.03) + wobble * rng.standard_normal((50, 20, 24)).clip(-2, 2)
    found = hours(rng, 20, 200, means.clip(0, 1)).wobble(np.arange(50))
    assert abs(found.mean() - wobble) < 0.005


@pytest.mark.simulation
def test_all_hours_hold_at_every_look_whatever_the_days_are_like() -> None:
    """Days wander, each hour by itself, and a few values an hour: the target is what the mean at the hour has been."""
    rng = np.random.default_rng(7)
    runs, days, per_hour, alpha = 200, 40, 3, 0.5
    wander = np.cumsum(0.1 * rng.standard_normal((runs, days, 24)), axis=1)
    means = (0.6 + wander).clip(0.02, 0.98)
    table, rows = table_with(runs), np.arange(runs)
    missed = np.zeros(runs, dtype=bool)
    asked = np.cumsum(means, axis=1) / np.arange(1, days + 1)[:, None]
    for number in range(24 * days):
        day, hour = divmod(number, 24)
        totals = rng.binomial(per_hour, means[:, day, hour]).astype(float)
        table.add(rows, np.full(runs, number * HOUR_MS), np.full(runs, per_hour), totals, totals)
        if hour == 1 and day:
            lower, upper = (ends[:, 0] for ends in table.intervals(rows, confidence=1 - alpha))
            missed |= (lower > asked[:, day, 0]) | (upper < asked[:, day, 0])
    # One of 24 hours has a 24th of alpha.
    assert missed.mean() <= alpha / 24 + 2 * np.sqrt(alpha / 24 / runs)
