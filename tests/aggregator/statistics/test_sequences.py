import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.support.cases import for_each

from ragtide import confidence_sequence

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "stats_golden" / "intervals.json").read_text())["cases"]

NAME = st.sampled_from(["running", "empirical_bernstein"])
VALUES = arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1))


@for_each("case", GOLDEN)
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


@pytest.mark.parametrize("name", ["running", "empirical_bernstein"])
def test_no_values_have_no_intervals(name: str) -> None:
    assert confidence_sequence(name, []).shape == (0, 2)
