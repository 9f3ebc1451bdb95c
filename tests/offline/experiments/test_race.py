"""The race of an experiment: its decisions follow from log and scores alone."""

import numpy as np
import pytest
from tests.offline.experiments.scores import METRIC, filled, raced, spread
from tests.support.experiment_plans import plan

from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.state import ExperimentState
from ragtide_schemas.experiments import (
    RACE,
    Command,
    Completed,
    Look,
)


def test_losers_are_stopped_with_their_evidence_and_the_best_is_left() -> None:
    state = ExperimentState(plan(8, size=200), filled(spread(8, 200)))
    log = raced(state)
    orders = [entry for entry in log if isinstance(entry, Command)]
    assert isinstance(log[-1], Completed)
    assert {order.config for order in orders} == {f"c{number}" for number in range(7)}
    assert [standing.config.name for standing in state.running] == ["c7"]
    for order in orders:
        evidence = order.evidence
        assert evidence is not None
        assert (order.op, order.by) == ("stop", RACE)
        assert evidence.e_value * evidence.alpha >= 1
        assert evidence.item % 5 == 0
        assert evidence.n == evidence.item
        ours, theirs = (
            np.mean([state.results.result(name, item).score(METRIC) for item in range(evidence.n)])
            for name in (evidence.by, order.config or "")
        )
        assert evidence.difference == pytest.approx(ours - theirs)
        assert evidence.lower <= evidence.difference <= evidence.upper
    # The worst goes first, and the race saves work.
    assert orders[0].config == "c0"
    found = board(state)
    assert sum(row.n_items for row in found.rows) < 0.5 * 8 * 200
    assert found.leader is not None
    assert found.leader.name == "c7"


def test_reading_the_log_again_gives_the_same_decisions() -> None:
    scores = spread(6, 100, seed=3)
    log = raced(first := ExperimentState(plan(6, size=100), filled(scores)))
    again = ExperimentState(plan(6, size=100), filled(scores))
    for number, entry in enumerate(log):
        if isinstance(entry, Look):
            here = [one.model_copy(update={"at": entry.at}) for one in race_decision(again)]
            assert here == [one.model_copy(update={"at": entry.at}) for one in log[number : number + len(here)]]
        assert again.apply(entry) is None
    assert repr(first.configs) == repr(again.configs)


def test_a_person_may_overrule_the_race() -> None:
    state = ExperimentState(plan(2, size=100), filled({"c0": [0.2] * 100, "c1": [0.8] * 100}))
    while len(state.running) == 2:
        for entry in race_decision(state):
            state.apply(entry)
    assert [standing.config.name for standing in state.running] == ["c1"]
    assert state.apply(Command(op="resume", config="c0", by="ann", keep=True)) is None
    while found := race_decision(state):
        for entry in found:
            state.apply(entry)
    assert state.completed
    assert {standing.status for standing in state.configs.values()} == {"running"}
    assert all(row.status == "complete" for row in board(state).rows)


def test_without_the_race_no_config_is_stopped() -> None:
    state = ExperimentState(plan(4, size=60, race={"enabled": False}), filled(spread(4, 60)))
    log = raced(state)
    assert not [entry for entry in log if isinstance(entry, Command)]
    assert len(state.running) == 4


def test_the_race_may_end_when_one_is_left() -> None:
    state = ExperimentState(plan(2, size=500, race={"finish": False}), filled({"c0": [0.2] * 500, "c1": [0.8] * 500}))
    raced(state)
    assert state.completed
    assert state.compared < 100


def test_a_metric_may_be_better_when_it_is_lower() -> None:
    state = ExperimentState(plan(2, size=200, higher_is_better=False), filled({"c0": [0.2] * 200, "c1": [0.8] * 200}))
    raced(state)
    assert [standing.config.name for standing in state.running] == ["c0"]
    assert [row.name for row in board(state).rows] == ["c0", "c1"]
