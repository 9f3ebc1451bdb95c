"""The dependence of neighbours: block sums to the bit, design effects, lengths of blocks that are long enough."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide_aggregator.statistics.means.dependence import BLOCKS, Dependence, DependenceTable, Moved
from ragtide_aggregator.statistics.means.moments import MomentTable

Array = NDArray[Any]


def measured(values: Array) -> tuple[Dependence, DependenceTable]:
    """Return the dependence of runs; one run a row."""
    table, moments = DependenceTable(), MomentTable()
    rows = np.array([moments.add_row() for _ in values])
    for _ in values:
        table.add_row()
    where = np.repeat(rows, values.shape[1])
    table.update(where, values.ravel())
    moments.update(where, values.ravel())
    return table.read(rows, moments.read(rows)), table


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=200), st.lists(st.integers(0, 200), max_size=3))
def test_cuts_and_storing_in_between_change_no_bit(values: list[tuple[int, float]], cuts: list[int]) -> None:
    def fresh() -> DependenceTable:
        table = DependenceTable()
        for _ in range(3):
            table.add_row()
        return table

    def add(table: DependenceTable, part: list[tuple[int, float]]) -> None:
        table.update(np.array([row for row, _ in part], dtype=np.intp), np.array([one for _, one in part], dtype=float))

    whole, cut = fresh(), fresh()
    add(whole, values)
    for a, b in itertools.pairwise([0, *sorted(min(one, len(values)) for one in cuts), len(values)]):
        add(cut, values[a:b])
        stored = fresh()
        for row in range(3):
            stored.load(row, cut.to_bytes(row))
        cut = stored
    assert [cut.to_bytes(row) for row in range(3)] == [whole.to_bytes(row) for row in range(3)]
    assert not whole.impossible(np.arange(3)).any()


def test_the_design_effect_is_that_of_the_block_sums() -> None:
    values = np.random.default_rng(1).random((1, 200))
    found, _ = measured(values)
    # 200 values hold 50 blocks of 4, 12 of 16: only 4 is measured.
    sums = values[0].reshape(-1, 4).sum(axis=1)
    assert found.design_effect[0] == pytest.approx(sums.var(ddof=1) / (4 * values.var(ddof=1)))
    assert (found.block[0], found.settled[0]) == (64, False)


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


@pytest.mark.simulation
def test_a_known_change_of_the_mean_is_not_taken_for_dependence() -> None:
    rng = np.random.default_rng(5)
    since = 300
    for before, expected in (
        ((rng.random((60, 700)) < 0.85).astype(float), 1.0),
        (sessions(rng, (60, 700), 5, 0.2), 1.8),
    ):
        fallen = np.concatenate([before, (rng.random((60, since)) < 0.2).astype(float)], axis=1)
        table, moments = DependenceTable(), MomentTable()
        rows = np.array([moments.add_row() for _ in fallen])
        for _ in fallen:
            table.add_row()
        where = np.repeat(rows, fallen.shape[1])
        table.update(where, fallen.ravel())
        moments.update(where, fallen.ravel())
        moved = Moved(np.full(60, since), fallen[:, -since:].mean(axis=1))
        assert table.read(rows, moments.read(rows)).design_effect.mean() > 5
        found = table.read(rows, moments.read(rows), moved)
        # Only the part before the change depends.
        assert 1.0 - 0.1 < found.design_effect.mean() < expected + 0.1
        if expected == 1.0:
            assert np.mean(found.certain > 1.2) <= 0.05
