from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.comparisons.assignment import AssignmentTable
from ragtide_aggregator.statistics.comparisons.comparing import difference
from ragtide_aggregator.statistics.means.moments import MomentTable

Array = np.ndarray[Any, Any]


def table_with(rows: int, features: int, least_share: float = 0.5) -> AssignmentTable:
    table = AssignmentTable(features, least_share=least_share)
    for _ in range(rows):
        table.add_row()
    return table


def drawn(seed: int, n: int, rows: int = 1, share: float = 0.5) -> tuple[Array, Array, Array, Array, Array]:
    """Return rows, coins, shares, scores of which that of a is 0.1 higher, and features."""
    rng = np.random.default_rng(seed)
    z = rng.random((n, 1))
    to_a = rng.random(n) < share
    x = np.clip(0.2 + 0.5 * z[:, 0] + 0.1 * to_a + 0.05 * rng.standard_normal(n), 0, 1)
    return rng.integers(rows, size=n), to_a, np.full(n, share), x, z


def test_the_estimate_is_the_mean_of_the_augmented_differences() -> None:
    rows, to_a, shares, x, _ = drawn(1, 300)
    table = table_with(1, 0)
    table.update(rows, to_a, shares, x, np.zeros((300, 0)))
    differences = []
    for number in range(300):
        a, b = x[:number][to_a[:number]], x[:number][~to_a[:number]]
        f_a, f_b = (side.mean() if side.size else 0.5 for side in (a, b))
        rest = (x[number] - f_a) / 0.5 if to_a[number] else -(x[number] - f_b) / 0.5
        differences.append(f_a - f_b + rest)
    found = table.read(np.array([0]), confidence=0.95)
    np.testing.assert_allclose(found.estimate, np.mean(differences), atol=1e-12)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(cuts: list[int], seed: int) -> None:
    items = drawn(seed, 100, rows=3)
    whole, cut = table_with(3, 1), table_with(3, 1)
    whole.update(*items)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 100], strict=True):
        stored = table_with(3, 1)
        for row in range(3):
            stored.load(row, cut.to_bytes(row))
        cut = stored
        cut.update(*(part[start:end] for part in items))
    assert [cut.to_bytes(row) for row in range(3)] == [whole.to_bytes(row) for row in range(3)]
    ends = [np.array(astuple(one.read(np.arange(3), confidence=0.9))) for one in (whole, cut)]
    assert ends[0].tobytes() == ends[1].tobytes()


def test_one_interval_is_narrower_than_two_and_covariates_make_it_narrower_still() -> None:
    rows, to_a, shares, x, z = drawn(5, 3000)
    table, plain, moments = table_with(1, 1), table_with(1, 0), MomentTable()
    pair = [moments.add_row(), moments.add_row()]
    moments.update(np.where(to_a, *pair), x)
    two = difference(moments.read(pair[:1]), moments.read(pair[1:]), confidence=0.95)
    plain.update(rows, to_a, shares, x, np.zeros((3000, 0)))
    table.update(rows, to_a, shares, x, z)
    without, found = (one.read(np.array([0]), confidence=0.95) for one in (plain, table))
    widths = [two.upper - two.lower, *(float(one.upper[0] - one.lower[0]) for one in (without, found))]
    assert widths[1] < 0.75 * widths[0]
    assert widths[2] < 0.5 * widths[1]
    assert found.lower[0] < 0.1 < found.upper[0]


def test_without_items_nothing_is_known() -> None:
    found = table_with(1, 2).read(np.array([0]), confidence=0.95)
    assert np.isnan(found.estimate[0])
    assert (found.lower[0], found.upper[0]) == (-1, 1)


def test_what_is_out_of_range_is_refused_and_nothing_is_added() -> None:
    table = table_with(1, 1, least_share=0.2)
    rows, to_a, shares, x, z = (part[:2] for part in drawn(6, 2))
    coins = np.array([True, False])
    for wrong in (
        (rows, coins, np.array([0.5, 0.1]), x, z),
        (rows, coins, shares, np.array([0.5, 1.5]), z),
        (rows, coins, shares, x, z + 1),
    ):
        with pytest.raises(ValueError, match=r"shares holds|a value is not in"):
            table.update(*wrong)
    assert table.to_bytes(0) == table_with(1, 1, least_share=0.2).to_bytes(0)
    with pytest.raises(ValueError, match="least_share"):
        AssignmentTable(1, least_share=0.6)
    with pytest.raises(ValueError, match="confidence"):
        table.read(np.array([0]), confidence=1.0)
    for data in (b"", table_with(1, 1).to_bytes(0), b"\x09" + table.to_bytes(0)[1:]):
        with pytest.raises(ValueError, match=r"bytes|share"):
            table.load(0, data)
    assert to_a.size == 2


RUNS, LENGTH, ALPHA = 300, 600, 0.2


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("share", "strength"),
    [(0.1, 0.4), *(pytest.param(*one, marks=pytest.mark.heavy) for one in ((0.5, 0.0), (0.5, 0.4), (0.1, 0.0)))],
)
def test_the_interval_holds_for_the_difference_also_when_the_model_is_wrong(share: float, strength: float) -> None:
    """Pipeline a is 0.05 worse throughout. In the middle both fall, and the meaning of the feature turns around."""
    rng = np.random.default_rng((int(100 * share), int(10 * strength)))
    table = table_with(RUNS, 1, least_share=share)
    rows, missed = np.arange(RUNS), np.zeros(RUNS, dtype=bool)
    for number in range(LENGTH):
        z = (rng.random(RUNS) < 0.5).astype(float)
        middle, side = (0.75, strength) if number < LENGTH / 2 else (0.3, -strength)
        to_a = rng.random(RUNS) < share
        mean = middle + side * (z - 0.5) - np.where(to_a, 0.05, 0.0)
        table.update(rows, to_a, np.full(RUNS, share), (rng.random(RUNS) < mean).astype(float), z[:, None])
        found = table.read(rows, confidence=1 - ALPHA)
        missed |= (found.lower > -0.05) | (found.upper < -0.05)
    assert missed.mean() <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)
    # A biased estimate would be far off by now.
    error = 1 / np.sqrt(share * LENGTH * RUNS)
    assert abs(found.estimate.mean() + 0.05) < 4 * error
