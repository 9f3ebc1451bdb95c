"""Drift within segments: a change of the mix raises no alarm, a change within segments does, and the mean ignores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragtide import DriftDetector
from ragtide_aggregator.statistics.drift.adjusted_drift import CommonScale
from ragtide_aggregator.statistics.drift.drift import DetectorTable

SHARES, MEANS = np.array([0.15, 0.85]), np.array([0.5, 0.92])
SCALE = CommonScale.of(0.5, 0.92)

Floats = NDArray[np.float64]


def drawn(rng: np.random.Generator, n: int, shares: list[float], fall: float = 0.0) -> tuple[Floats, Floats]:
    """Return yes or no scores of two segments, and the limit of each."""
    segments = rng.choice(2, n, p=shares)
    scores: Floats = (rng.random(n) < MEANS[segments] - fall).astype(np.float64)
    return scores, MEANS[segments]


def first_alarm(values: Floats, limits: Floats, run_length: float = 10_000) -> int | None:
    """Return the place of the first alarm of a rule's detector, as `RuleEvaluator` gives it values and limits."""
    table = DetectorTable()
    row = table.add_row()
    table.configure(row, limit=0.5, direction="fall", run_length=run_length)
    given = np.full(values.size, float(SCALE.limit))
    rows, tags = np.full(values.size, row), np.arange(values.size)
    alarms, _ = table.update(rows, SCALE.values(values, limits), tags, limits=given)
    return alarms[0].position if alarms else None


def test_with_one_segment_the_values_are_those_of_a_plain_detector() -> None:
    scale = CommonScale.of(0.6, 0.6)
    values = np.random.default_rng(1).random(50)
    np.testing.assert_allclose(scale.values(values, np.full(50, 0.6)), values, atol=1e-15)
    assert float(scale.limit) == 0.6
    assert float(scale.factor) == 1.0


def test_a_campaign_alarms_the_mean_of_all_and_not_the_detector_with_a_limit_for_each_segment() -> None:
    values, limits = drawn(np.random.default_rng(2), 600, [0.7, 0.3])
    assert (DriftDetector(baseline=float(SHARES @ MEANS)).update(values) or 600) < 150
    assert first_alarm(values, limits) is None


def test_a_fall_within_segments_alarms_as_soon_as_the_mean_of_all_does() -> None:
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(10):
        values, limits = drawn(rng, 2_000, [0.15, 0.85], fall=0.1)
        delays.append((DriftDetector(baseline=float(SHARES @ MEANS)).update(values), first_alarm(values, limits)))
    plain, adjusted = np.array(delays, dtype=np.float64).mean(axis=0)
    assert adjusted < 1.1 * plain


def test_a_fall_hidden_by_a_better_mix_alarms() -> None:
    values, limits = drawn(np.random.default_rng(4), 2_000, [0.01, 0.99], fall=0.06)
    assert abs(float(np.mean(values)) - float(SHARES @ MEANS)) < 0.03
    assert (first_alarm(values, limits) or 2_000) < 1_500


@pytest.mark.simulation
def test_the_run_length_holds_while_the_mix_swings() -> None:
    """A run length of 200 with shares that move all the time; 400 runs, cut at 1,000."""
    rng = np.random.default_rng(5)
    runs, n = 400, 1_000
    table = DetectorTable()
    for _ in range(runs):
        table.configure(table.add_row(), limit=float(SCALE.limit), direction="fall", run_length=200)
    swing = 0.5 + 0.45 * np.sin(np.arange(n) / 40)
    segments = (rng.random((runs, n)) > swing).astype(np.intp)
    scores = (rng.random((runs, n)) < MEANS[segments]).astype(np.float64)
    values = SCALE.values(scores, MEANS[segments])
    alarms, _ = table.update(np.repeat(np.arange(runs), n), values.ravel(), np.zeros(runs * n, dtype=np.int64))
    first = np.full(runs, n)
    for alarm in alarms:
        first[alarm.row] = alarm.position % n + 1
    mean, error = first.mean(), first.std() / runs**0.5
    assert mean + 2.5 * error > 200


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6))
def test_the_common_scale_keeps_values_in_range_and_moves_means_at_the_limit_to_its_limit(limits: list[float]) -> None:
    at = np.array(limits)
    scale = CommonScale.of(at.min(), at.max())
    assert 0 < scale.limit < 1
    ends = [scale.limit + scale.factor * (x - at) for x in (0.0, 1.0)]
    assert min(end.min() for end in ends) > -1e-12
    assert max(end.max() for end in ends) < 1 + 1e-12
    low, high = (scale.values(np.full(at.size, x), at) for x in (0.0, 1.0))
    np.testing.assert_allclose((1 - at) * low + at * high, scale.limit, atol=1e-12)
