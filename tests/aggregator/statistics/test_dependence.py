"""The dependence of neighbours: block sums to the bit, design effects, lengths of blocks that are long enough."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide_aggregator.statistics.means.dependence import BLOCKS, Dependence, DependenceTable

Array = NDArray[Any]


def measured(values: Array, per_day: int = 86_400) -> tuple[Dependence, DependenceTable]:
    """Return the dependence of runs, one run a row, with so many values a day."""
    table = DependenceTable()
    rows = np.array([table.add_row() for _ in values])
    times = np.arange(values.shape[1]) * (86_400_000 // per_day)
    table.update(np.repeat(rows, values.shape[1]), values.ravel(), np.tile(times, len(values)))
    return table.read(rows), table


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=200), st.lists(st.integers(0, 200), max_size=3))
def test_cuts_and_storing_in_between_change_no_bit(values: list[tuple[int, float]], cuts: list[int]) -> None:
    def fresh() -> DependenceTable:
        table = DependenceTable()
        for _ in range(3):
            table.add_row()
        return table

    def add(table: DependenceTable, part: list[tuple[int, float]]) -> None:
        scores = np.array([one for _, one in part], dtype=float)
        table.update(np.array([row for row, _ in part], dtype=np.intp), scores, np.rint(9e7 * scores).astype(int))

    whole, cut = fresh(), fresh()
    add(whole, values)
    for a, b in itertools.pairwise([0, *sorted(min(one, len(values)) for one in cuts), len(values)]):
        add(cut, values[a:b])
        stored = fresh()
        for row in range(3):
            stored.load(row, cut.to_bytes(row))
        cut = stored
    together = fresh()
    together.load_each(np.arange(3), cut.bytes_of(np.arange(3)))
    of_whole = [whole.to_bytes(row) for row in range(3)]
    assert [cut.to_bytes(row) for row in range(3)] == of_whole
    assert together.bytes_of(np.arange(3)) == of_whole
    assert not whole.impossible(np.arange(3)).any()


def test_the_design_effect_is_that_of_the_differences_of_neighbouring_blocks() -> None:
    values = np.random.default_rng(1).random((1, 200))
    found, _ = measured(values)
    # 200 values hold 50 blocks of 4, 12 of 16: only 4 is measured.
    blocks = values[0].reshape(-1, 4)
    between = (np.diff(blocks.sum(axis=1), 2) ** 2).mean() / 6 / 4
    assert found.design_effect[0] == pytest.approx(between / (blocks.var(axis=1).mean() + between / 4), rel=1e-6)
    assert (found.block[0], found.settled[0]) == (64, False)


@given(st.lists(st.floats(0, 1), min_size=100, max_size=300), st.integers(0, 300))
def test_parts_of_a_split_pipeline_add_up(values: list[float], cut: int) -> None:
    """Merged are the blocks of both parts; a block of one part has no neighbour in the other."""
    parts = [np.array([values[:cut]]), np.array([values[cut:]])]
    tables = [measured(part)[1] for part in parts]
    tables[0].merge(0, tables[1], 0)
    merged = tables[0].read(np.array([0]))
    sums = [part[0][: part.shape[1] // 4 * 4].reshape(-1, 4) for part in parts]
    between = np.concatenate([np.diff(blocks.sum(axis=1), 2) ** 2 / 24 for blocks in sums])
    if len(sums[0]) + len(sums[1]) < 20 or len(between) < 18 or np.ptp(values) < 0.1:
        return
    if sum(part.shape[1] // 16 for part in parts) < 20:
        inside = np.concatenate(sums).var(axis=1).mean()
        assert merged.design_effect[0] == pytest.approx(between.mean() / (inside + between.mean() / 4), rel=1e-3)


def test_with_few_values_or_without_spread_nothing_is_measured() -> None:
    assert np.isnan(measured(np.zeros((1, 79)))[0].design_effect[0])
    assert np.isnan(measured(np.ones((1, 5000)))[0].design_effect[0])
    assert not measured(np.ones((1, 5000)))[0].certain[0] > 1


def sessions(
    rng: np.random.Generator, shape: tuple[int, int], size: int, correlation: float, at_once: int = 1
) -> Array:
    """Return yes-or-no scores in sessions, of which some run at the same time."""
    runs, n = shape
    luck = rng.beta(0.85 * (1 / correlation - 1), 0.15 * (1 / correlation - 1), (runs, n // size + 2 * at_once))
    number = np.arange(n) // (size * at_once) * at_once + np.arange(n) % at_once
    return (rng.random((runs, n)) < luck[:, number]).astype(float)


def autoregressive(rng: np.random.Generator, shape: tuple[int, int], correlation: float) -> Array:
    """Return scores in [0, 1], each with a correlation with the one before."""
    noise = rng.standard_normal(shape) * np.sqrt(1 - correlation**2)
    noise[:, 0] = rng.standard_normal(shape[0])
    found = np.stack([*itertools.accumulate(noise.T, lambda last, new: correlation * last + new)], axis=1)
    return 1 / (1 + np.exp(-1.7 * found))


@pytest.mark.simulation
def test_dependence_is_found_and_its_length_and_chance_is_not_taken_for_it() -> None:
    rng = np.random.default_rng(3)
    independent = measured((rng.random((60, 10_000)) < 0.85).astype(float))[0]
    assert np.mean(independent.block <= 16) > 0.8
    assert np.mean(independent.certain > 1.2) <= 0.02
    assert independent.design_effect.mean() == pytest.approx(1, abs=0.1)
    # Sessions of 5 with a correlation of 0.2 have a design effect of 1 + 4 * 0.2.
    near = measured(sessions(rng, (60, 10_000), 5, 0.2))[0]
    assert near.design_effect.mean() == pytest.approx(1.8, rel=0.1)
    assert np.mean(near.certain > 1.2) > 0.9
    assert np.median(near.block) in (16, 64)
    alone = measured(autoregressive(rng, (60, 6_000), 0.9))[0]
    assert np.median(alone.design_effect) > 10
    assert np.mean(alone.certain > 1.2) == 1
    # Twenty sessions at once: neighbours in time are strangers, and short blocks show nothing.
    far = measured(sessions(rng, (60, 20_000), 5, 0.5, at_once=20))[0]
    assert np.mean(far.block >= 64) > 0.95
    assert far.design_effect.mean() > 2


@pytest.mark.simulation
def test_a_mean_that_moves_slowly_is_never_settled() -> None:
    rng = np.random.default_rng(4)
    mean = 0.85 + 0.05 * np.sin(2 * np.pi * np.arange(20_000) / 2_000)
    found = measured((rng.random((40, 20_000)) < mean).astype(float))[0]
    assert found.settled.mean() < 0.1
    assert set(found.block.tolist()) <= set(BLOCKS[-2:])


def incidents(rng: np.random.Generator, values: Array, spans: list[tuple[int, int]], mean: float) -> Array:
    """Return runs with other values in some spans."""
    found = values.copy()
    for start, end in spans:
        found[:, start:end] = rng.random((len(values), end - start)) < mean
    return found


ONE, TWO = [(2_000, 2_600)], [(1_000, 1_300), (3_000, 3_900)]


@pytest.mark.simulation
@pytest.mark.parametrize(("spans", "mean"), [(ONE, 0.2), (ONE, 0.65), (TWO, 0.2), ([(3_000, 6_000)], 0.2)])
def test_an_incident_is_not_taken_for_dependence_and_hides_none(spans: list[tuple[int, int]], mean: float) -> None:
    rng = np.random.default_rng(5)
    independent = incidents(rng, (rng.random((60, 6_000)) < 0.85).astype(float), spans, mean)
    found = measured(independent)[0]
    assert np.median(found.design_effect) < 1.5
    assert np.mean(found.certain > 1.2) <= 0.1
    dependent = measured(incidents(rng, autoregressive(rng, (60, 6_000), 0.9), spans, mean))[0]
    assert np.mean(dependent.certain > 1.2) == 1
    assert np.median(dependent.design_effect) > 4


@pytest.mark.simulation
@pytest.mark.parametrize("per_day", [1_000, 5_000, 20_000])
def test_a_day_and_a_night_are_not_taken_for_dependence(per_day: int) -> None:
    rng = np.random.default_rng(6)
    n = min(6 * per_day, 40_000)
    mean = 0.8 + 0.15 * np.sin(2 * np.pi * np.arange(n) / per_day)
    found = measured((rng.random((40, n)) < mean).astype(float), per_day)[0]
    assert np.median(found.design_effect) < 1.1
    assert np.mean(found.certain > 1.2) == 0
    assert found.settled.mean() < 0.1, "blocks do not help against the night"


def test_long_runs_of_equal_values_are_dependence_and_no_steps() -> None:
    rng = np.random.default_rng(7)
    found = measured(np.repeat((rng.random((40, 100)) < 0.85).astype(float), 64, axis=1))[0]
    assert np.median(found.design_effect) > 30
    assert np.mean(found.certain > 1.2) > 0.9


def test_a_row_of_the_first_release_begins_anew() -> None:
    table = DependenceTable()
    table.add_row()
    table.load(0, b"\1" + bytes(32))
    assert table.to_bytes(0) == table.to_bytes(table.add_row())


@pytest.mark.parametrize("bad", [(550, 575), (100, 125)])
def test_an_incident_of_an_hour_in_sparse_traffic_is_no_dependence(bad: tuple[int, int]) -> None:
    """25 answers an hour: three blocks of 64 last too long, so all that is known comes from short ones."""
    rng = np.random.default_rng(17)
    values = rng.beta(14, 1, (40, 1200))
    values[:, slice(*bad)] = rng.beta(5, 15, (40, 25))
    found = measured(values, per_day=600)[0]
    assert np.mean(found.certain > 1.2) <= 0.05
