"""The state of experiments: items that count, stops of the race, and the leaderboard, from log and scores alone."""

import asyncio
from typing import Any

import numpy as np
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.schemas.test_experiments import EVIDENCE, plan

from ragtide_aggregator.statistics.intervals import interval
from ragtide_offline.experiments import reader as reading
from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.projections import paired_differences, projected
from ragtide_offline.experiments.race_runner import RaceRunner
from ragtide_offline.experiments.reader import ExperimentReader
from ragtide_offline.experiments.results import ResultsTable, item_of
from ragtide_offline.experiments.state import REFUSED_MAX, ExperimentState
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import read_after
from ragtide_schemas import (
    METRICS,
    DeadLetter,
    Direction,
    Kind,
    MetricDefinition,
    MetricEvent,
    RagInteraction,
    Reason,
    utc_now,
)
from ragtide_schemas.experiments import (
    RACE,
    Begun,
    Command,
    Completed,
    Execution,
    IntervalOptions,
    Limits,
    LogEntry,
    Look,
    Paused,
)

METRIC = "trace.adherence"
STREAMS = Streams("ragtide.run.e", 0)


def event(config: str, item: int, value: float | None) -> MetricEvent:
    return MetricEvent(
        interaction_id=f"item-{item}",
        pipeline=config,
        run="e",
        occurred_at=utc_now(),
        labeled_at=utc_now(),
        labeler="test",
        labeler_version="1",
        profile="ragbench",
        scores={} if value is None else {METRIC: value},
        absent={METRIC: "undefined"} if value is None else {},
    )


def executed(config: str, item: int, failure: str | None = None) -> Execution:
    return Execution(
        config=config,
        item=item,
        item_id=f"q{item}",
        interaction_id=None if failure else f"item-{item}",
        failure=failure,
        cost_usd=0.01,
        latency_s=0.1,
    )


def scored(results: ResultsTable, config: str, item: int, value: float | None) -> None:
    results.add_execution(executed(config, item))
    results.add_event(event(config, item, value))


def filled(scores: dict[str, list[float]]) -> ResultsTable:
    results = ResultsTable()
    for config, values in scores.items():
        for item, value in enumerate(values):
            scored(results, config, item, value)
    return results


def raced(state: ExperimentState) -> list[LogEntry]:
    """Run the race to the end; each decision is applied at once."""
    log: list[LogEntry] = []
    while entries := race_decision(state):
        for entry in entries:
            assert state.apply(entry) is None
        log += entries
    return log


def spread(count: int, size: int, seed: int = 1) -> dict[str, list[float]]:
    """Scores of configs from bad to good; what an item is like is the same for all of them."""
    random = np.random.default_rng(seed)
    hard = random.uniform(-0.2, 0.2, size)
    return {
        f"c{number}": np.clip(0.2 + 0.5 * number / (count - 1) + hard + random.normal(0, 0.05, size), 0, 1).tolist()
        for number in range(count)
    }


# Commands.


def test_commands_take_effect_from_the_most_recent_comparison_point() -> None:
    state = ExperimentState(plan())
    for entry in (
        Look(item=5),
        Command(op="stop", config="c1", by="ann"),
        Look(item=10),
        Command(op="clone", config="c0", clone="c0b", parameters={"k": 9, "more": True}),
        Command(op="resume", config="c1"),
        Look(item=15),
        Command(op="delete", config="c2"),
    ):
        assert state.apply(entry) is None
    assert state.compared == 15
    assert state.configs["c1"].spans == [[0, 5], [10, None]]
    assert [item for item in range(20) if state.configs["c1"].covers(item)] == [*range(5), *range(10, 20)]
    clone = state.configs["c0b"]
    assert (clone.config.parameters, clone.config.parent, clone.spans, clone.index) == (
        {"k": 9, "more": True}, "c0", [[10, None]], 3,
    )  # fmt: skip
    assert state.configs["c2"].status == "deleted"
    assert [one.config.name for one in state.running] == ["c0", "c1", "c0b"]


