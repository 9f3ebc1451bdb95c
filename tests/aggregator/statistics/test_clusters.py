"""Clusters of dependent values: sums to the bit, intervals at every look, detectors that bet on whole clusters."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide import DriftDetector, confidence_sequence
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.comparisons.paired import paired_difference
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.means.clustered_interval import clustered_boundary, clustered_interval
from ragtide_aggregator.statistics.means.clusters import ClusterTable, summed
from ragtide_aggregator.statistics.means.moments import MomentTable

Array = NDArray[Any]

CLUSTER = st.tuples(st.integers(0, 2), st.lists(st.floats(0, 1), min_size=1, max_size=8))


def table_of(clusters: Sequence[tuple[int, list[float]]]) -> ClusterTable:
    table = ClusterTable()
    for _ in range(3):
        table.add_row()
    add(table, clusters)
    return table


def add(table: ClusterTable, clusters: Sequence[tuple[int, list[float]]]) -> None:
    rows = np.array([row for row, _ in clusters], dtype=np.intp)
    sizes = np.array([len(values) for _, values in clusters], dtype=np.int64)
    table.update(rows, sizes, np.array([min(sum(values), len(values)) for _, values in clusters], dtype=np.float64))


@given(st.lists(CLUSTER, max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(
    clusters: list[tuple[int, list[float]]], cuts: list[int]
) -> None:
    whole = table_of(clusters)
    cut = table_of([])
    for a, b in itertools.pairwise([0, *sorted(min(one, len(clusters)) for one in cuts), len(clusters)]):
        add(cut, clusters[a:b])
        stored = table_of([])
        for row in range(3):
            stored.load(row, cut.to_bytes(row))
        cut = stored
    assert [cut.to_bytes(row) for row in range(3)] == [whole.to_bytes(row) for row in range(3)]
    assert not whole.impossible(np.arange(3)).any()


@given(st.lists(CLUSTER, min_size=1, max_size=30))
def test_the_sums_are_those_of_the_definition(clusters: list[tuple[int, list[float]]]) -> None:
    found = table_of(clusters).read([0, 1, 2])
    for row in range(3):
        n, total, squares, below, above, largest = 0, 0.0, 0.0, 0.0, 0.0, [0.0, 0.0]
        mine = [values for at, values in clusters if at == row]
        for values in mine:
            guess = total / n if n else 0.5
            off = (sum(values) - len(values) * guess) ** 2
            squares += off
            below += len(values) * guess * off
            above += len(values) * (1 - guess) * off
            largest = [max(largest[0], len(values) * guess), max(largest[1], len(values) * (1 - guess))]
            n, total = n + len(values), total + sum(values)
        assert (found.count[row], found.n[row]) == (len(mine), n)
        assert found.mean[row] == pytest.approx(total / max(n, 1))
        assert found.squares[row] == pytest.approx(squares, abs=1e-9)
        assert found.squares_below[row] == pytest.approx(below, abs=1e-9)
        assert found.squares_above[row] == pytest.approx(above, abs=1e-9)
        assert [found.largest_below[row], found.largest_above[row]] == pytest.approx(largest)


@given(st.lists(CLUSTER, max_size=20), st.lists(CLUSTER, max_size=20))
def test_merging_adds_sums_and_pooling_equals_merging(
    first: list[tuple[int, list[float]]], second: list[tuple[int, list[float]]]
) -> None:
    one, other = table_of(first), table_of(second)
    both = one.read([0]), other.read([0])
    one.add_row()
    one.load(3, other.to_bytes(0))
    pooled = one.pooled(np.array([0, 3]), np.array([0]))
    one.merge(0, other, 0)
    merged = one.read([0])
    assert merged.n[0] == both[0].n[0] + both[1].n[0]
    assert merged.squares[0] == pytest.approx(both[0].squares[0] + both[1].squares[0])
    for name in ("count", "n", "sizes", "mean", "squares", "squares_below", "squares_above", "largest_below"):
        assert getattr(pooled, name)[0] == getattr(merged, name)[0]


@pytest.mark.parametrize(
    ("sizes", "totals", "message"),
    [([0], [0.0], "sizes"), ([1025], [1.0], "sizes"), ([2], [2.5], "totals"), ([2], [float("nan")], "totals")],
)
def test_a_cluster_that_cannot_be_is_refused_and_nothing_is_added(
    sizes: list[int], totals: list[float], message: str
) -> None:
    table = table_of([(0, [0.5])])
    before = table.to_bytes(0)
    with pytest.raises(ValueError, match=message):
        table.update(np.array([0]), np.array(sizes), np.array(totals))
    assert table.to_bytes(0) == before


def test_the_boundary_of_one_bet_is_that_of_its_formula() -> None:
    # With a mixture of many bets, the bound lies below that of its best bet alone and above that of the best bet
    # without a mixture: both from the formula of the docstring.
    squares, c = 300.0, 4.0
    found = float(clustered_boundary(np.array([squares]), np.array([c * squares]), np.array([c]), alpha_side=0.025)[0])
    bets = np.geomspace(1e-4, 0.2499, 5000)
    psi = (-np.log1p(-c * bets) - c * bets) / c**2
    best = np.min((np.log(1 / 0.025) + squares * psi) / bets)
    assert best <= found <= best * 1.35


def test_without_a_cluster_the_interval_is_the_whole_range() -> None:
    lower, upper = clustered_interval(table_of([]).read([0]), confidence=0.95)
    assert (lower[0], upper[0]) == (0.0, 1.0)


def test_the_boundary_of_a_key_does_not_depend_on_the_other_keys() -> None:
    rng = np.random.default_rng(7)
    squares, c = rng.uniform(0, 1e6, 50), rng.uniform(0, 50, 50)
    together = clustered_boundary(squares, squares * c / 2, c, alpha_side=0.025)
    for at in range(0, 50, 7):
        alone = clustered_boundary(squares[[at]], squares[[at]] * c[[at]] / 2, c[[at]], alpha_side=0.025)
        assert alone[0] == together[at]


def closed(values: Array, size: int) -> tuple[Array, Array]:
    """Return sizes and sums of clusters of neighbours; runs are rows."""
    runs, length = values.shape
    return np.full(length // size, size), values[:, : length // size * size].reshape(runs, -1, size).sum(axis=2)


def sessions(rng: np.random.Generator, mean: Array, runs: int, size: int, correlation: float) -> Array:
    """Return yes-or-no scores in sessions of neighbours, with an intraclass correlation."""
    means = mean[::size]
    if correlation:
        spread = 1 / correlation - 1
        luck = rng.beta(means * spread, (1 - means) * spread, (runs, means.size))
    else:
        luck = np.broadcast_to(means, (runs, means.size))
    return (rng.random((runs, mean.size)) < np.repeat(luck, size, axis=1)[:, : mean.size]).astype(float)


def misses(sizes: Array, totals: Array, target: Array, confidence: float) -> float:
    """Return the share of runs whose interval misses the target at a look, of about 60 looks."""
    runs, count = totals.shape
    table = ClusterTable()
    rows = np.array([table.add_row() for _ in range(runs)])
    missed = np.zeros(runs, dtype=bool)
    step = max(count // 60, 1)
    for start in range(0, count - step + 1, step):
        part = slice(start, start + step)
        table.update(np.repeat(rows, step), np.tile(sizes[part], runs), totals[:, part].ravel())
        lower, upper = clustered_interval(table.read(rows), confidence=confidence)
        here = target[start + step - 1]
        missed |= (here < lower) | (here > upper)
    return float(missed.mean())


@pytest.mark.simulation
@pytest.mark.parametrize(("size", "correlation"), [(1, 0.0), (5, 0.2), (5, 0.5), (20, 0.3)])
def test_intervals_over_clusters_miss_in_at_most_alpha_of_the_runs(size: int, correlation: float) -> None:
    # At 80% confidence, where a wrong boundary shows with 300 runs. The mean falls in the middle.
    mean = np.where(np.arange(1500) < 750, 0.85, 0.6)
    sizes, totals = closed(sessions(np.random.default_rng(1), mean, 300, size, correlation), size)
    target = np.cumsum(sizes * mean[::size][: sizes.size]) / np.cumsum(sizes)
    assert misses(sizes, totals, target, 0.8) <= 0.2


@pytest.mark.simulation
def test_intervals_that_take_dependent_values_for_single_ones_miss_too_often() -> None:
    # The test above can fail: the same sessions, each value by itself.
    mean = np.full(1500, 0.85)
    values = sessions(np.random.default_rng(1), mean, 300, 20, 0.3)
    assert misses(*closed(values, 1), mean, 0.8) > 0.3


@pytest.mark.simulation
def test_single_values_pay_next_to_nothing_for_clusters_that_could_come() -> None:
    rng = np.random.default_rng(3)
    for p in (0.5, 0.85):
        values = (rng.random((50, 4000)) < p).astype(float)
        n = np.arange(1, 4001)
        means = np.cumsum(values, axis=1) / n
        v = np.cumsum((values - np.concatenate([np.full((50, 1), 0.5), means[:, :-1]], axis=1)) ** 2, axis=1)
        table = ClusterTable()
        rows = np.array([table.add_row() for _ in values])
        for start, end in itertools.pairwise([0, 200, 1000, 4000]):
            part = values[:, start:end]
            table.update(np.repeat(rows, end - start), np.ones(part.size, dtype=np.int64), part.ravel())
            lower, upper = clustered_interval(table.read(rows), confidence=0.95)
            low, high = running_interval(means[:, end - 1], np.full(50, end), v[:, end - 1], confidence=0.95)
            assert np.mean(upper - lower) <= 1.1 * np.mean(high - low)


def test_a_sequence_with_clusters_counts_each_cluster_when_its_last_value_has_come() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.0]
    found = confidence_sequence("running", values, clusters=["a", "b", "a", "c", "b"])
    table = table_of([])
    expected = [(0.0, 1.0), (0.0, 1.0)]
    for size, total in ((2, 2.0), (1, 1.0), (2, 0.0)):
        table.update(np.array([0]), np.array([size]), np.array([total]))
        lower, upper = clustered_interval(table.read([0]), confidence=0.95)
        expected.append((float(lower[0]), float(upper[0])))
    assert found.tolist() == [list(one) for one in expected]
    with pytest.raises(ValueError, match="belong to the sequence running"):
        confidence_sequence("betting", values, clusters=[1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="4 names for 5 values"):
        confidence_sequence("running", values, clusters=[1, 2, 3, 4])


def alarms_of(sizes: Array, totals: Array, *, limit: float, run_length: float) -> Array:
    """Return the number of values of each run up to its first alarm; all of them without an alarm."""
    runs, count = totals.shape
    table = DetectorTable()
    rows = np.array([table.add_row() for _ in range(runs)], dtype=np.intp)
    for row in rows.tolist():
        table.configure(row, limit=limit, direction="fall", run_length=run_length)
    ends = np.cumsum(sizes)
    found = np.full(runs, ends[-1])
    for start in range(0, count, 400):
        part = totals[:, start : start + 400] / sizes[start : start + 400]
        width = part.shape[1]
        where = np.repeat(rows, width)
        tags = np.zeros(where.size, dtype=np.int64)
        many = np.tile(sizes[start : start + width], runs)
        for alarm in table.update(where, part.ravel(), tags, sizes=many)[0]:
            found[alarm.row] = min(found[alarm.row], ends[start + alarm.position % width])
    return found


@pytest.mark.simulation
@pytest.mark.parametrize(("size", "correlation"), [(3, 0.1), (5, 0.5), (50, 0.1)])
def test_the_mean_number_of_values_to_a_false_alarm_is_at_least_the_stated_one(size: int, correlation: float) -> None:
    values = sessions(np.random.default_rng(1), np.full(3000, 0.85), 300, size, correlation)
    found = alarms_of(*closed(values, size), limit=0.85, run_length=100)
    assert found.mean() - 2 * found.std() / np.sqrt(found.size) >= 100


@pytest.mark.simulation
def test_dependent_values_taken_for_single_ones_alarm_too_often() -> None:
    values = sessions(np.random.default_rng(1), np.full(3000, 0.85), 200, 50, 0.1)
    found = alarms_of(*closed(values, 1), limit=0.85, run_length=2000)
    assert found.mean() + 2 * found.std() / np.sqrt(found.size) < 1000


@pytest.mark.simulation
@pytest.mark.parametrize(("after", "delay"), [(0.75, 228), (0.65, 89), (0.5, 44)])
def test_a_fall_in_sessions_is_found_about_as_fast_as_measured_before(after: float, delay: float) -> None:
    mean = np.where(np.arange(2000) < 300, 0.85, after)
    found = alarms_of(*closed(sessions(np.random.default_rng(2), mean, 200, 5, 0.2), 5), limit=0.85, run_length=10_000)
    late = found[found > 300] - 300
    assert late.size > 180
    assert late.mean() == pytest.approx(delay, rel=0.15)


@given(st.lists(st.floats(0, 1), max_size=40))
def test_clusters_of_one_value_are_single_values(values: list[float]) -> None:
    single, clusters = (DriftDetector(baseline=0.6, run_length=20) for _ in range(2))
    assert single.update(values) == clusters.update(values, sizes=[1] * len(values))
    assert single.log_evidence == clusters.log_evidence


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 60)), max_size=30),
    st.integers(0, 30),
)
def test_a_detector_of_clusters_stored_in_between_changes_no_bit(clusters: list[tuple[float, int]], cut: int) -> None:
    def added(tables: Sequence[DetectorTable], edges: Sequence[int]) -> bytes:
        table = tables[0]
        table.configure(table.add_row(), limit=0.6, direction="rise", run_length=1e9)
        for following, (start, end) in zip(tables[1:], itertools.pairwise(edges), strict=True):
            part = clusters[start:end]
            means, sizes = np.array([mean for mean, _ in part]), np.array([n for _, n in part], dtype=np.int64)
            table.update(np.zeros(len(part), dtype=np.intp), means, np.arange(start, start + len(part)), sizes=sizes)
            following.load(following.add_row(), table.to_bytes(0))
            table = following
        return table.to_bytes(0)

    cut = min(cut, len(clusters))
    whole = added([DetectorTable(), DetectorTable()], [0, len(clusters)])
    assert added([DetectorTable(), DetectorTable(), DetectorTable()], [0, cut, len(clusters)]) == whole


def test_sizes_that_are_no_whole_numbers_are_refused() -> None:
    detector = DriftDetector(baseline=0.6)
    for sizes in ([1, 2], [0.5], [0]):
        with pytest.raises(ValueError, match="sizes is wrong: give one whole number of 1 or more"):
            detector.update([0.5], sizes=sizes)


@pytest.mark.simulation
def test_paired_differences_over_clusters_hold_and_single_ones_do_not() -> None:
    rng = np.random.default_rng(8)
    found = {True: 0, False: 0}
    for _ in range(150):
        # Each topic is easy for one of the two and hard for the other.
        luck = np.repeat(rng.normal(0, 0.15, 60), 10)
        first, second = (np.clip(0.5 + sign * luck + rng.normal(0, 0.05, 600), 0, 1) for sign in (1, -1))
        topics = np.repeat(np.arange(60), 10).tolist()
        for clustered in found:
            clusters = topics if clustered else None
            ends = paired_difference(first, second, value_range=(0, 1), confidence=0.8, clusters=clusters).difference
            found[clustered] += not ends.lower <= 0 <= ends.upper
    assert found[True] <= 30
    assert found[False] > 40


def test_two_streams_with_clusters_are_compared_by_their_clusters() -> None:
    values = np.repeat((np.random.default_rng(9).random(80) < 0.7).astype(float), 5)
    moments = MomentTable()
    moments.update(np.full(400, moments.add_row()), values)
    single = moments.read([0])
    clustered = replace(single, clusters=summed(values, np.repeat(np.arange(80), 5).tolist()))
    narrow = difference(single, single, confidence=0.95)
    wide = difference(clustered, clustered, confidence=0.95)
    assert wide.upper - wide.lower > 1.5 * (narrow.upper - narrow.lower)


def test_a_cluster_that_is_too_large_counts_in_parts() -> None:
    sums = summed(np.ones(2500), ["a"] * 2500)
    assert (sums.count[0], sums.n[0]) == (3, 2500)
