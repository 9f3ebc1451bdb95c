import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ragtide import confidence_sequence

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "stats_golden" / "intervals.json").read_text())["cases"]

NAME = st.sampled_from(["running", "empirical_bernstein"])
VALUES = arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['name']}-{case['alpha']}")
def test_the_empirical_bernstein_sequence_equals_the_golden_values(case: dict[str, Any]) -> None:
    found = confidence_sequence("empirical_bernstein", case["x"], confidence=1 - case["alpha"])
    at = np.array(case["at"]) - 1
    np.testing.assert_allclose(found[at], case["empirical_bernstein"], rtol=0, atol=1e-9)


@given(name=NAME, values=VALUES)
def test_a_value_changes_no_interval_before_it(name: str, values: np.ndarray[Any, Any]) -> None:
    half = len(values) // 2
    whole, beginning = confidence_sequence(name, values), confidence_sequence(name, values[:half])
    np.testing.assert_allclose(whole[:half], beginning, rtol=0, atol=1e-12)


@given(name=NAME, values=VALUES)
def test_mirrored_values_have_mirrored_intervals(name: str, values: np.ndarray[Any, Any]) -> None:
    mirrored = confidence_sequence(name, 1 - values)
    np.testing.assert_allclose(1 - mirrored[:, ::-1], confidence_sequence(name, values), rtol=0, atol=1e-9)


@given(name=NAME, values=VALUES)
def test_a_range_scales_the_intervals(name: str, values: np.ndarray[Any, Any]) -> None:
    scaled = confidence_sequence(name, -8 + 16 * values, value_range=(-8, 8))
    np.testing.assert_allclose(scaled, -8 + 16 * confidence_sequence(name, values), rtol=0, atol=1e-9)


@pytest.mark.parametrize("draw", ["bernoulli 0.9", "beta 4,2"])
def test_the_empirical_bernstein_sequence_misses_a_still_mean_in_at_most_alpha_of_the_runs(draw: str) -> None:
    rng, runs, length = np.random.default_rng(20261121), 400, 2000
    bernoulli = draw == "bernoulli 0.9"
    values = (rng.random((runs, length)) < 0.9).astype(float) if bernoulli else rng.beta(4, 2, (runs, length))
    mean = 0.9 if bernoulli else 2 / 3
    # At 80% confidence, where a wrong sequence shows with 400 runs.
    ends = [confidence_sequence("empirical_bernstein", run, confidence=0.8) for run in values]
    missed = [bool(np.any((found[:, 0] > mean) | (found[:, 1] < mean))) for found in ends]
    assert np.mean(missed) <= 0.2


@pytest.mark.parametrize("name", ["running", "empirical_bernstein"])
def test_no_values_have_no_intervals(name: str) -> None:
    assert confidence_sequence(name, []).shape == (0, 2)
