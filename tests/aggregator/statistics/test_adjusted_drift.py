"""Drift within segments: a change of the mix raises no alarm, a change within segments does, and the mean ignores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide import DriftDetector
from ragtide_aggregator.statistics.drift.adjusted_drift import AdjustedDetector, CommonScale
from ragtide_aggregator.statistics.drift.drift import DetectorTable

SHARES, MEANS = np.array([0.15, 0.85]), np.array([0.5, 0.92])
NAMES = ("de", "en")


def drawn(rng: np.random.Generator, n: int, shares: list[float], fall: float = 0.0) -> tuple[list[float], list[str]]:
    segments = rng.choice(2, n, p=shares)
    values = (rng.random(n) < MEANS[segments] - fall) * 1.0
    return values.tolist(), [NAMES[one] for one in segments]


def detector(run_length: float = 10_000) -> AdjustedDetector:
    return AdjustedDetector(baselines=dict(zip(NAMES, MEANS.tolist(), strict=True)), run_length=run_length)


def test_with_one_segment_it_is_the_detector_of_all_values() -> None:
    rng = np.random.default_rng(1)
    for direction in ("fall", "rise", "both"):
        values = rng.beta(4, 2, 400) * (0.5 if direction == "fall" else 1.0)
        plain = DriftDetector(baseline=0.6, direction=direction, min_effect=0.02, run_length=500)
        adjusted = AdjustedDetector(baselines={"en": 0.6}, direction=direction, min_effect=0.02, run_length=500)
        alarm = plain.update(values)
        assert alarm is not None
        assert adjusted.update(values, ["en"] * values.size) == alarm


def test_a_campaign_alarms_the_mean_of_all_and_not_the_adjusted_detector() -> None:
    rng = np.random.default_rng(2)
    values, segments = drawn(rng, 600, [0.7, 0.3])
    assert (DriftDetector(baseline=float(SHARES @ MEANS)).update(values) or 600) < 150
    assert detector().update(values, segments) is None


def test_a_fall_within_segments_alarms_as_soon_as_the_mean_of_all_does() -> None:
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(10):
        values, segments = drawn(rng, 2_000, [0.15, 0.85], fall=0.1)
        delays.append(
            (DriftDetector(baseline=float(SHARES @ MEANS)).update(values), detector().update(values, segments))
        )
    plain, adjusted = np.array(delays, dtype=np.float64).mean(axis=0)
    assert adjusted < 1.1 * plain


def test_a_fall_hidden_by_a_better_mix_alarms() -> None:
    rng = np.random.default_rng(4)
    values, segments = drawn(rng, 2_000, [0.01, 0.99], fall=0.06)
    assert abs(float(np.mean(values)) - float(SHARES @ MEANS)) < 0.03
    assert (detector().update(values, segments) or 2_000) < 1_500


@pytest.mark.simulation
def test_the_run_length_holds_while_the_mix_swings() -> None:
    """A run length of 200 with shares that move all the time; 400 runs, cut at 1,000."""
    rng = np.random.default_rng(5)
    runs, n = 400, 1_000
    scale = CommonScale.of(MEANS)
    table = DetectorTable()
    for _ in range(runs):
        table.configure(table.add_row(), limit=scale.limit, direction="fall", run_length=200)
    swing = 0.5 + 0.45 * np.sin(np.arange(n) / 40)
    segments = (rng.random((runs, n)) > swing).astype(np.intp)
    scores = (rng.random((runs, n)) < MEANS[segments]).astype(np.float64)
    values = scale.values(scores, MEANS[segments])
    alarms, _ = table.update(np.repeat(np.arange(runs), n), values.ravel(), np.zeros(runs * n, dtype=np.int64))
    first = np.full(runs, n)
    for alarm in alarms:
        first[alarm.row] = alarm.position % n + 1
    mean, error = first.mean(), first.std() / runs**0.5
    assert mean + 2.5 * error > 200


@settings(max_examples=30)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6), st.floats(0, 1))
def test_the_common_scale_keeps_values_in_range_and_moves_means_at_the_limit_to_its_limit(
    limits: list[float], share: float
) -> None:
    scale = CommonScale.of(limits)
    assert 0 < scale.limit < 1
    at = np.array(limits)
    ends = [scale.limit + scale.factor * (x - at) for x in (0.0, 1.0)]
    assert min(one.min() for one in ends) > -1e-12
    assert max(one.max() for one in ends) < 1 + 1e-12
    low, high = (scale.values(np.full(at.size, x), at) for x in (0.0, 1.0))
    np.testing.assert_allclose((1 - at) * low + at * high, scale.limit, atol=1e-12)
    assert scale.values(np.array([share]), np.array([np.nan]))[0] == pytest.approx(scale.limit)


def test_values_of_unknown_segments_bet_nothing() -> None:
    one = detector()
    assert one.update([0.0] * 500, ["fr"] * 500) is None
    assert one.update([0.0] * 60, ["en"] * 60) is not None


def test_values_may_come_in_any_batches_and_sessions_count_as_clusters() -> None:
    rng = np.random.default_rng(6)
    values, segments = drawn(rng, 400, [0.15, 0.85], fall=0.2)
    whole = detector(1_000).update(values, segments)
    parts = detector(1_000)
    found = [parts.update(values[at : at + 7], segments[at : at + 7]) for at in range(0, 400, 7)]
    first = next(place for place, one in enumerate(found) if one is not None)
    assert whole == 7 * first + (found[first] or 0)
    assert detector(1_000).update([0.2] * 30, ["en"] * 30, sizes=[5] * 30) is not None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baselines": {}}, "baselines is empty"),
        ({"baselines": {"de": 0.01, "en": 0.9}, "min_effect": 0.02}, "never sound for de"),
        ({"baselines": {"de": 0.5}, "direction": "down"}, "use fall, rise or both"),
        ({"baselines": {"de": 0.5}, "min_effect": -1.0}, "give 0 or more"),
    ],
)
def test_mistakes_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdjustedDetector(**fields)  # type: ignore[arg-type]


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        detector().update([1.0, 0.0], ["de"])
    with pytest.raises(ValueError, match="whole number"):
        detector().update([1.0], ["de"], sizes=[0])
