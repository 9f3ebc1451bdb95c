import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import DriftDetector
from ragtide_aggregator.statistics.drift import evidence
from ragtide_aggregator.statistics.drift.drift import Alarm, DetectorTable, Direction


def first_alarms(values: np.ndarray[Any, Any], *, limit: float, run_length: float) -> list[Alarm | None]:
    """Return the first alarm of each run; one run a row, positions counted along it."""
    table = DetectorTable()
    rows = np.array([table.add_row() for _ in values], dtype=np.intp)
    for row in rows:
        table.configure(int(row), limit=limit, direction="fall", run_length=run_length)
    found: list[Alarm | None] = [None] * len(values)
    batch, length = values.shape
    for start in range(0, length, 500):
        part = values[:, start : start + 500]
        where = np.repeat(rows, part.shape[1])
        positions = np.tile(np.arange(start, start + part.shape[1]), batch)
        alarms, _ = table.update(where, part.ravel(), positions)
        for alarm in alarms:
            if found[alarm.row] is None:
                found[alarm.row] = dataclasses.replace(alarm, position=int(positions[alarm.position]))
        if all(found):
            break
    return found


def bernoulli(rng: np.random.Generator, p: float, runs: int, length: int) -> np.ndarray[Any, Any]:
    return (rng.random((runs, length)) < p).astype(float)


@pytest.mark.simulation
@pytest.mark.parametrize("p", [0.85, pytest.param(0.95, marks=pytest.mark.heavy)])
def test_without_a_change_the_mean_run_between_false_alarms_is_at_least_the_stated_one(p: float) -> None:
    run_length, runs = 100, 400
    values = bernoulli(np.random.default_rng(1), p, runs, 6000)
    alarms = first_alarms(values, limit=0.85, run_length=run_length)
    # Runs without an alarm count with their length, which only makes the mean smaller.
    lengths = np.array([6000 if alarm is None else alarm.position + 1 for alarm in alarms])
    assert lengths.mean() - 2 * lengths.std() / np.sqrt(runs) >= run_length


@pytest.mark.simulation
@pytest.mark.parametrize(("after", "delay"), [(0.75, 148), (0.65, 51), (0.5, 22)])
def test_a_fall_is_found_about_as_fast_as_measured_before(after: float, delay: float) -> None:
    rng = np.random.default_rng(2)
    runs, before = 300, 300
    values = np.concatenate([bernoulli(rng, 0.85, runs, before), bernoulli(rng, after, runs, 1500)], axis=1)
    alarms = [alarm for alarm in first_alarms(values, limit=0.85, run_length=10_000) if alarm is not None]
    late = np.array([alarm.position + 1 - before for alarm in alarms if alarm.position >= before])
    assert len(late) > 0.9 * runs
    assert late.mean() == pytest.approx(delay, rel=0.15)


def test_the_change_point_is_found_near_where_the_change_was() -> None:
    rng = np.random.default_rng(3)
    values = np.concatenate([bernoulli(rng, 0.85, 200, 300), bernoulli(rng, 0.5, 200, 300)], axis=1)
    alarms = [a for a in first_alarms(values, limit=0.85, run_length=10_000) if a is not None and a.position >= 300]
    begun = np.array([alarm.change_tag for alarm in alarms])
    assert abs(np.median(begun) - 300) <= 5
    for alarm in alarms:
        assert alarm.change_n == alarm.position + 1 - alarm.change_tag
        since = values[alarm.row, alarm.change_tag : alarm.position + 1]
        assert alarm.change_mean == pytest.approx(since.mean())
        assert alarm.change_variance == pytest.approx(since.var(ddof=1), abs=1e-9)


def test_a_rise_is_the_mirror_image_of_a_fall() -> None:
    values = bernoulli(np.random.default_rng(4), 0.4, 1, 400)[0]
    falling = DriftDetector(baseline=0.7, direction="fall", run_length=1000)
    rising = DriftDetector(baseline=0.3, direction="rise", run_length=1000)
    assert falling.update(values) == rising.update(1 - values)
    assert falling.log_evidence == pytest.approx(rising.log_evidence)


def test_a_movement_within_min_effect_is_no_alarm() -> None:
    values = bernoulli(np.random.default_rng(5), 0.80, 1, 20_000)[0]
    assert DriftDetector(baseline=0.85, run_length=1000, min_effect=0.1).update(values) is None
    assert DriftDetector(baseline=0.85, run_length=1000).update(values) is not None


def test_values_after_the_alarm_are_left_to_the_next_call() -> None:
    detector = DriftDetector(baseline=0.9, run_length=100)
    first = detector.update([0.0] * 50)
    assert first is not None
    assert detector.log_evidence == -np.inf
    assert detector.update([0.0] * 50) == first


