"""The guard of the speed fails for a ratio that is worse than its noise explains, and only then."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def guard() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("guard")


def test_only_a_ratio_above_its_noise_is_worse(guard: Any) -> None:
    baseline = {"publish": {"ratio": 2.0, "noise": 0.1}, "deliver": {"ratio": 4.0, "noise": 0.5}}
    assert guard.compare(baseline, {"publish": [2.1, 2.0, 9.0], "deliver": [5.9, 6.0, 5.0]}) == []
    assert guard.compare(baseline, {"publish": [2.3, 2.0, 2.4], "deliver": [1.0, 1.0, 1.0]}) == ["publish"]


def test_a_ratio_without_a_baseline_fails(guard: Any) -> None:
    assert guard.compare({}, {"import": [1.0]}) == ["import"]


def test_a_baseline_has_the_median_and_the_range_of_its_rounds(guard: Any) -> None:
    assert guard.baseline_of({"publish": [1.0, 2.0, 3.0], "deliver": [4.0, 4.0, 4.0]}, 0.1) == {
        "publish": {"ratio": 2.0, "noise": 1.0},
        "deliver": {"ratio": 4.0, "noise": 0.1},
    }


def test_every_form_has_a_baseline(guard: Any) -> None:
    baselines = json.loads(guard.BASELINE.read_text())
    assert set(baselines) == set(guard.FORMS)
    for ratios in baselines.values():
        assert {"import", "fleet, 3,000 pipelines", "publish", "deliver"} <= set(ratios)
