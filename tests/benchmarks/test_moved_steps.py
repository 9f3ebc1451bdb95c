"""Injected faults of retrieval steps: most get the right name, and hardly any a wrong one."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.simulation, pytest.mark.heavy]

_PATH = Path(__file__).parents[2] / "benchmarks" / "moved_steps.py"
_SPEC = importlib.util.spec_from_file_location("simulated_moved_steps", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
simulated = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = simulated
_SPEC.loader.exec_module(simulated)


def test_of_injected_faults_at_least_80_percent_get_the_right_step_and_at_most_5_a_wrong_one() -> None:
    found = simulated.simulated((*simulated.RETRIEVERS, simulated.RERANKER), 36, seed=1)
    right = sum(stream.step == stream.fault.component for stream in found)
    wrong = sum(stream.step not in (None, stream.fault.component) for stream in found)
    assert right >= 0.8 * len(found)
    assert wrong <= 0.05 * len(found)


def test_faults_of_the_generator_and_harder_questions_are_not_resolved() -> None:
    found = simulated.simulated(("generator", "harder questions"), 16, seed=2)
    assert sum(stream.alarmed for stream in found) > len(found) / 2
    assert [stream.step for stream in found if stream.step is not None] == []
