from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_aggregator.statistics.comparisons.covariates import MOST_FEATURES, REFITS, RIDGE, CovariateTable
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.pairs.prediction_powered import Everything, PairTable

Array = np.ndarray[Any, Any]


def table_with(rows: int, features: int) -> CovariateTable:
    table = CovariateTable(features)
    for _ in range(rows):
        table.add_row()
    return table


def drawn(seed: int, n: int, features: int, rows: int = 1) -> tuple[Array, Array, Array]:
    """Return rows, values that depend on the first feature, and features."""
    rng = np.random.default_rng(seed)
    z = rng.random((n, features))
    x = np.clip(0.2 + 0.6 * z[:, 0] + 0.1 * rng.standard_normal(n), 0, 1)
    return rng.integers(rows, size=n), x, z


def one_by_one(x: Array, z: Array) -> tuple[Array, Array, Array]:
    """Return predictions, and errors of plain means and fitted slopes, as the definition says."""
    slopes = fitted = np.zeros(z.shape[1])
    predictions, plain, sloped = np.empty((3, x.size))
    errors = np.zeros(2)
    for n in range(x.size):
        if n in REFITS:
            centered = z[:n] - z[:n].mean(axis=0)
            fitted = np.linalg.solve(centered.T @ centered + RIDGE * np.eye(z.shape[1]), centered.T @ x[:n])
            slopes = fitted if errors[1] < errors[0] else np.zeros(z.shape[1])
        plain[n] = x[:n].mean() if n else 0.5
        apart = z[n] - (z[:n].mean(axis=0) if n else 0)
        predictions[n], sloped[n] = (float(np.clip(plain[n] + b @ apart, 0, 1)) for b in (slopes, fitted))
        errors += (x[n] - plain[n]) ** 2, (x[n] - sloped[n]) ** 2
    return predictions, (x - plain) ** 2, (x - sloped) ** 2


@pytest.mark.parametrize("features", [1, 3, MOST_FEATURES])
def test_predictions_are_those_of_a_ridge_regression_on_the_past(features: int) -> None:
    rows, x, z = drawn(features, 150, features)
    table = table_with(1, features)
    expected, plain, _ = one_by_one(x, z)
    found = table.update(rows, x, z)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    times = table.times(np.array([0]))
    np.testing.assert_allclose(times, [[plain.sum()], [((x - expected) ** 2).sum()]], rtol=1e-9)
    assert times[1] < 0.6 * times[0]


@given(st.lists(st.integers(0, 120), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_cutting_into_batches_and_storing_in_between_changes_no_bit(cuts: list[int], seed: int) -> None:
    rows, x, z = drawn(seed, 120, 2, rows=3)
    whole, cut = table_with(3, 2), table_with(3, 2)
    expected = whole.update(rows, x, z)
    found = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 120], strict=True):
        stored = table_with(3, 2)
        for row in range(3):
            stored.load(row, cut.to_bytes(row))
        cut = stored
        found.append(cut.update(rows[start:end], x[start:end], z[start:end]))
    assert np.concatenate(found).tobytes() == expected.tobytes()
    assert [cut.to_bytes(row) for row in range(3)] == [whole.to_bytes(row) for row in range(3)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 80))
def test_values_that_are_only_predicted_leave_the_state_as_it_is(seed: int, n: int) -> None:
    rows, x, z = drawn(seed, n, 2, rows=2)
    seen = np.random.default_rng(seed + 1).random(n) < 0.5
    some, only = table_with(2, 2), table_with(2, 2)
    predictions = some.update(rows, np.where(seen, x, 9.0), z, seen)
    assert predictions[seen].tobytes() == only.update(rows[seen], x[seen], z[seen]).tobytes()
    assert [some.to_bytes(row) for row in range(2)] == [only.to_bytes(row) for row in range(2)]


def test_without_features_it_is_the_plain_interval() -> None:
    rows, x, _ = drawn(1, 500, 1, rows=4)
    table, plain = table_with(4, 0), MomentTable()
    for _ in range(4):
        plain.add_row()
    table.update(rows, x, np.zeros((500, 0)))
    plain.update(rows, x)
    moments = plain.read(np.arange(4))
    assert [times.tolist() for times in table.times(np.arange(4))] == [moments.v.tolist()] * 2
    assert table.means(np.arange(4)).tolist() == moments.mean.tolist()
    expected = running_interval(moments.mean, moments.n, moments.v, confidence=0.9)
    assert np.array_equal(table.intervals(np.arange(4), confidence=0.9), expected)


def test_features_that_say_nothing_cost_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    rows, n = 200, 2000
    table = table_with(rows, 5)
    table.update(np.tile(np.arange(rows), n), (rng.random(rows * n) < 0.85).astype(float), rng.random((rows * n, 5)))
    plain, used = table.times(np.arange(rows))
    assert np.mean(used / plain) < 1.005
    assert np.max(used / plain) < 1.03


