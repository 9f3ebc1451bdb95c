"""The order of an experiment's calls."""

from tests.support.experiment_plans import plan

from ragtide_offline.experiments.executor import Schedule, ahead
from ragtide_offline.experiments.state import ExperimentState
from ragtide_schemas.experiments import Command, Execution, Look, Paused


def all_next(schedule: Schedule, state: ExperimentState) -> list[tuple[str, int]]:
    found = []
    while (pair := schedule.next(state)) is not None:
        schedule.start(*pair)
        found.append(pair)
    return found


def executed(state: ExperimentState, *pairs: tuple[str, int]) -> None:
    for config, item in pairs:
        state.results.add_execution(
            Execution(config=config, item=item, item_id=f"q{item}", interaction_id=f"item-{item}")
        )


def test_items_are_run_one_by_one_over_all_configs() -> None:
    state = ExperimentState(plan(3, size=20, concurrency=7))
    assert all_next(Schedule(), state) == [
        ("c0", 0), ("c1", 0), ("c2", 0), ("c0", 1), ("c1", 1), ("c2", 1), ("c0", 2),
    ]  # fmt: skip


def test_one_slow_config_does_not_take_every_call() -> None:
    state = ExperimentState(plan(2, size=20, concurrency=4, concurrency_per_config=2))
    schedule = Schedule()
    assert sorted(all_next(schedule, state)) == [("c0", 0), ("c0", 1), ("c1", 0), ("c1", 1)]
    # c1 answers, c0 does not: c0 keeps its two calls and no more.
    for _ in range(2):
        schedule.end("c1")
    assert all_next(schedule, state) == [("c1", 2), ("c1", 3)]


def test_nothing_far_ahead_of_the_last_comparison_point_is_executed() -> None:
    state = ExperimentState(plan(2, size=200, concurrency=10))
    schedule = Schedule()

    def until_it_waits() -> int:
        count = 0
        while pairs := all_next(schedule, state):
            count += len(pairs)
            for config, _ in pairs:
                schedule.end(config)
        return count

    assert until_it_waits() == 2 * ahead(state.plan, 2) < 2 * 200
    state.apply(Look(item=10))
    assert until_it_waits() == 2 * 10


def test_what_was_executed_or_is_stopped_or_paused_is_not_executed() -> None:
    state = ExperimentState(plan(2, size=3, concurrency=99))
    executed(state, ("c0", 0), ("c1", 1))
    assert all_next(Schedule(), state) == [("c1", 0), ("c0", 1), ("c0", 2), ("c1", 2)]
    state.apply(Command(op="stop", config="c0"))
    assert {config for config, _ in all_next(Schedule(), state)} == {"c1"}
    state.apply(Paused(reason="x"))
    assert all_next(Schedule(), state) == []


def test_a_clone_begins_with_the_items_still_to_come_and_runs_on_the_rest_at_the_end() -> None:
    state = ExperimentState(plan(1, size=10, concurrency=99))
    state.apply(Look(item=5))
    state.apply(Command(op="clone", config="c0", clone="copy", parameters={"k": 7}))
    executed(state, *(("c0", item) for item in range(10)))
    schedule = Schedule()
    assert all_next(schedule, state) == [("copy", item) for item in range(5, 10)]
    state.apply(Look(item=10))
    assert all_next(schedule, state) == [("copy", item) for item in range(5)]
