"""The items on which a config counts, and its results."""

from dataclasses import replace

import pytest
from tests.offline.experiments.scores import METRIC, event, executed, filled, raced, scored
from tests.support.experiment_plans import plan

from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.drafts import grid_of
from ragtide_offline.experiments.projections import paired_differences
from ragtide_offline.experiments.results import ResultsTable, item_of
from ragtide_offline.experiments.state import ExperimentState
from ragtide_offline.experiments.verdict import verdict_of
from ragtide_offline.report.findings import unfinished
from ragtide_schemas import (
    DeadLetter,
    RagInteraction,
    Reason,
    utc_now,
)
from ragtide_schemas.experiments import (
    Command,
    Config,
    Look,
)


def test_a_look_waits_for_every_config_that_runs_and_for_no_other() -> None:
    state = ExperimentState(plan(2, size=20))
    results = state.results
    for item in range(5):
        scored(results, "c0", item, 0.5)
    for item in range(4):
        scored(results, "c1", item, 0.5)
    assert race_decision(state) == []
    results.add_execution(executed("c1", 4))
    assert race_decision(state) == []  # executed, but not labeled
    results.add_event(event("c1", 4, 0.5))
    (look,) = race_decision(state)
    assert isinstance(look, Look)
    assert look.item == 5
    state.apply(look)
    state.apply(Command(op="stop", config="c1"))
    for item in range(5, 10):
        scored(results, "c0", item, 0.5)
    assert [entry.kind for entry in race_decision(state)] == ["look"]


def test_failed_calls_and_answers_without_labels_are_no_scores() -> None:
    state = ExperimentState(plan(2, size=10))
    results = state.results
    for item in range(5):
        scored(results, "c0", item, 0.8)
        if item < 2:
            results.add_execution(executed("c1", item, failure="TimeoutError"))
        else:
            results.add_execution(executed("c1", item))
    results.add_event(event("c1", 2, 0.8))
    results.add_event(event("c1", 3, None))
    answer = RagInteraction(pipeline="c1", interaction_id="item-4", question="q", documents=["d"], response="r")
    payload, encoding = DeadLetter.encode_payload(answer.encode())
    results.add_dead_letter(
        DeadLetter(
            stream="s",
            entry_id="1-1",
            reason=Reason.LABELING_FAILED,
            detail="the judge is away",
            payload=payload,
            payload_encoding=encoding,
            deliveries=5,
            failed_at=utc_now(),
            component="test",
        )
    )
    assert [state.results.result("c1", item).outcome for item in range(5)] == [
        "failed", "failed", "scored", "scored", "unlabeled",
    ]  # fmt: skip
    raced(state)
    assert state.compared == 5
    rows = {row.name: row for row in board(state).rows}
    row = rows["c1"]
    # The mean is over the one answer with a score: failures neither lower it nor make it surer.
    assert (row.n_items, row.n_failed, row.n_unlabeled, row.estimates[METRIC].n) == (5, 2, 1, 1)
    assert row.estimates[METRIC].estimate == pytest.approx(0.8)
    assert rows["c0"].estimates[METRIC].n == 5


def test_n_is_the_number_of_items_however_many_shards_there_are() -> None:
    # 10 items in 3 shards of 4, 3 and 3: nothing is multiplied with a size of shards.
    state = ExperimentState(
        plan(2, size=10, shards=3, race={"enabled": False, "look_every": 1}),
        filled({"c0": [0.5] * 10, "c1": [0.4] * 10}),
    )
    shards = []
    while not state.completed:
        for entry in race_decision(state):
            state.apply(entry)
        found = board(state)
        assert {row.estimates[METRIC].n for row in found.rows} == {state.compared}
        shards.append(found.shard)
    assert shards == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


def test_a_clone_counts_on_the_items_since_it_came_and_does_not_start_again() -> None:
    state = ExperimentState(plan(1, size=20, race={"enabled": False}), filled({"c0": [0.5] * 20}))
    for _ in range(2):
        for entry in race_decision(state):
            state.apply(entry)
    state.apply(Command(op="clone", config="c0", clone="copy"))
    for item in range(10, 15):
        scored(state.results, "copy", item, 0.7)
    (look,) = race_decision(state)
    state.apply(look)
    rows = {row.name: row for row in board(state).rows}
    assert (rows["c0"].n_items, rows["copy"].n_items, rows["copy"].parent) == (15, 5, "c0")
    ((n, gap),) = [found for found in paired_differences(state, "copy", ["c0"]) if found is not None]
    assert n == 5
    assert gap.estimate == pytest.approx(0.2)
    # At the end it is run on what it had missed; before that the experiment is not complete.
    for item in range(15, 20):
        scored(state.results, "copy", item, 0.7)
    for entry in race_decision(state):
        state.apply(entry)
    assert state.all_compared
    assert race_decision(state) == []
    for item in range(10):
        scored(state.results, "copy", item, 0.9)
    assert [entry.kind for entry in race_decision(state)] == ["completed"]
    rows = {row.name: row for row in board(state).rows}
    assert rows["copy"].estimates[METRIC].estimate == pytest.approx(0.8)


