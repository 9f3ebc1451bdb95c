"""Experiments on a drawn data set: race, leaderboard and differences are weighted, and stand for the traffic."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.offline.experiments.scores import METRIC, filled
from tests.support.cases import for_each
from tests.support.experiment_plans import plan

from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.drafts import draft_of, plan_of
from ragtide_offline.experiments.projections import differences
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.gates.sources import measure_experiment
from ragtide_producers.files.items import read_items
from ragtide_schemas.experiments import Look, Plan

pytestmark = pytest.mark.pure

MANY = {"stratum": "many", "rows": 60, "probability": 60 / 900}
FEW = {"stratum": "few", "rows": 60, "probability": 0.6}
SIZE = 126


def drawn(seed: int = 1, *, enabled: bool = True, count: int = 2) -> tuple[Plan, list[str]]:
    """A plan over two strata and six items by hand, and the stratum of each item in the order of the run."""
    kinds = ["many"] * 60 + ["few"] * 60 + ["hand"] * 6
    np.random.default_rng(seed).shuffle(kinds)
    items: list[Any] = [{"many": MANY, "few": FEW, "hand": None}[kind] for kind in kinds]
    return plan(count, size=SIZE, drawn=items, race={"enabled": enabled, "margin": 0.02}), kinds


def run(state: ExperimentState, until: int = SIZE) -> list[str]:
    """Run the race up to an item, and return the stopped configs."""
    while state.compared < until and not state.completed:
        for entry in race_decision(state) or [Look(item=state.next_look())]:
            state.apply(entry)
    return [command.command.config or "" for command in state.commands if command.command.op == "stop"]


def test_the_leaderboard_is_about_the_traffic_once_all_items_have_run() -> None:
    planned, kinds = drawn(enabled=False)
    # c0 is better in the stratum of which each row stands for nine times as many answers; by hand it is the worst.
    first = [{"many": 1.0, "few": 0.0, "hand": 0.0}[kind] for kind in kinds]
    second = [{"many": 0.0, "few": 1.0, "hand": 1.0}[kind] for kind in kinds]
    state = ExperimentState(planned, filled({"c0": first, "c1": second}))
    state.apply(Look(item=SIZE))
    shown = board(state)
    assert shown.leader is not None
    assert shown.leader.name == "c0"
    assert shown.leader.estimates[METRIC].estimate == pytest.approx(0.9)
    of_leader = shown.leader.estimates[METRIC]
    assert of_leader.n == 120
    assert of_leader.lower < 0.9 < of_leader.upper  # not exact: the traffic has other questions, too
    [gap] = differences(state, "c0", ["c1"])
    assert gap is not None
    assert gap.n == 120
    assert gap.difference.estimate == pytest.approx(0.8)
    assert gap.difference.lower < 0.8 < gap.difference.upper
    assert "1,000" in (shown.traffic or "")
    assert "6" in (shown.traffic or "")
    [measured] = [one for one in measure_experiment(state, "c0", "c1") if one.metric == METRIC]
    assert measured.estimate is not None
    assert measured.estimate.estimate == pytest.approx(0.9)
    assert measured.difference == gap.difference


@for_each("until", (20, 60, 100))
def test_intervals_while_configs_run_hold_the_weighted_mean_of_all_items(until: int) -> None:
    covered = []
    for seed in range(40):
        planned, kinds = drawn(seed, enabled=False)
        random = np.random.default_rng(seed)
        share = {"many": 0.8, "few": 0.4, "hand": 0.0}
        scores = {
            name: [float(random.random() < share[kind] - 0.2 * place) for kind in kinds]
            for place, name in enumerate(("c0", "c1"))
        }
        state = ExperimentState(planned, filled(scores))
        state.apply(Look(item=until))
        weights = [{"many": 15.0, "few": 1 / 0.6, "hand": 0.0}[kind] for kind in kinds]
        truth = {name: np.average(values, weights=weights) for name, values in scores.items()}
        [row] = [row for row in board(state).rows if row.name == "c0"]
        mean = row.estimates[METRIC]
        [gap] = differences(state, "c0", ["c1"])
        assert gap is not None
        covered += [mean.lower <= truth["c0"] <= mean.upper]
        covered += [gap.difference.lower <= truth["c0"] - truth["c1"] <= gap.difference.upper]
        assert 0 <= mean.lower <= (mean.estimate or 0) <= mean.upper <= 1
    assert np.mean(covered) > 0.93


def test_the_race_stops_the_config_that_is_worse_in_the_traffic() -> None:
    planned, kinds = drawn()
    first = [{"many": 1.0, "few": 0.0, "hand": 0.0}[kind] for kind in kinds]
    second = [{"many": 0.0, "few": 1.0, "hand": 1.0}[kind] for kind in kinds]
    state = ExperimentState(planned, filled({"c0": first, "c1": second}))
    assert run(state) == ["c1"]
    evidence = state.configs["c1"].evidence
    assert evidence is not None
    assert evidence.lower >= -planned.race.margin - 1e-9
    assert evidence.lower <= evidence.difference <= evidence.upper


def test_the_race_stops_no_config_by_rows_that_were_put_in_by_hand() -> None:
    planned, kinds = drawn()
    same = {kind: [float(place % 2) for place in range(SIZE)] for kind in ("c0", "c1")}
    for place, kind in enumerate(kinds):
        if kind == "hand":
            same["c0"][place], same["c1"][place] = 1.0, 0.0
    state = ExperimentState(planned, filled(same))
    run(state)
    [gap] = differences(state, "c0", ["c1"])
    assert gap is not None
    assert gap.difference.estimate == pytest.approx(0.0, abs=1e-12)


def test_a_plan_without_drawn_items_is_as_it_was() -> None:
    assert b"drawn" not in plan(2).encode()
    state = ExperimentState(plan(2, size=20), filled({"c0": [1.0] * 20, "c1": [0.5] * 20}))
    state.apply(Look(item=20))
    assert state.weights is None
    assert "traffic" not in board(state).as_dict()
    assert board(state).rows[0].estimates[METRIC].exact


def test_the_draw_of_a_data_set_is_in_the_plan(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "question": f"What is {number}?", "item_id": str(number), "sampling_probability": 0.05,
            "metadata": {"ragtide": {"drawn": {"stratum": "s", "of": 40, "rows": 4, "probability": 0.1}}},
        }
        for number in range(4)
    ]  # fmt: skip
    rows.append({"question": "By hand?", "item_id": "hand"})
    file = tmp_path / "golden.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    items = read_items(file)
    draft = draft_of(
        {"name": "e", "target": "m:f", "data": str(file), "metric": METRIC, "configs": [{"name": "a"}, {"name": "b"}]}
    )
    planned, ordered = plan_of(draft, items, labeler="local")
    assert planned.drawn is not None
    assert [item is None for item in planned.drawn] == [item.drawn is None for item in ordered]
    assert {item.kept for item in planned.drawn if item} == {0.5}
    again = Plan.decode(planned.encode())
    assert again == planned
    state = ExperimentState(planned)
    assert state.weights is not None
    assert state.weights.rows.stands_for == pytest.approx(80)
