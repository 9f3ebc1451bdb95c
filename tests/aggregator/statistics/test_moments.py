import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.means.moments import MomentTable

BATCH = st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), max_size=60)


def table_of(batches: list[list[tuple[int, float]]]) -> MomentTable:
    table = MomentTable()
    for _ in range(5):
        table.add_row()
    for batch in batches:
        rows = np.array([row for row, _ in batch], dtype=np.intp)
        table.update(rows, np.array([value for _, value in batch], dtype=float))
    return table


@pytest.mark.parametrize("most", [1, 7, 40])
def test_rows_that_are_summed_up_apart_are_the_same_to_the_bit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    numbers = np.random.default_rng(1)
    batches = [[(int(row), float(value)) for row, value in numbers.random((60, 2)) * (5, 1)] for _ in range(3)]
    together = table_of(batches).bytes_of(np.arange(5))
    monkeypatch.setattr("ragtide_aggregator.statistics.tables.batches.VALUES_OF_A_PIECE", most)
    assert table_of(batches).bytes_of(np.arange(5)) == together


@given(BATCH, st.lists(st.integers(0, 60), max_size=4))
def test_cutting_the_values_into_batches_changes_no_bit(batch: list[tuple[int, float]], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    pieces = [batch[a:b] for a, b in itertools.pairwise(edges)]
    whole, cut = table_of([batch]), table_of(pieces)
    assert [whole.to_bytes(row) for row in range(5)] == [cut.to_bytes(row) for row in range(5)]


@given(BATCH)
def test_the_moments_are_those_of_numpy(batch: list[tuple[int, float]]) -> None:
    table = table_of([batch])
    found = table.read(list(range(5)))
    for row in range(5):
        values = np.array([value for r, value in batch if r == row])
        assert found.n[row] == len(values) == table.n(row)
        if len(values) == 0:
            continue
        # Values are cut at 2^-80; the sum of what is left is exact.
        assert found.mean[row] == pytest.approx(math.fsum(values) / len(values), rel=4e-16, abs=1e-24)
        assert (found.minimum[row], found.maximum[row]) == (values.min(), values.max())
        if len(values) > 1:
            assert found.variance[row] == pytest.approx(values.var(ddof=1), abs=1e-15, rel=1e-12)
        else:
            assert np.isnan(found.variance[row])


@given(BATCH, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter_to_count_mean_and_variance(
    batch: list[tuple[int, float]], random: Any
) -> None:
    shuffled = list(batch)
    random.shuffle(shuffled)
    one, other = (table_of([values]).read(list(range(5))) for values in (batch, shuffled))
    # To the bit, but for the spread.
    assert one.n.tolist() == other.n.tolist()
    assert one.mean.tolist() == other.mean.tolist()
    assert (one.minimum.tolist(), one.maximum.tolist()) == (other.minimum.tolist(), other.maximum.tolist())
    np.testing.assert_allclose(one.m2, other.m2, rtol=0, atol=1e-12)


@given(BATCH, st.integers(0, 60))
def test_merging_equals_having_all_values_in_one(batch: list[tuple[int, float]], cut: int) -> None:
    whole, left, right = (table_of([part]) for part in (batch, batch[:cut], batch[cut:]))
    apart = table_of([batch[:cut]])
    for row in range(5):
        left.merge(row, right, row)
    merged, expected = left.read(list(range(5))), whole.read(list(range(5)))
    assert merged.n.tolist() == expected.n.tolist()
    assert merged.mean.tolist() == expected.mean.tolist()
    assert (merged.minimum.tolist(), merged.maximum.tolist()) == (expected.minimum.tolist(), expected.maximum.tolist())
    np.testing.assert_allclose(merged.m2, expected.m2, rtol=0, atol=1e-12)
    # The intrinsic time is the sum of both: each value predicted within its own part.
    parts = [apart.read(list(range(5))).v, right.read(list(range(5))).v]
    np.testing.assert_allclose(merged.v, sum(parts), rtol=1e-12)


@given(BATCH, st.integers(0, 60))
def test_pooling_rows_equals_having_their_values_in_one(batch: list[tuple[int, float]], cut: int) -> None:
    both = MomentTable()
    for _ in range(10):
        both.add_row()
    for offset, part in ((0, batch[:cut]), (5, batch[cut:])):
        both.update(
            np.array([offset + row for row, _ in part], dtype=np.intp), np.array([value for _, value in part], float)
        )
    order = np.array([index for row in range(5) for index in (row, row + 5)])
    pooled, expected = both.pooled(order, np.arange(0, 10, 2)), table_of([batch]).read(list(range(5)))
    assert pooled.n.tolist() == expected.n.tolist()
    assert pooled.mean.tolist() == expected.mean.tolist()
    np.testing.assert_allclose(pooled.m2, expected.m2, rtol=0, atol=1e-12)


@given(BATCH)
def test_a_row_survives_as_bytes_exactly(batch: list[tuple[int, float]]) -> None:
    table = table_of([batch])
    copy = MomentTable()
    for row in range(5):
        copy.add_row()
        copy.load(row, table.to_bytes(row))
        assert copy.to_bytes(row) == table.to_bytes(row)


@pytest.mark.parametrize("data", [b"", b"\x01" + bytes(104), b"\x02" * 10])
def test_bytes_of_another_version_are_refused(data: bytes) -> None:
    table = MomentTable()
    table.add_row()
    with pytest.raises(ValueError, match="version"):
        table.load(0, data)


def test_a_constant_has_no_variance_even_after_many_values() -> None:
    table = MomentTable()
    table.update(np.full(300_000, table.add_row()), np.full(300_000, 0.1))
    found = table.read([0])
    assert found.mean[0] == 0.1
    assert found.variance[0] == pytest.approx(0, abs=1e-30)


def test_a_spread_far_smaller_than_the_mean_is_kept() -> None:
    table = MomentTable()
    values = 0.9 + 1e-9 * np.random.default_rng(1).standard_normal(5000)
    table.update(np.full(5000, table.add_row()), values)
    assert table.read([0]).variance[0] == pytest.approx(values.var(ddof=1), rel=1e-5)


def test_a_billion_values_lose_no_precision() -> None:
    """Merged by doubling: 2^30 times the same thousand values, whose mean no double sum of them would keep."""
    values = np.random.default_rng(2).beta(4, 2, 1000)
    table = MomentTable()
    table.update(np.full(1000, table.add_row()), values)
    once = table.read([0])
    for _ in range(30):
        table.merge(0, table, 0)
    found = table.read([0])
    assert found.n[0] == 1000 * 2**30
    assert found.mean[0] == once.mean[0] == math.fsum(values) / 1000
    assert found.m2[0] == pytest.approx(2**30 * once.m2[0], rel=1e-12)
    assert found.v[0] == pytest.approx(2**30 * once.v[0], rel=1e-12)
    # And one more still counts.
    table.update(np.array([0]), np.array([1.0]))
    after = table.read([0])
    assert after.n[0] == 1000 * 2**30 + 1
    exact = Fraction(1) + 2**30 * sum(map(Fraction, values.tolist()))
    assert after.mean[0] == pytest.approx(float(exact / (1000 * 2**30 + 1)), rel=3e-16)


def test_a_value_outside_the_range_is_refused_and_nothing_is_added() -> None:
    for wrong in (1.0000001, -0.1, float("nan")):
        table = table_of([[(0, 0.5)]])
        with pytest.raises(ValueError, match="not in"):
            table.update(np.array([0, 0]), np.array([0.25, wrong]))
        assert table.n(0) == 1


def test_growing_keeps_what_is_there() -> None:
    table = MomentTable()
    for row in range(500):
        table.add_row()
        table.update(np.array([row]), np.array([row / 500]))
    found = table.read(list(range(500)))
    assert found.mean.tolist() == pytest.approx([row / 500 for row in range(500)], abs=1e-20)
    assert np.all(found.n == 1)


def test_the_recent_mean_follows_the_last_values() -> None:
    table = MomentTable()
    row = np.array([table.add_row()], dtype=np.intp)
    for value in [1.0] * 300 + [0.0] * 300:
        table.update(row, np.array([value]))
    assert table.recent(0) < 0.001
    assert table.read([0]).mean[0] == 0.5


def test_the_first_value_of_a_row_is_predicted_by_the_guess() -> None:
    table = MomentTable()
    row = np.array([table.add_row()])
    assert table.update(row, np.array([0.8]), np.array([0.7])).tolist() == [0.7]
    assert table.read([0]).v[0] == pytest.approx(0.01)
    assert table.update(row, np.array([0.6])).tolist() == [0.8]


def test_a_cleared_row_is_a_new_one() -> None:
    table = table_of([[(0, 0.5), (0, 0.75)]])
    table.clear(0)
    assert table.to_bytes(0) == table_of([]).to_bytes(0)


def test_what_has_no_highest_value_may_be_above_one() -> None:
    table = MomentTable(bounded=False)
    table.update(np.full(3, table.add_row()), np.array([0.5, 2.5, 1e6]))
    assert table.read([0]).mean[0] == pytest.approx(1000003 / 3)
    with pytest.raises(ValueError, match="not in"):
        table.update(np.array([0]), np.array([np.inf]))