def test_commands_without_effect_are_refused_with_the_reason() -> None:
    state = ExperimentState(plan())
    state.apply(Command(op="stop", config="c1"))
    state.apply(Command(op="delete", config="c2"))
    state.apply(Command(op="resume", config="c0", keep=True))
    before = repr(state.configs)
    for order, words in (
        (Command(op="stop", config="other"), "there is no config 'other': use one of c0, c1"),
        (Command(op="stop", config="c1"), "stopped already"),
        (Command(op="resume", config="c2"), "was deleted"),
        (Command(op="resume", config="c0", keep=True), "is running"),
        (Command(op="clone", config="c0", clone="c1"), "give the clone another name"),
        (Command(op="stop", config="c0", by="race", evidence=EVIDENCE), "a user has vetoed it"),
    ):
        assert words in (state.apply(order) or "")
    assert repr(state.configs) == before
    # The race may not stop it, a user may.
    assert state.apply(Command(op="stop", config="c0", by="ann")) is None


def test_comparison_points_only_go_on() -> None:
    state = ExperimentState(plan())
    assert state.apply(Look(item=5)) is None
    for item in (5, 4, 21):
        assert state.apply(Look(item=item)) is not None
    assert state.compared == 5
    assert state.apply(Begun(plan=plan())) is not None


def test_a_paused_or_complete_experiment_goes_on_with_a_command() -> None:
    state = ExperimentState(plan())
    state.apply(Paused(reason="too dear"))
    assert state.paused == "too dear"
    state.apply(Command(op="limits", limits=Limits(max_cost_usd=2)))
    assert state.paused is None
    assert state.limits.max_cost_usd == 2
    state.apply(Command(op="stop", config="c1"))
    state.apply(Completed())
    assert state.completed
    state.apply(Command(op="resume", config="c1"))
    assert not state.completed


# Items that count.


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


# The race.


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


async def test_a_reader_that_goes_on_has_the_state_of_one_that_reads_from_the_start(async_redis: Any) -> None:
    scores = spread(4, 60, seed=2)
    for config, values in scores.items():
        await write(async_redis, config, range(60), values)
    log: list[LogEntry] = [Begun(plan=plan(4, size=60)), *raced(ExperimentState(plan(4, size=60), filled(scores)))]
    log[3:3] = [Command(op="clone", config="c0", clone="copy"), Command(op="stop", config="c0"), Look(item=1)]
    going_on = ExperimentReader(async_redis, STREAMS)
    for entry in log:
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
        await going_on.read()
    from_the_start = ExperimentReader(async_redis, STREAMS)
    await from_the_start.read()
    assert repr(going_on.state.configs) == repr(from_the_start.state.configs)
    assert going_on.state.commands == from_the_start.state.commands
    assert going_on.state.refused == from_the_start.state.refused
    assert board(going_on.state) == board(from_the_start.state)


def test_commands_without_effect_are_kept_up_to_a_bound() -> None:
    state = ExperimentState(plan())
    for number in range(REFUSED_MAX + 5):
        assert state.apply(Command(op="stop", config=f"x{number}")) is not None
    assert len(state.refused) == REFUSED_MAX
    assert state.refused[-1].command.config == f"x{REFUSED_MAX + 4}"


def test_an_execution_that_is_added_again_is_counted_once() -> None:
    results = ResultsTable()
    for _ in range(2):
        results.add_execution(executed("c0", 0, failure="TimeoutError"))
        results.add_event(event("c0", 1, 0.5).model_copy(update={"cost_usd": 0.5, "prompt_tokens": 3}))
    assert (results.cost_usd, results.tokens, len(results.failures_in_a_row["c0"])) == (0.51, 3, 1)


def test_a_command_in_between_makes_the_race_decide_anew() -> None:
    scores = {"c0": [0.2] * 100, "c1": [0.8] * 100, "c2": [0.8] * 100}
    state, other = (ExperimentState(plan(3, size=100), filled(scores)) for _ in range(2))
    while not any(isinstance(entry, Command) for entry in race_decision(state)):
        for entry in race_decision(state):
            for one in (state, other):
                assert one.apply(entry) is None
    # The race has tried the next comparison point; before it is written, a user stops the config that is behind.
    by_hand = Command(op="stop", config="c0", by="ann")
    for one in (state, other):
        assert one.apply(by_hand) is None
    decisions = [[entry.model_copy(update={"at": by_hand.at}) for entry in raced(one)] for one in (state, other)]
    assert decisions[0] == decisions[1]
    assert not any(isinstance(entry, Command) and entry.config == "c0" for entry in decisions[0])


# Estimates.


def test_no_interval_closes_before_all_items_are_seen() -> None:
    for strategy in ("normal", "wilson", "hoeffding", "betting", "running", "empirical_bernstein"):
        for value in (0.0, 1.0):
            for n in (1, 5, 19):
                options = IntervalOptions(strategy=strategy)
                (found,) = projected([[value] * n], METRICS[METRIC], missing=[0], population=20, options=options)
                assert found.upper - found.lower > 0.01, (strategy, value, n)
            (found,) = projected([[value] * 20], METRICS[METRIC], missing=[0], population=20, options=options)
            assert found.lower == found.upper == value


