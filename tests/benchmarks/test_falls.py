"""Falls in simulated pipelines: the judge finds what the local labeler does not, and a raised share saves calls."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.simulation

ROOT = Path(__file__).parents[2]


def program() -> Any:
    for name in ("falling_pipelines", "falls"):
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules["falls"]


falls = program()
falling = sys.modules["falling_pipelines"]
SETS = falls.read_sets([ROOT / "tests" / "data" / "ragbench" / "ragbench_sample.jsonl"], per_set=20)


def judge(share: float = 0.1, boost: float = 1.0) -> Any:
    return falls.Judge(share, falls.flipped_for(0.6), boost)


def test_flipped_verdicts_agree_to_the_kappa() -> None:
    rng, n = np.random.default_rng(0), 200_000
    labels = rng.random(n) < falling.AGREED_ON
    verdicts = labels ^ (rng.random(n) < falls.flipped_for(0.6))
    agreed, both = np.mean(labels == verdicts), np.mean(labels) * np.mean(verdicts)
    chance = both + (1 - np.mean(labels)) * (1 - np.mean(verdicts))
    assert (agreed - chance) / (1 - chance) == pytest.approx(0.6, abs=0.01)


def test_the_limit_is_that_of_the_reckoning() -> None:
    assert falls.limit(judge(), 0.4) == pytest.approx(39, abs=1)
    assert falls.limit(judge(), 0.2) == pytest.approx(139, abs=5)


def test_a_judge_finds_the_fall_that_the_local_labeler_does_not() -> None:
    judged = falls.judged_falls(judge(), 0.4, 60, within=4_000)
    assert judged.delays.size > 50
    assert judged.within(4_000) > 0.9
    alone = falls.local_falls(SETS, falls.NATURAL, 0.4, 6)
    assert alone.within(2_000) < 0.5
    assert falls.local_falls(SETS, "broken retriever", 0.4, 6).within(2_000) > 0.9


def test_a_raised_share_finds_a_fall_sooner_with_hardly_more_calls() -> None:
    plain, raised = (falls.judged_falls(judge(0.05, boost), 0.4, 60) for boost in (1.0, 8.0))
    assert raised.calls < 1.3 * plain.calls
    assert raised.quantile(0.5) < 0.75 * plain.quantile(0.5)


def test_the_page_has_every_labeler_and_every_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"QUIET": 1_000, "BEFORE": 500, "LOCAL_BEFORE": 500, "WITHIN": (100, 200, 500)}.items():
        monkeypatch.setattr(falling, name, value)
        if hasattr(falls, name):
            monkeypatch.setattr(falls, name, value)
    page = "\n".join(falls.report(SETS, runs=4, each=1))
    for name in [*falls.judges(), *falls.FAULTS]:
        assert f"| {name} |" in page
    assert falls.dollars(SETS) > 0