def test_an_execution_that_is_added_again_is_counted_once() -> None:
    results = ResultsTable()
    for _ in range(2):
        results.add_execution(executed("c0", 0, failure="TimeoutError"))
        results.add_event(event("c0", 1, 0.5).model_copy(update={"cost_usd": 0.5, "prompt_tokens": 3}))
    assert (results.cost_usd, results.tokens, len(results.failures_in_a_row["c0"])) == (0.51, 3, 1)


def test_ids_of_other_interactions_are_no_items() -> None:
    assert [item_of(text) for text in ("item-7", "item-", "item-x", "7", "item-٣x")] == [7, None, None, None, None]


def test_the_pareto_front_is_of_configs_that_no_other_beats_in_both() -> None:
    state = ExperimentState(plan(3, size=10, race={"enabled": False}))
    results = state.results
    for item in range(10):
        for config, value, cost in (("c0", 0.5, 0.01), ("c1", 0.9, 0.05), ("c2", 0.4, 0.02)):
            results.add_execution(executed(config, item).model_copy(update={"cost_usd": cost}))
            results.add_event(event(config, item, value))
    raced(state)
    found = board(state)
    assert {row.name for row in found.rows if row.pareto} == {"c0", "c1"}
    assert found.cost_usd == pytest.approx(0.8)
    assert found.share_of_work == 1.0


def test_calls_and_saved_calls_add_up_to_all_even_with_clones() -> None:
    state = ExperimentState(plan(2, size=10, race={"enabled": False}))
    state.apply(Command(op="clone", config="c0", clone="copy"))
    state.apply(Command(op="stop", config="c1"))
    for config, items in (("c0", 10), ("copy", 10), ("c1", 4)):
        for item in range(items):
            state.results.add_execution(executed(config, item))
            state.results.add_event(event(config, item, 0.5))
    raced(state)
    found = board(state)
    assert found.completed
    assert found.share_of_work == pytest.approx(24 / 30)
    assert found.share_of_work + verdict_of(found).calls_saved == pytest.approx(1)


def test_calls_that_were_made_are_saved_or_are_to_come_are_all_calls() -> None:
    state = ExperimentState(plan(3, size=10, race={"enabled": False}))
    state.apply(Command(op="clone", config="c0", clone="copy"))
    for config, items in (("c0", 6), ("c1", 4), ("c2", 3)):
        for item in range(items):
            scored(state.results, config, item, 0.5)
    for item in range(5):
        copied = executed("copy", item).model_copy(update={"copied_from": "c0", "cost_usd": 0.0})
        state.results.add_execution(copied)
    state.apply(Command(op="stop", config="c1"))
    state.apply(Command(op="delete", config="c2"))
    found = board(state)
    # c0 has 4 calls to come, its copy 5; c1 and c2 are not called again, and the copied answers needed no call.
    assert (found.calls_total, found.executed, found.calls_saved) == (40, 6 + 4 + 3, 6 + 7 + 5)
    assert found.saved_usd == pytest.approx(0.01 * (6 + 7))


def test_a_config_is_named_by_the_parameters_in_which_the_configs_differ() -> None:
    def labels(*configs: Config) -> list[str]:
        state = ExperimentState(plan(2, size=10).model_copy(update={"configs": configs}), races=False)
        return [row.label for row in sorted(board(state).rows, key=lambda row: row.number)]

    grid = grid_of({"top_k": [1, 2], "model": ["small"], "style": ["short", "long"]})
    assert labels(*grid)[:2] == ["top_k=1, style=short", "top_k=1, style=long"]
    assert labels(grid[0]) == ["top_k=1, model=small, style=short"]
    own = Config(name="mine", parameters={"top_k": 9})
    assert labels(grid[0], own)[1] == "mine"
    prompts = grid_of({"prompt": [f"{'Answer in one sentence. ' * 3}{end}" for end in "ab"]})
    first, second = labels(*prompts)
    assert first != second
    assert max(map(len, (first, second))) < 60


def test_an_experiment_that_has_compared_all_items_does_not_say_that_some_are_left() -> None:
    found = board(ExperimentState(plan(2, size=10)))
    done = replace(found, compared=10, rows=[replace(row, status="complete") for row in found.rows])
    first, second = (" ".join(unfinished(one)) for one in (found, done))
    assert "0 of 10 items" in first
    assert "10 of 10" not in second
    assert "not complete" in second
