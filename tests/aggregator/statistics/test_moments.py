import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.moments import MomentTable

BATCH = st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), max_size=60)


def table_of(batches: list[list[tuple[int, float]]]) -> MomentTable:
    table = MomentTable()
    for _ in range(5):
        table.add_row()
    for batch in batches:
        rows = np.array([row for row, _ in batch], dtype=np.intp)
        table.update(rows, np.array([value for _, value in batch], dtype=float))
    return table


@given(BATCH, st.lists(st.integers(0, 60), max_size=4))
def test_cutting_the_values_into_batches_changes_no_bit(batch: list[tuple[int, float]], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    pieces = [batch[a:b] for a, b in itertools.pairwise(edges)]
    whole, cut = table_of([batch]), table_of(pieces)
    assert [whole.to_bytes(row) for row in range(5)] == [cut.to_bytes(row) for row in range(5)]


@given(BATCH)
def test_the_moments_are_those_of_numpy(batch: list[tuple[int, float]]) -> None:
    table = table_of([batch])
    for row in range(5):
        values = np.array([value for r, value in batch if r == row])
        assert table.n[row] == len(values)
        if len(values) == 0:
            continue
        assert table.mean[row] == pytest.approx(values.mean(), abs=1e-12)
        assert (table.minimum[row], table.maximum[row]) == (values.min(), values.max())
        if len(values) > 1:
            assert table.variance(row) == pytest.approx(values.var(ddof=1), abs=1e-12)
        else:
            assert np.isnan(table.variance(row))


@given(BATCH, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter_to_count_mean_and_variance(
    batch: list[tuple[int, float]], random: Any
) -> None:
    shuffled = list(batch)
    random.shuffle(shuffled)
    one, other = table_of([batch]), table_of([shuffled])
    assert one.n.tolist() == other.n.tolist()
    np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.m2, other.m2, rtol=0, atol=1e-10)


@given(BATCH)
def test_a_row_survives_as_bytes_exactly(batch: list[tuple[int, float]]) -> None:
    table = table_of([batch])
    copy = MomentTable()
    for row in range(5):
        copy.add_row()
        copy.load(row, table.to_bytes(row))
        assert copy.to_bytes(row) == table.to_bytes(row)


@pytest.mark.parametrize("data", [b"", b"\x02" + bytes(56), b"\x01" * 10])
def test_bytes_of_another_version_are_refused(data: bytes) -> None:
    table = MomentTable()
    table.add_row()
    with pytest.raises(ValueError, match="version"):
        table.load(0, data)


def test_a_constant_has_no_variance_even_after_many_values() -> None:
    table = MomentTable()
    rows = np.array([table.add_row() for _ in range(1000)], dtype=np.intp)
    for _ in range(1000):
        table.update(rows, np.full(1000, 0.1))
    many = MomentTable()
    row = np.array([many.add_row()], dtype=np.intp)
    for _ in range(20_000):
        many.update(row, np.array([0.1]))
    assert many.variance(0) == pytest.approx(0, abs=1e-25)
    assert table.variance(0) >= 0
    assert many.mean[0] == pytest.approx(0.1, abs=1e-15)


def test_a_value_outside_the_range_is_refused_and_nothing_is_added() -> None:
    for wrong in (1.0000001, -0.1, float("nan")):
        table = table_of([[(0, 0.5)]])
        with pytest.raises(ValueError, match="not in"):
            table.update(np.array([0, 0]), np.array([0.25, wrong]))
        assert table.n[0] == 1


def test_growing_keeps_what_is_there() -> None:
    table = MomentTable()
    for row in range(500):
        table.add_row()
        table.update(np.array([row]), np.array([row / 500]))
    assert table.mean.tolist() == [row / 500 for row in range(500)]
    assert np.all(table.n == 1)


def test_the_recent_mean_follows_the_last_values() -> None:
    table = MomentTable()
    row = np.array([table.add_row()], dtype=np.intp)
    for value in [1.0] * 300 + [0.0] * 300:
        table.update(row, np.array([value]))
    assert table.recent[0] < 0.001
    assert table.mean[0] == 0.5