def test_other_value_ranges_are_scaled() -> None:
    values = bernoulli(np.random.default_rng(6), 0.5, 1, 200)[0]
    unit = DriftDetector(baseline=0.8, run_length=1000, min_effect=0.05)
    scaled = DriftDetector(baseline=60, run_length=1000, min_effect=5, value_range=(-20, 80))
    assert unit.update(values) == scaled.update(100 * values - 20)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=60),
    st.lists(st.integers(0, 60), max_size=3),
)
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(
    batch: list[tuple[int, float]], cuts: list[int]
) -> None:
    def fresh() -> DetectorTable:
        table = DetectorTable()
        for direction in ("fall", "rise", "fall"):
            table.configure(table.add_row(), limit=0.6, direction=direction, run_length=20)
        return table

    def add(table: DetectorTable, piece: list[tuple[int, float]], start: int) -> list[tuple[int, Alarm]]:
        rows = np.array([row for row, _ in piece], dtype=np.intp)
        values = np.array([value for _, value in piece], dtype=float)
        tags = np.arange(start, start + len(piece))
        found, left = [], np.arange(len(piece))
        while left.size:
            alarms, again = table.update(rows[left], values[left], tags[left])
            found += [(start + int(left[alarm.position]), alarm) for alarm in alarms]
            left = left[again]
        return sorted(found, key=lambda pair: pair[0])

    whole = fresh()
    expected = add(whole, batch, 0)
    edges = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    cut, found = fresh(), []
    for a, b in itertools.pairwise(edges):
        found += add(cut, batch[a:b], a)
        stored = DetectorTable()
        for row in range(3):
            stored.load(stored.add_row(), cut.to_bytes(row))
        cut = stored
    assert [cut.to_bytes(row) for row in range(3)] == [whole.to_bytes(row) for row in range(3)]
    assert [(at, alarm.row, alarm.change_tag, alarm.log_evidence) for at, alarm in found] == [
        (at, alarm.row, alarm.change_tag, alarm.log_evidence) for at, alarm in expected
    ]


@pytest.mark.parametrize("at_once", [1, 50, 10**6])
@pytest.mark.parametrize("costs", ["same", "different"])
def test_evidence_in_pieces_of_any_size_is_that_of_value_after_value(
    at_once: int, costs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "VALUES_AT_ONCE", at_once)
    drawn = np.random.default_rng(1)
    # Some rows have far more values than others, and none reaches its line.
    rows, values = np.minimum(drawn.geometric(0.2, 1500) - 1, 9).astype(np.intp), drawn.beta(4, 2, 1500)
    cost = np.full(1500, 1e-40) if costs == "same" else drawn.uniform(0, 1e-40, 1500)
    sizes = drawn.integers(1, 4, 1500)
    together, in_turn = DetectorTable(), DetectorTable()
    for table in (together, in_turn):
        for row in range(10):
            direction: Direction = "fall" if row % 2 else "rise"
            table.configure(table.add_row(), limit=0.6, direction=direction, run_length=1e40)
    together.update(rows, values, np.arange(1500), costs=cost, sizes=sizes)
    for place in range(1500):
        here = slice(place, place + 1)
        in_turn.update(rows[here], values[here], np.array([place]), costs=cost[here], sizes=sizes[here])
    assert together.bytes_of(np.arange(10)) == in_turn.bytes_of(np.arange(10))


def test_growing_keeps_what_is_there() -> None:
    table = DetectorTable()
    for _ in range(100):
        row = table.add_row()
        table.configure(row, limit=0.5, direction="fall", run_length=1e6)
        table.update(np.array([row]), np.array([0.2]), np.array([row]))
    assert len({table.to_bytes(row)[: -12 * 8] for row in range(100)}) == 1


def test_values_after_an_alarm_in_a_batch_are_given_back() -> None:
    table = DetectorTable()
    for _ in range(2):
        table.configure(table.add_row(), limit=0.9, direction="fall", run_length=20)
    rows = np.array([0, 1] * 30)
    values = np.where(rows == 0, 0.0, 1.0)
    alarms, left = table.update(rows, values, np.arange(60))
    (alarm,) = alarms
    assert rows[alarm.position] == 0
    assert left.tolist() == list(range(alarm.position + 2, 60, 2))
    assert table.log_evidence(0) == -np.inf


def test_a_large_batch_far_beyond_the_line_alarms_at_its_beginning() -> None:
    """The evidence after the alarm does not matter."""
    values = np.zeros(20_000)
    assert DriftDetector(baseline=0.9, run_length=1000).update(values) == DriftDetector(
        baseline=0.9, run_length=1000
    ).update(values[:100])


