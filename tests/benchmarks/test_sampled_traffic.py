"""Weighted intervals on simulated samples of traffic: the measured claims hold here, short and, marked heavy, long."""

import importlib.util
import sys
from math import sqrt
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulation

_PATH = Path(__file__).parents[2] / "benchmarks" / "sampled_traffic.py"
_SPEC = importlib.util.spec_from_file_location("simulated_sampled_traffic", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
simulated = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = simulated
_SPEC.loader.exec_module(simulated)


def holds(number: int, runs: int, items: int) -> None:
    found = simulated.missed(simulated.TRAFFIC[number], runs, items, seed=number + 1)
    assert found.ever <= 0.05 + 2 * sqrt(0.05 * 0.95 / runs)
    assert found.fixed <= 0.05 + 3 * sqrt(0.05 * 0.95 / runs)
    assert abs(found.bias) < 0.005
    assert found.spread < 1.2


@pytest.mark.parametrize("number", [0, 2, 7, 8, 9])
def test_weighted_intervals_hold_however_sampling_depends_on_the_score(number: int) -> None:
    holds(number, 150, 6_000)


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(len(simulated.TRAFFIC)))
def test_weighted_intervals_hold_in_long_runs(number: int) -> None:
    holds(number, 600, 30_000)


def test_plain_means_of_such_samples_are_wrong() -> None:
    """The traffic of these tests is one on which weights are needed."""
    assert [
        abs(simulated.missed(simulated.TRAFFIC[number], 20, 2_000).plain_bias) > 0.05 for number in (0, 2, 7, 8)
    ] == [True] * 4
