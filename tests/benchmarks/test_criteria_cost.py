"""The price of criteria: one call whatever their number, a longer prompt for each, and fewer tokens without reasons."""

import importlib.util
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from ragtide import RagInteraction

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("criteria_cost", BENCHMARKS / "criteria_cost.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["criteria_cost"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_criteria_take_one_call_and_cost_more_with_their_number_and_with_reasons(program: ModuleType) -> None:
    with program.ROWS.open("rb") as file:
        rows = [RagInteraction.decode(line) for line in islice(file, 2)]
    costs = {(count, reasons, call): cost for count, reasons, call, cost in await program.measure(rows)}
    for reasons in ("kept", "none"):
        shared = [costs[count, reasons, "shared"] for count in (0, 1, 5, 20)]
        assert [cost.calls for cost in shared] == [1_000] * 4
        assert [cost.usd for cost in shared] == sorted({cost.usd for cost in shared})
        assert all(costs[count, reasons, "own"].calls == 2_000 for count in (1, 5, 20))
    for (count, reasons, call), cost in costs.items():
        if reasons == "none":
            assert cost.answer_tokens < costs[count, "kept", call].answer_tokens
            assert cost.prompt_tokens < costs[count, "kept", call].prompt_tokens
