"""Quality per dollar of the configs of an experiment: the means over all items, with an interval from both."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.offline.experiments.scores import event, executed
from tests.support.experiment_plans import plan

from ragtide.cli.printing.laboratory import board_view, shown_metrics
from ragtide_offline.experiments.board import Board, board
from ragtide_offline.experiments.state import ExperimentState
from ragtide_schemas.experiments import Look

METRIC = "trace.adherence"


def run(costs: list[float | None], metric: str = METRIC, size: int = 40) -> Board:
    """Return the board of configs whose answers cost these dollars each, after all items."""
    state = ExperimentState(plan(len(costs), size=size, metric=metric, race={"enabled": False}))
    for number, cost in enumerate(costs):
        for item in range(size):
            scores = {metric: 0.8} | ({} if cost is None else {"answer.cost_usd": cost})
            state.results.add_execution(executed(f"c{number}", item))
            state.results.add_event(event(f"c{number}", item, 0.5).model_copy(update={"scores": scores}))
    assert state.apply(Look(item=size)) is None
    return board(state)


def test_the_ratio_is_that_of_the_means_of_an_answer_and_not_of_totals() -> None:
    found = run([0.02, 0.1, None])
    ratios = {row.name: found.quality_per_usd(row) for row in found.rows}
    cheap, dear = ratios["c0"], ratios["c1"]
    assert cheap is not None
    assert dear is not None
    assert cheap.estimate == pytest.approx(40)
    assert dear.estimate == pytest.approx(8)
    # All items have run, so both means are exact.
    assert cheap.lower == pytest.approx(40)
    assert cheap.upper == pytest.approx(40)
    assert ratios["c2"] is None


def agents(wasted: list[float | None], size: int = 40) -> Board:
    """Return the board of agents that waste these calls of four each on average."""
    state = ExperimentState(plan(len(wasted), size=size, metric=METRIC, race={"enabled": False}))
    for number, mean in enumerate(wasted):
        for item in range(size):
            calls: dict[str, float] = (
                {} if mean is None else {"agent.calls": 4.0, "agent.wasted": 2 * mean * (item % 2)}
            )
            state.results.add_execution(executed(f"c{number}", item))
            scores = {METRIC: 0.8, "tool.search.used": 0.5, **calls}
            state.results.add_event(event(f"c{number}", item, 0.5).model_copy(update={"scores": scores}))
    assert state.apply(Look(item=size)) is None
    return board(state)


def test_agents_are_compared_by_the_calls_that_a_run_makes_and_wastes() -> None:
    found = agents([0.5, 2.0, None])
    assert list(found.counts) == ["calls a run", "wasted"]
    rows = {row["name"]: row["per_run"] for row in found.as_dict()["rows"]}
    assert {name: numbers["agent.wasted"]["estimate"] for name, numbers in rows.items() if numbers} == {
        "c0": pytest.approx(0.5), "c1": pytest.approx(2.0),
    }  # fmt: skip
    assert rows["c0"]["agent.calls"]["estimate"] == pytest.approx(4.0)
    assert rows["c2"] == {}
    shown = io.StringIO()
    Console(file=shown, width=200).print(board_view(found, 200, shown_metrics(found)))
    heads, *lines = [line.split() for line in shown.getvalue().splitlines() if "$ / item" in line or "#" in line]
    assert heads.index("wasted") < heads.index("$")
    assert [line for line in lines if "2.00" in line and "4.00" in line]
    assert not run([0.02]).counts


def test_the_rows_of_the_json_have_the_ratio() -> None:
    found = run([0.02, None])
    rows = {row["name"]: row["quality_per_usd"] for row in found.as_dict()["rows"]}
    assert rows["c0"]["estimate"] == pytest.approx(40)
    assert rows["c1"] is None


def test_a_metric_that_is_better_when_it_is_lower_has_no_ratio() -> None:
    found = replace(run([0.02], "ragchecker.hallucination"), higher_is_better=False)
    assert found.quality_per_usd(found.rows[0]) is None


def test_failed_calls_make_no_answer_cheaper() -> None:
    state = ExperimentState(plan(2, size=40, metric=METRIC, race={"enabled": False}))
    for number in range(2):
        for item in range(40):
            fails = number == 0 and item % 4 == 0
            state.results.add_execution(executed(f"c{number}", item, failure="503" if fails else None))
            if not fails:
                scores = {METRIC: 0.8, "answer.cost_usd": 0.02}
                state.results.add_event(event(f"c{number}", item, 0.5).model_copy(update={"scores": scores}))
    assert state.apply(Look(item=40)) is None
    found = board(state)
    ratios = [found.quality_per_usd(row) for row in found.rows]
    assert [per.estimate for per in ratios if per is not None] == pytest.approx([40, 40])
