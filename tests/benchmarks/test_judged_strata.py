"""Intervals of a judge's mean of all: benchmarks/judged_strata.py in a short form."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "judged_strata.py"
RUNS = 150


@pytest.fixture(scope="module")
def benchmark_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("judged_strata", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("settings", "widest"),
    [
        ({"absent": 0.05}, 0.12),
        ({"absent": 0.35}, 0.14),
        ({"absent": 0.6, "yes": (0.74, 0.74)}, 0.13),
        ({"absent": 0.0, "yes": (0.2, 0.2), "cannot_tell": (0.3, 0.05)}, 0.13),
        ({"absent": 0.35, "cannot_tell": (0.6, 0.05)}, 0.2),
        ({"absent": 0.35, "rates": (0.4, 0.04)}, 0.25),
        ({"absent": 0.35, "cannot_tell": (0.3, 0.05), "sessions": 5}, 0.2),
    ],
    ids=str,
)
def test_intervals_hold_the_mean_of_all_that_can_be_told(
    benchmark_module: ModuleType, settings: dict[str, object], widest: float
) -> None:
    kind = benchmark_module.Strata(**settings)
    mean, share = kind.truth
    for end, missed in benchmark_module.simulate(kind, RUNS, 3000, seed=1).values():
        # With a true share of 5% more than 13 of 150 miss once in 100 tries; the intervals miss far less often.
        assert missed.sum() <= 13
        spread = end.estimate.std() / np.sqrt(RUNS)
        assert abs(end.estimate.mean() - mean) < 4 * spread + 0.002
        assert np.mean(np.abs(end.estimate - mean) <= 1.96 * end.standard_error) > 0.88
        assert end.coverage.mean() == pytest.approx(share, abs=0.01)
        assert np.mean(end.upper - end.lower) < widest


@pytest.mark.simulation
def test_answers_that_nothing_is_known_about_have_their_share_of_room(benchmark_module: ModuleType) -> None:
    kind = benchmark_module.Strata(0.35, rates=(0.3, 0.0))
    for end, missed in benchmark_module.simulate(kind, RUNS, 2000, seed=2).values():
        assert not missed.any()
        assert np.all(end.upper - end.lower > 0.3)
        assert np.mean(end.upper - end.lower) < 0.5