def test_a_mean_is_that_of_the_items_with_a_score_and_closes_when_all_are_known() -> None:
    (found,) = projected([[0.5, 1.0]], METRICS[METRIC], missing=[2], population=4, options=IntervalOptions())
    assert (found.n, found.estimate, found.lower, found.upper) == (2, 0.75, 0.75, 0.75)
    (nothing,) = projected([[]], METRICS[METRIC], missing=[4], population=4, options=IntervalOptions())
    assert (nothing.n, nothing.estimate, nothing.lower, nothing.upper) == (0, None, 0.0, 1.0)


def test_totals_are_projected_onto_all_items() -> None:
    hits = MetricDefinition("own.projected_hits", 0, 10, Direction.HIGHER, Kind.DISTRIBUTIVE, "Hits.", "test")
    values = [1.0, 4.0, 2.0, 3.0]
    for strategy in ("normal", "wilson", "hoeffding"):
        options = IntervalOptions(strategy=strategy)
        (found,) = projected([values], hits, missing=[0], population=40, options=options)
        used = "normal" if strategy == "wilson" else strategy
        expected = interval(
            used, total=10.0, n=4, population=40, value_range=(0, 10), variance=float(np.var(values, ddof=1))
        )
        assert found.estimate == pytest.approx(100.0)
        # What was seen is there in any case: the total cannot be below it.
        assert [found.lower, found.upper] == pytest.approx([max(expected.lower, 10.0), expected.upper])


def test_intervals_of_counts_are_as_wide_as_their_spread_and_hold_at_every_look() -> None:
    unsupported = METRICS["sentences.unsupported"]  # from 0 to 1,000 sentences
    random = np.random.default_rng(3)
    looks = range(5, 205, 20)
    missed = 0
    for _ in range(20):
        counts = random.poisson(3, 200).astype(float)
        found = projected(
            [counts[:n].tolist() for n in looks],
            unsupported, missing=[0] * len(looks), population=200, options=IntervalOptions(),
        )  # fmt: skip
        missed += any(not one.lower <= counts.sum() + 1e-9 or not counts.sum() - 1e-9 <= one.upper for one in found)
        assert found[-1].upper - found[-1].lower < counts.sum() / 2
    assert missed <= 1
    values = [[2.0, 4.0] * 50]
    (betting,) = projected(
        values, unsupported, missing=[0], population=200, options=IntervalOptions(strategy="betting")
    )
    (auto,) = projected(values, unsupported, missing=[0], population=200, options=IntervalOptions())
    assert auto.estimate == betting.estimate
    assert auto.upper - auto.lower < 0.1 * (betting.upper - betting.lower)
    # Only counts have another strategy than `betting`.
    mean = [[0.25, 0.75] * 50]
    assert projected(mean, METRICS[METRIC], missing=[0], population=200, options=IntervalOptions()) == projected(
        mean, METRICS[METRIC], missing=[0], population=200, options=IntervalOptions(strategy="betting")
    )


def test_use_of_how_many_items_there_are_is_a_choice() -> None:
    values = [[0.2, 0.9, 0.4, 0.6, 0.5, 0.3, 0.8, 0.7]]
    with_fpc, without = (
        projected(
            values,
            METRICS[METRIC],
            missing=[0],
            population=10,
            options=IntervalOptions(strategy="normal", use_fpc=choice),
        )[0]
        for choice in (True, False)
    )
    assert with_fpc.upper - with_fpc.lower < 0.6 * (without.upper - without.lower)


def test_paired_differences_are_surer_than_either_mean() -> None:
    scores = spread(2, 60)
    state = ExperimentState(plan(2, size=200, race={"enabled": False}), filled(scores))
    raced(state)
    assert state.compared == 60
    ((n, gap),) = [found for found in paired_differences(state, "c1", ["c0"]) if found is not None]
    widths = [row.estimates[METRIC].upper - row.estimates[METRIC].lower for row in board(state).rows]
    assert n == 60
    assert gap.estimate == pytest.approx(np.mean(scores["c1"]) - np.mean(scores["c0"]))
    assert (gap.upper - gap.lower) / 2 < min(widths)


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