def test_merging_adds_up() -> None:
    rows, x, z = drawn(3, 400, 2)
    whole, parts = table_with(1, 2), table_with(2, 2)
    whole.update(rows, x, z)
    half = np.repeat([0, 1], 200)
    parts.update(half, x, z)
    times = np.array(parts.times(np.arange(2)))
    parts.merge(0, parts, 1)
    at = np.array([0])
    assert parts.counts(at).tolist() == [400]
    assert parts.means(at).tolist() == whole.means(at).tolist()
    np.testing.assert_allclose(np.array(parts.times(at))[:, 0], times.sum(axis=1), rtol=1e-12)
    # The slopes are those of all values.
    centered = z - z.mean(axis=0)
    expected = np.linalg.solve(centered.T @ centered + RIDGE * np.eye(2), centered.T @ x)
    np.testing.assert_allclose(parts.slopes(at)[0], expected, atol=1e-9)


def test_what_is_out_of_range_is_refused_and_nothing_is_added() -> None:
    table = table_with(1, 1)
    row, value, feature = np.array([0]), np.array([0.5]), np.array([[0.5]])
    for x, z in ((np.array([1.5]), feature), (value, np.array([[np.nan]])), (value, np.zeros((1, 2)))):
        with pytest.raises(ValueError, match=r"a value is not in|features has shape"):
            table.update(row, x, z)
    assert table.counts(row).tolist() == [0]
    with pytest.raises(ValueError, match="features is 9"):
        CovariateTable(9)
    data = table.to_bytes(0)
    for wrong in (b"", b"\x09" + data[1:], data[:-1], table_with(1, 2).to_bytes(0)):
        with pytest.raises(ValueError, match="version"):
            table.load(0, wrong)


RUNS, LENGTH, ALPHA = 300, 600, 0.2


def ever_missed(target: str, strength: float) -> float:
    """Return how many runs ever missed a target: the mean of the questions asked so far, or of all there are."""
    rng = np.random.default_rng(20261122)
    table = table_with(RUNS, 1)
    rows, missed = np.arange(RUNS), np.zeros(RUNS, dtype=bool)
    asked = np.zeros(RUNS)
    for number in range(LENGTH):
        z = (rng.random(RUNS) < 0.5).astype(float)
        # The meaning of the feature turns around in the middle: no model of the past is right then.
        side = strength if number < LENGTH / 2 else -strength
        mean = 0.5 + side * (z - 0.5)
        table.update(rows, (rng.random(RUNS) < mean).astype(float), z[:, None])
        asked += mean
        lower, upper = table.intervals(rows, confidence=1 - ALPHA)
        truth = asked / (number + 1) if target == "asked" else 0.5
        missed |= (truth < lower) | (truth > upper)
    return float(missed.mean())


@pytest.mark.simulation
@pytest.mark.parametrize("strength", [0.0, 0.6, 1.0])
def test_the_interval_holds_for_the_questions_asked_so_far_also_when_the_model_is_wrong(strength: float) -> None:
    assert ever_missed("asked", strength) <= ALPHA + 2 * np.sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.simulation
def test_it_does_not_hold_for_the_mean_over_all_questions() -> None:
    assert ever_missed("all", 1.0) > 2 * ALPHA


@pytest.mark.simulation
def test_as_the_cheap_score_of_a_labeled_part_a_prediction_makes_the_interval_of_the_plain_mean_narrower() -> None:
    """The meaning of the feature turns around after 100 items, so predictions change all the time."""
    rng = np.random.default_rng(8)
    runs, length, judged_share = 200, 1500, 0.2
    table, moments, pairs = table_with(runs, 1), MomentTable(), PairTable()
    for _ in range(runs):
        moments.add_row()
        pairs.add_row()
    rows = np.tile(np.arange(runs), length)
    z = (rng.random(rows.size) < 0.5).astype(float)
    side = np.repeat(np.where(np.arange(length) < 100, -0.4, 0.4), runs)
    x = np.clip(0.5 + side * (z - 0.5) * 2 + 0.1 * rng.standard_normal(rows.size), 0, 1)
    judged = rng.random(rows.size) < judged_share
    predicted = table.update(rows, x, z[:, None], judged)
    moments.update(rows, predicted)
    pairs.update(rows[judged], x[judged], predicted[judged], np.full(int(judged.sum()), judged_share))
    everyone = np.arange(runs)
    powered = pairs.read(everyone, Everything.scored(moments.read(everyone)), confidence=0.95)
    alone = pairs.read(everyone, None, confidence=0.95)
    assert np.mean(np.abs(powered.estimate - 0.5) < 1.96 * powered.standard_error) > 0.9
    assert np.mean(powered.standard_error) < 0.9 * np.mean(alone.standard_error)
    assert abs(powered.estimate.mean() - 0.5) < 4 * powered.standard_error.mean() / np.sqrt(runs)
