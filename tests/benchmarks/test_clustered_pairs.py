"""Weighted and prediction-powered intervals on simulated sessions and batches, short: the measured claims hold here."""

import importlib.util
import sys
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.simulation

_PATH = Path(__file__).parents[2] / "benchmarks" / "clustered_pairs.py"
_SPEC = importlib.util.spec_from_file_location("simulated_clustered_pairs", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
clustered = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = clustered
_SPEC.loader.exec_module(clustered)

RUNS = 150


@pytest.mark.parametrize(("number", "least_by_item"), [(3, 0.08), (-1, 0.5)])
def test_intervals_over_clusters_miss_seldom_and_intervals_by_item_often(number: int, least_by_item: float) -> None:
    looks = clustered.simulate(clustered.TRAFFIC[number], RUNS, 3_000, seed=number + 1)
    by_item, over_clusters = looks.missed.mean(axis=2).T
    assert np.all(by_item > least_by_item)
    assert np.all(over_clusters <= 0.05 + 2 * sqrt(0.05 * 0.95 / RUNS))
    for everything in (False, True):
        found = looks.read(everything)[1]
        assert np.std(found.estimate) / np.mean(found.standard_error) == pytest.approx(1, abs=0.2)
        assert np.all(found.upper - found.lower < 0.3)
