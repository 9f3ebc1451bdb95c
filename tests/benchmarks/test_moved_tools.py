"""Injected faults of an agent's tools: the right tool is named, and of two at once none as the whole cause."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.simulation

FOLDER = Path(__file__).parents[2] / "benchmarks"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_module("moved_steps")  # which the other one imports
simulated = _module("moved_tools")


def test_in_a_few_streams_the_tool_that_failed_is_named_and_another_router_is_no_fault() -> None:
    rng = np.random.default_rng(6)
    for mode, local in (("nothing", False), ("timeout", False), ("another language", True)):
        stream = simulated.named(simulated.drawn(("handbook",), mode, "", local, rng), rng)
        assert (stream.moved, stream.called) == ({"handbook"}, set()), mode
    both = simulated.named(simulated.drawn(("handbook", "orders"), "nothing", "", False, rng), rng)
    assert both.moved == {"handbook", "orders"} or both.verdict != "moved"
    routed = simulated.named(simulated.drawn((), None, "another router", False, rng), rng)
    assert routed.alarmed
    assert "web" in routed.called
    assert not routed.moved & set(simulated.TOOLS)


@pytest.mark.heavy
def test_of_single_faults_at_least_80_percent_name_the_right_tool_and_at_most_5_a_wrong_one() -> None:
    streams = simulated.simulated(simulated.SINGLE, 96, seed=1)
    assert {stream.fault.failing[0][1] for stream in streams} == set(simulated.FAULTS)
    assert sum(map(simulated.is_right, streams)) >= 0.8 * len(streams)
    assert sum(bool(stream.moved - stream.failed) for stream in streams) <= 0.05 * len(streams)


@pytest.mark.heavy
def test_of_two_tools_that_fail_at_once_none_is_surely_alone() -> None:
    streams = simulated.simulated(simulated.PAIRS, 48, seed=2)
    assert not any(stream.verdict == "moved" and stream.moved != stream.failed for stream in streams)
    assert any(len(stream.moved) > 1 for stream in streams)


@pytest.mark.heavy
def test_without_a_fault_no_tool_is_named_and_other_questions_or_another_router_are_seen_as_such() -> None:
    scenarios = [simulated.Scenario(change=change) for change in simulated.CHANGES if change != "harder for one tool"]
    streams = simulated.simulated(scenarios, 40, seed=3)
    assert not any(stream.moved & set(simulated.TOOLS) for stream in streams)
    routed = [stream for stream in streams if stream.fault.change == "another router" and stream.alarmed]
    assert routed
    assert all("web" in stream.called for stream in routed)


@pytest.mark.heavy
def test_the_default_rules_give_no_more_false_alarms_than_promised() -> None:
    streams = simulated.quiet(6, seed=4)
    expected = sum(stream.expected for stream in streams)
    assert sum(stream.alarms for stream in streams) <= expected + 3 * expected**0.5
