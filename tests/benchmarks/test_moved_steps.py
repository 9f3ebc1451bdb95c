"""Injected faults of steps: single ones get the right name, and of two at once none is named as the whole cause."""

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


def test_of_single_faults_at_least_80_percent_get_the_right_step_alone_and_at_most_5_a_wrong_one() -> None:
    found = simulated.simulated([(name,) for name in (*simulated.RETRIEVERS, simulated.RERANKER)], 60, seed=1)
    assert sum(stream.outcome.startswith("named") for stream in found) >= 0.8 * len(found)
    judged = [stream for stream in found if not stream.fault.local]
    assert sum(stream.outcome == "named" for stream in judged) >= 0.8 * len(judged)
    assert sum(stream.is_wrong for stream in found) <= 0.05 * len(found)


def test_harder_questions_move_no_step_and_faults_of_the_generator_no_step_of_retrieval() -> None:
    found = simulated.simulated([("generator",), ()], 24, seed=2)
    assert sum(stream.alarmed for stream in found) > len(found) / 2
    assert not any(stream.is_wrong for stream in found)
    assert {name for stream in found for name in stream.moved} == {"generator"}


@pytest.mark.parametrize("later", [(0,), simulated.LATER])
def test_of_two_faults_at_most_5_percent_get_a_wrong_single_cause(later: tuple[int, ...]) -> None:
    found = simulated.simulated(simulated.PAIRS, 120, seed=3, later=later)
    assert sum(stream.is_wrong_single for stream in found) <= 0.05 * len(found)
    assert any(len(stream.moved) > 1 and stream.outcome == "named" for stream in found)
