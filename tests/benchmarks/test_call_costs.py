"""What a run costs a judge: one call whatever the number of its calls, and a few tokens for each call that is read."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("call_costs", BENCHMARKS / "call_costs.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["call_costs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_run_takes_at_most_one_call_and_a_fifth_whatever_it_calls(program: ModuleType) -> None:
    costs = {(calls, name): cost for calls, name, cost in await program.measure(3)}
    assert all(cost.judge_calls <= 1.2 for cost in costs.values())
    without, plain, reading = program.CASES
    assert costs[1, without] == costs[0, without], "calls that no criterion reads cost nothing"
    for calls in (1, 4, 16):
        more = costs[calls, reading].prompt_tokens - costs[calls, plain].prompt_tokens
        assert more < 500 + 80 * calls
