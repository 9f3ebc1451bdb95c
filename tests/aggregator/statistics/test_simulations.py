"""The simulations of `make simulations`, short: their claims must hold here too."""

import importlib.util
import sys
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"simulated_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


coverage, delays, powered = (module(name) for name in ("coverage", "drift_delays", "prediction_powered"))
RUNS, LENGTH, ALPHA = 300, 1000, 0.2
# Twice the standard error of a rate of alpha: betting comes close to it.
MOST = ALPHA + 2 * sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize("number", range(len(coverage.CASES)), ids=[case.name for case in coverage.CASES])
def test_what_may_be_looked_at_after_every_item_misses_in_at_most_alpha_of_the_runs(number: int) -> None:
    case = coverage.CASES[number]
    values = case.draw(np.random.default_rng((1, number)), RUNS, LENGTH)
    found = coverage.ever_missed(values, case.means(LENGTH), 1 - ALPHA)
    claims = coverage.ANYTIME if case is not coverage.MOVING else ("running",)
    assert {name: rate for name, rate in found.items() if name in claims and rate > MOST} == {}
    assert found["normal"] > 2 * ALPHA


def test_the_same_holds_for_every_order_of_a_finite_population() -> None:
    case = coverage.CASES[3]
    rng = np.random.default_rng(2)
    population = case.draw(rng, 1, LENGTH)[0]
    values = rng.permuted(np.tile(population, (RUNS, 1)), axis=1)
    found = coverage.ever_missed(values, case.means(LENGTH), 1 - ALPHA, replaced=False)
    assert all(found[name] <= MOST for name in coverage.ANYTIME)
    assert found["normal"] > 2 * ALPHA


def test_anytime_intervals_are_about_as_wide_as_measured() -> None:
    case = coverage.CASES[5]
    values = case.draw(np.random.default_rng(3), 10, 1000)
    found = coverage.widths(values, case.variance, 0.95)
    (betting_50, betting_400, _), (running_400, normal_400) = (
        found["betting"],
        (found["running"][1], found["normal"][1]),
    )
    assert betting_50 < 2.2
    assert betting_400 < 1.9
    assert betting_400 < running_400 < 2.4
    assert normal_400 == pytest.approx(1, abs=0.1)


def test_the_run_length_without_a_change_is_at_least_the_stated_one_and_the_delay_about_as_measured() -> None:
    asked = 500.0
    length, error = delays.run_length_of(delays.e_detector(asked), 3, 200, asked)
    assert length - 2 * error >= asked
    later: dict[float, Any] = {after: delays.delay(delays.e_detector(asked), after, 100)[0] for after in (0.65, 0.5)}
    assert later[0.65] < delays.lorden(0.65, asked) + 5
    assert later[0.5] < delays.lorden(0.5, asked) + 5


@pytest.mark.parametrize("by_score", [False, True])
def test_prediction_powered_estimates_cover_and_gain_the_more_the_better_the_cheap_labeler(by_score: bool) -> None:
    found = [
        powered.simulate(correlation, 300, 4000, by_score=by_score, seed=number)
        for number, correlation in enumerate((0.3, 0.6, 0.9))
    ]
    for one in found:
        assert 0.91 <= one["coverage"] <= 0.985
        assert one["missed"] <= 0.05
        assert one["spread"] == pytest.approx(1, abs=0.12)
    assert 1 > found[0]["width"] > found[1]["width"] > found[2]["width"]
    assert found[2]["width"] < 0.6
    assert found[2]["gain"] > 4