def test_ids_of_other_interactions_are_no_items() -> None:
    assert [item_of(text) for text in ("item-7", "item-", "item-x", "7", "item-٣x")] == [7, None, None, None, None]


# The race runner, on Redis.


async def write(redis: Any, config: str, items: range, values: list[float]) -> None:
    for item in items:
        await redis.xadd(STREAMS.executions, {DATA_FIELD: executed(config, item).encode()})
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: event(config, item, values[item]).encode()})


async def log_of(redis: Any) -> list[tuple[Any, ...]]:
    reader = ExperimentReader(redis, STREAMS)
    await reader.read()
    commands = (one.command for one in reader.state.commands)
    return [(one.op, one.config, one.evidence and one.evidence.item) for one in commands]


async def test_race_runners_beside_each_other_and_after_each_other_decide_once(async_redis: Any) -> None:
    scores = spread(5, 100, seed=5)
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: Begun(plan=plan(5, size=100)).encode()})
    stop = asyncio.Event()
    for config, values in scores.items():
        await write(async_redis, config, range(50), values)
    # One that is gone after a while, then two beside each other.
    first = asyncio.create_task(RaceRunner(async_redis, STREAMS).run(asyncio.Event()))
    await asyncio.sleep(0)
    first.cancel()
    runners = [asyncio.create_task(RaceRunner(async_redis, STREAMS).run(stop)) for _ in range(2)]
    for config, values in scores.items():
        await write(async_redis, config, range(50, 100), values)
    await asyncio.wait_for(asyncio.gather(*runners), 120)
    expected = [
        (entry.op, entry.config, entry.evidence and entry.evidence.item)
        for entry in raced(ExperimentState(plan(5, size=100), filled(scores)))
        if isinstance(entry, Command)
    ]
    assert await log_of(async_redis) == expected
    looks = [
        fields[DATA_FIELD]
        for _, fields in await async_redis.xrange(STREAMS.experiment)
        if b'"look"' in fields[DATA_FIELD]
    ]
    assert len(looks) == 20


async def test_garbage_in_the_log_changes_nothing(async_redis: Any) -> None:
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: Begun(plan=plan(2, size=10)).encode()})
    for payload in (b"{", b'{"kind": "order", "op": "stop", "config": "nobody"}', b"[]"):
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: payload})
    await async_redis.xadd(STREAMS.experiment, {"other": b"field"})
    await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: b"garbage"})
    for config in ("c0", "c1"):
        await write(async_redis, config, range(10), [0.5] * 10)
    runner = RaceRunner(async_redis, STREAMS)
    await asyncio.wait_for(runner.run(asyncio.Event()), 120)
    assert runner.reader.state.completed
    assert [one.reason for one in runner.reader.state.refused] == ["there is no config 'nobody': use one of c0, c1"]


async def test_a_race_runner_that_takes_over_sees_the_scores_of_earlier_comparison_points(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few entries are read at once, so the log is read long before the scores that its looks are about.
    monkeypatch.setattr(reading, "AT_ONCE", 7)
    scores = spread(5, 100, seed=5)
    log = raced(ExperimentState(plan(5, size=100), filled(scores)))
    decisive = next(place for place, entry in enumerate(log) if isinstance(entry, Command)) - 1
    for config, values in scores.items():
        await write(async_redis, config, range(100), values)
    for entry in [Begun(plan=plan(5, size=100)), *log[:decisive]]:
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
    reader = ExperimentReader(async_redis, STREAMS)
    await reader.read()
    found = race_decision(reader.state)
    assert len(found) > 1
    expected = log[decisive : decisive + len(found)]
    assert [entry.model_copy(update={"at": utc_now().min}) for entry in found] == [
        entry.model_copy(update={"at": utc_now().min}) for entry in expected
    ]


async def test_a_failure_of_redis_in_the_middle_of_a_read_loses_nothing_of_the_log(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 2)
    await async_redis.xadd(STREAMS.experiment, {"else": "another entry before the beginning"}, id="1-0")
    begun = Begun(plan=plan(2, size=20))
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: begun.encode()})
    for item in range(5):
        await async_redis.xadd(STREAMS.executions, {DATA_FIELD: executed("c0", item).encode()})
    reader = ExperimentReader(async_redis, STREAMS)
    calls = 0

    async def failing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RedisConnectionError("gone")
        return await read_after(*arguments, **options)

    monkeypatch.setattr(reading, "read_after", failing)
    with pytest.raises(RedisConnectionError):
        await reader.read()
    await reader.read()
    assert reader.begun
