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
from ragtide_aggregator.statistics.intervals.running import boundary, running_half_width, running_interval
from ragtide_aggregator.statistics.means.moments import MomentTable

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "stats_golden" / "intervals.json").read_text())["cases"]

VALUES = arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1))


@for_each("case", GOLDEN)
def test_the_running_sequence_equals_the_golden_values(case: dict[str, Any]) -> None:
    found = confidence_sequence("running", case["x"], confidence=1 - case["alpha"], v_opt=case["running_mean_v_opt"])
    at = np.array(case["at"]) - 1
    np.testing.assert_allclose(found[at], case["running_mean"], rtol=0, atol=1e-9)


@given(VALUES)
def test_the_state_gives_the_interval_of_the_sequence_at_every_prefix(values: np.ndarray[Any, Any]) -> None:
    sequence = confidence_sequence("running", values)
    table = MomentTable()
    row = np.array([table.add_row()])
    moments = []
    for value in values:
        table.update(row, np.array([value]))
        seen = table.read([0])
        moments.append((seen.mean[0], seen.n[0], seen.v[0]))
    ends = running_interval(*np.transpose(moments), confidence=0.95)
    np.testing.assert_allclose(np.transpose(ends), sequence, rtol=0, atol=1e-9)


def miss_rate(values: np.ndarray[Any, Any], truth: np.ndarray[Any, Any], confidence: float) -> float:
    """Return the share of runs (rows) whose interval ever misses the running mean of the true means."""
    n = np.arange(1, values.shape[1] + 1)
    mean = np.cumsum(values, axis=1) / n
    before = np.concatenate([np.full((len(values), 1), 0.5), mean[:, :-1]], axis=1)
    v = np.cumsum((values - before) ** 2, axis=1)
    lower, upper = running_interval(mean, np.broadcast_to(n, mean.shape), v, confidence=confidence)
    target = np.cumsum(truth) / n
    return float(np.mean(np.any((target < lower - 1e-12) | (target > upper + 1e-12), axis=1)))


RUNS, LENGTH = 400, 2000
STILL = np.ones(LENGTH)
MOVING = np.where(np.arange(LENGTH) < LENGTH // 2, 0.9, 0.4)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "truth"),
    [("bernoulli", 0.5 * STILL), ("bernoulli", 0.9 * STILL), ("beta", 2 / 3 * STILL), ("bernoulli", MOVING)],
    ids=["bernoulli 0.5", "bernoulli 0.9", "beta 4,2", "bernoulli 0.9 then 0.4"],
)
def test_looking_after_every_item_misses_in_at_most_alpha_of_the_runs(name: str, truth: np.ndarray[Any, Any]) -> None:
    rng = np.random.default_rng(20261121)
    values = rng.beta(4, 2, (RUNS, LENGTH)) if name == "beta" else (rng.random((RUNS, LENGTH)) < truth).astype(float)
    # At 80% confidence, where a wrong boundary shows with 400 runs; measured rates are far below alpha.
    assert miss_rate(values, truth, 0.8) <= 0.2


def test_looking_at_a_normal_interval_after_every_item_misses_in_most_runs() -> None:
    rng = np.random.default_rng(20261121)
    values = (rng.random((RUNS, LENGTH)) < 0.9).astype(float)
    n = np.arange(1, LENGTH + 1)
    mean = np.cumsum(values, axis=1) / n
    half_width = 1.96 * np.sqrt(mean * (1 - mean) / n)
    missed = np.any((np.abs(mean - 0.9) > half_width)[:, 30:], axis=1)
    assert np.mean(missed) > 0.4


