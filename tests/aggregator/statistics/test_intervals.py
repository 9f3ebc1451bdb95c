import json
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide import interval
from ragtide_aggregator.statistics.intervals.intervals import (
    finite_population_correction,
    hoeffding_half_width,
    normal_half_width,
    wilson,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "stats_golden" / "intervals.json").read_text())["cases"]
EXACT = 1e-9

SMALL = st.integers(1, 500)
MEAN = st.floats(0, 1)
CONFIDENCE = st.floats(0.01, 0.999)
STRATEGY = st.sampled_from(["normal", "wilson", "hoeffding"])


def golden_rows() -> list[tuple[dict[str, Any], int, float, int | None, dict[str, Any]]]:
    return [
        (case, n, 1 - case["alpha"], None if name == "None" else int(name), values)
        for case in GOLDEN
        for n, by_population in zip(case["at"], case["fixed_n"], strict=True)
        for name, values in by_population.items()
        if name == "None" or int(name) >= n
    ]


def test_fixed_n_intervals_equal_the_golden_values() -> None:
    rows = golden_rows()
    assert len(rows) > 200
    for case, n, confidence, population, golden in rows:
        x = case["x"][:n]
        mean = sum(x) / n
        assert mean == pytest.approx(golden["p"], abs=1e-12)
        how: dict[str, Any] = {"confidence": confidence, "population": population}
        bernoulli = normal_half_width(golden["p"] * (1 - golden["p"]), n, **how)
        assert bernoulli == pytest.approx(golden["normal_bernoulli_halfwidth"], abs=EXACT)
        if golden["normal_sample_halfwidth"] is not None:
            variance = sum((value - mean) ** 2 for value in x) / (n - 1)
            assert normal_half_width(variance, n, **how) == pytest.approx(golden["normal_sample_halfwidth"], abs=EXACT)
        assert wilson(golden["p"], n, **how) == pytest.approx(tuple(golden["wilson"]), abs=EXACT)
        assert hoeffding_half_width(n, **how) == pytest.approx(golden["hoeffding_halfwidth"], abs=EXACT)


@given(strategy=STRATEGY, mean=MEAN, n=SMALL, confidence=CONFIDENCE)
def test_an_interval_contains_its_estimate_and_stays_in_the_range(
    strategy: str, mean: float, n: int, confidence: float
) -> None:
    found = interval(strategy, mean=mean, n=n, confidence=confidence)
    assert 0 <= found.lower <= found.estimate + 1e-12
    assert found.estimate - 1e-12 <= found.upper <= 1


@given(strategy=STRATEGY, mean=MEAN, n=SMALL)
def test_an_interval_closes_when_the_whole_population_was_seen(strategy: str, mean: float, n: int) -> None:
    found = interval(strategy, mean=mean, n=n, population=n)
    assert (found.lower, found.upper) == pytest.approx((mean, mean), abs=1e-12)


@given(strategy=STRATEGY, mean=MEAN, n=st.integers(2, 500), more=st.integers(1, 10_000))
def test_knowing_the_population_never_widens_an_interval(strategy: str, mean: float, n: int, more: int) -> None:
    known = interval(strategy, mean=mean, n=n, population=n + more)
    unknown = interval(strategy, mean=mean, n=n)
    assert known.upper - known.lower <= unknown.upper - unknown.lower + 1e-12


@given(strategy=STRATEGY, mean=MEAN, n=SMALL, lowest=st.floats(-50, 50), width=st.floats(0.5, 100))
def test_scaling_the_values_scales_the_interval(
    strategy: str, mean: float, n: int, lowest: float, width: float
) -> None:
    unit = interval(strategy, mean=mean, n=n, variance=0.04)
    scaled = interval(
        strategy,
        mean=min(max(lowest + width * mean, lowest), lowest + width),
        n=n,
        variance=0.04 * width**2,
        value_range=(lowest, lowest + width),
    )
    expected = (lowest + width * unit.lower, lowest + width * unit.upper)
    assert (scaled.lower, scaled.upper) == pytest.approx(expected, abs=1e-6 * width)


@pytest.mark.parametrize("strategy", ["normal", "wilson", "hoeffding"])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_a_mean_at_the_end_of_the_range_has_an_interval_with_width(strategy: str, mean: float) -> None:
    found = interval(strategy, mean=mean, n=20, population=100)
    assert found.upper - found.lower > 0.05


def test_one_value_has_no_standard_error_of_zero() -> None:
    assert interval("normal", mean=0.5, n=1, variance=0.0).lower == 0.0
    assert interval("normal", mean=0.5, n=1, variance=0.0).upper == 1.0


def test_a_total_is_projected_onto_the_population() -> None:
    mean = interval("normal", mean=0.4, n=50, population=400)
    for strategy in ("normal", "wilson"):  # Wilson falls back to normal
        total = interval(strategy, total=20.0, n=50, population=400)
        expected = (160.0, 400 * mean.lower, 400 * mean.upper)
        assert (total.estimate, total.lower, total.upper) == pytest.approx(expected)


def test_a_total_that_rounding_puts_beyond_the_range_is_taken() -> None:
    total = 0.1 + 0.1 + 0.1
    assert total / 3 > 0.1
    found = interval("normal", total=total, n=3, population=10, value_range=(0.0, 0.1))
    assert found.upper == pytest.approx(1.0)
    assert found.lower < 1.0


@given(strategy=STRATEGY, n=SMALL, more=st.integers(0, 50), share=MEAN, lowest=st.floats(-50, 50))
def test_rounding_never_puts_an_estimate_outside_its_interval(
    strategy: str, n: int, more: int, share: float, lowest: float
) -> None:
    value_range = (lowest, lowest + 0.7)
    mean = min(lowest + 0.7 * share, value_range[1])
    found = interval(strategy, mean=mean, n=n, population=n + more, value_range=value_range)
    assert found.lower <= found.estimate <= found.upper


def test_the_correction_is_the_textbooks() -> None:
    assert finite_population_correction(50, None) == 1
    assert finite_population_correction(50, 400) == pytest.approx(sqrt(350 / 399))
    assert finite_population_correction(400, 400) == 0
    assert finite_population_correction(1, 1) == 0


@for_each(
    "changes, words",
    [
        ({"strategy": "bayes"}, "normal, wilson, hoeffding"),
        ({"n": 0}, "n is 0"),
        ({"n": float("nan")}, "n is nan"),
        ({"n": 2.5}, "n is 2.5"),
        ({"population": float("nan")}, "population is nan"),
        ({"mean": None, "total": 11.0, "population": 20}, "total is 11.0"),
        ({"mean": None, "total": float("nan"), "population": 20}, "total is nan"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"confidence": 0.0}, "confidence is 0.0"),
        ({"confidence": float("nan")}, "confidence is nan"),
        ({"population": 5}, "population is 5"),
        ({"mean": 1.2}, "mean is 1.2"),
        ({"mean": float("nan")}, "mean is nan"),
        ({"mean": None}, "either mean or total"),
        ({"total": 3.0}, "either mean or total"),
        ({"mean": None, "total": 3.0}, "population is missing"),
        ({"value_range": (1.0, 1.0)}, "value_range"),
        ({"variance": -1.0}, "variance is -1.0"),
        ({"variance": float("inf")}, "variance is inf"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"strategy": "normal", "mean": 0.5, "n": 10, **changes}
    with pytest.raises(ValueError, match=words):
        interval(arguments.pop("strategy"), **arguments)