def test_both_directions_share_the_run_length() -> None:
    rng = np.random.default_rng(7)
    detector = DriftDetector(baseline=0.5, direction="both", run_length=1000)
    assert detector.update(bernoulli(rng, 0.2, 1, 200)[0]) is not None
    assert detector.update(bernoulli(rng, 0.8, 1, 200)[0]) is not None
    one_sided = DriftDetector(baseline=0.5, direction="fall", run_length=2000)
    values = bernoulli(rng, 0.3, 1, 400)[0]
    assert DriftDetector(baseline=0.5, direction="both", run_length=1000).update(values) == one_sided.update(values)


def test_moving_the_line_keeps_the_evidence() -> None:
    table = DetectorTable()
    table.configure(table.add_row(), limit=0.5, direction="fall", run_length=1e6)
    table.update(np.zeros(5, dtype=np.intp), np.full(5, 0.2), np.arange(5))
    before = table.log_evidence(0)
    table.move_limit(0, 0.3)
    assert table.log_evidence(0) == before
    with pytest.raises(ValueError, match=r"limit is 1\.5"):
        table.move_limit(0, 1.5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"baseline": 0.05, "min_effect": 0.1}, "could never sound"),
        ({"baseline": 0.95, "min_effect": 0.1, "direction": "rise"}, "could never sound"),
        ({"baseline": float("nan")}, "could never sound"),
        ({"direction": "sideways"}, "direction is 'sideways'"),
        ({"min_effect": -1}, "min_effect is -1"),
        ({"run_length": 1}, "run_length is 1"),
        ({"value_range": (0, 0)}, "value_range"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DriftDetector(**{"baseline": 0.85, **arguments})


def test_one_number_is_a_list_of_one() -> None:
    one, listed = DriftDetector(baseline=0.85), DriftDetector(baseline=0.85)
    assert one.update(0.5) is None
    assert listed.update([0.5]) is None
    assert one.log_evidence == listed.log_evidence


def test_a_table_of_values_is_refused_and_nothing_is_added() -> None:
    detector = DriftDetector(baseline=0.85)
    with pytest.raises(ValueError, match="2 dimensions"):
        detector.update([[0.5, 0.5]])
    assert detector.log_evidence == -np.inf


def test_a_value_outside_the_range_is_named_and_nothing_is_added() -> None:
    detector = DriftDetector(baseline=0.85)
    with pytest.raises(ValueError, match=r"values\[1\] is nan"):
        detector.update([0.5, float("nan")])
    assert detector.log_evidence == -np.inf


def test_a_value_with_a_limit_of_its_own_counts_as_if_the_limit_of_the_row_had_moved() -> None:
    rng = np.random.default_rng(9)
    values, limits = rng.random(60), rng.uniform(0.3, 0.8, 60)
    limits[::7] = np.nan
    given, moved = DetectorTable(), DetectorTable()
    for table in (given, moved):
        for direction in ("fall", "rise"):
            table.configure(table.add_row(), limit=0.5, direction=direction, run_length=1e9)
    rows, tags = np.repeat([0, 1], 60), np.zeros(120, dtype=np.int64)
    given.update(rows, np.tile(values, 2), tags, limits=np.tile(limits, 2))
    for value, limit in zip(values.tolist(), limits.tolist(), strict=True):
        for row in (0, 1):
            moved.move_limit(row, 0.5 if np.isnan(limit) else limit)
            moved.update(np.array([row]), np.array([value]), tags[:1])
            moved.move_limit(row, 0.5)
    assert [given.to_bytes(row) for row in (0, 1)] == [moved.to_bytes(row) for row in (0, 1)]
    with pytest.raises(ValueError, match="limits holds"):
        given.update(rows[:1], values[:1], tags[:1], limits=np.ones(1))


@pytest.mark.parametrize("direction", ["fall", "rise"])
def test_centers_make_an_alarm_tell_distances_and_change_no_evidence(direction: Direction) -> None:
    rng = np.random.default_rng(5)
    values, centers = rng.random(400), np.tile([0.25, 0.75], 200)
    found = []
    for subtracted in (None, centers):
        table = DetectorTable()
        row = table.add_row()
        limit = 0.7 if direction == "fall" else 0.3
        table.configure(row, limit=limit, direction=direction, run_length=1000)
        rows = np.full(400, row, dtype=np.intp)
        alarms, _ = table.update(rows, values, np.arange(400), centers=subtracted)
        found.append(alarms[0])
    plain, centered = found
    assert (plain.position, plain.log_evidence) == (centered.position, centered.log_evidence)
    since = slice(plain.position + 1 - plain.change_n, plain.position + 1)
    distances = (values - centers)[since]
    assert centered.change_mean == pytest.approx(distances.mean())
    assert centered.change_variance == pytest.approx(distances.var(ddof=1))