@pytest.mark.parametrize(
    ("alpha_side", "v_opt", "v", "expected"),
    [
        (0.025, 25, 0, 6.7447437465810448),
        (0.025, 25, 1, 7.6032657429576979),
        (0.025, 25, 25, 18.435985462028615),
        (0.025, 25, 10_000, 384.17144817405335),
        (0.05, 25, 400, 65.253499960722624),
        (0.005, 100, 400, 78.084212418570325),
    ],
)
def test_the_boundary_is_where_the_mixture_of_bets_is_worth_one_over_alpha(
    alpha_side: float, v_opt: float, v: float, expected: float
) -> None:
    # Roots at 40 digits by mpmath; its quadrature of the mixture itself gives 1 / alpha_side there to 15 digits.
    assert boundary(v, alpha_side=alpha_side, v_opt=v_opt) == pytest.approx(expected, rel=1e-12)


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1e9)))
def test_a_boundary_does_not_depend_on_what_else_was_asked_for(v: np.ndarray[Any, Any]) -> None:
    together = boundary(v, alpha_side=0.025)
    assert together.tolist() == [float(boundary(one, alpha_side=0.025)) for one in v]


def test_an_interval_is_its_half_width_on_each_side_and_ends_at_the_range() -> None:
    half_width = running_half_width([400, 400], [60.0, 60.0], confidence=0.95)
    lower, upper = running_interval([0.5, 0.99], [400, 400], [60.0, 60.0], confidence=0.95)
    assert (lower[0], upper[0]) == pytest.approx((0.5 - half_width[0], 0.5 + half_width[0]))
    assert upper[1] == 1.0


@pytest.mark.parametrize(
    ("n", "v", "words"),
    [
        ([0], [1.0], "an n is below 1"),
        ([float("nan")], [1.0], "an n is below 1"),
        ([5], [-1.0], "a v is below 0"),
        ([5], [float("nan")], "a v is below 0"),
        ([5], [float("inf")], "a v is below 0"),
    ],
)
def test_a_state_that_cannot_be_is_refused(n: list[float], v: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        running_interval([0.5], n, v, confidence=0.95)


def test_the_boundary_is_finite_and_rising_over_eighteen_orders_of_magnitude() -> None:
    v = np.concatenate([[0.0], np.geomspace(1e-6, 1e12, 80)])
    n = np.full(v.shape, 1e15)
    lower, upper = running_interval(np.full(v.shape, 0.5), n, v, confidence=0.95)
    width = (upper - lower) * n
    assert np.all(np.isfinite(width))
    assert np.all(np.diff(width) >= -1e-6)


@pytest.mark.parametrize("confidence", [1e-6, 0.5, 1 - 1e-12])
def test_any_confidence_level_has_an_interval(confidence: float) -> None:
    ends = confidence_sequence("running", [0.2, 0.8] * 50, confidence=confidence)
    assert np.all(ends[:, 0] <= 0.51)
    assert np.all(ends[:, 1] >= 0.49)


def test_other_ranges_are_scaled() -> None:
    unit = confidence_sequence("running", [0.25, 0.75] * 20)
    scaled = confidence_sequence("running", [-5.0, 5.0] * 20, value_range=(-10, 10))
    np.testing.assert_allclose(scaled, -10 + 20 * unit, atol=1e-9)


def test_no_values_have_no_intervals() -> None:
    assert confidence_sequence("running", []).shape == (0, 2)


@for_each(
    "arguments, words",
    [
        ({"name": "betting2"}, "running, empirical_bernstein"),
        ({"name": "empirical_bernstein", "confidence": float("nan")}, "confidence is nan"),
        ({"v_opt": float("nan")}, "v_opt is nan"),
        ({"v_opt": 0.0}, r"v_opt is 0\.0"),
        ({"population": float("nan")}, "population is nan"),
        ({"values": [0.5, float("nan")]}, r"values\[1\] is nan"),
        ({"values": [0.5, 1.5]}, r"values\[1\] is 1.5"),
        ({"values": [[0.5]]}, "2 dimensions"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"population": 1, "values": [0.1, 0.2]}, "population is 1"),
        ({"value_range": (1, 0)}, "value_range"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"name": "running", "values": [0.5], **arguments}
    with pytest.raises(ValueError, match=words):
        confidence_sequence(given.pop("name"), given.pop("values"), **given)
