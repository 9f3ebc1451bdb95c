"""The judging of experiments: what counts, who is stopped, and the leaderboard, from the log and the scores alone."""

import asyncio
from typing import Any

import numpy as np
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.schemas.test_experiments import plan

from ragtide_aggregator.statistics.intervals import interval
from ragtide_offline.experiments import reader as reading
from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import Judging
from ragtide_offline.experiments.projecting import paired, projected
from ragtide_offline.experiments.racer import Racer
from ragtide_offline.experiments.reader import ExperimentReader
from ragtide_offline.experiments.results import Book, place_of
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
    Completed,
    Entry,
    Execution,
    IntervalOptions,
    Looked,
    Order,
    Progress,
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


def scored(book: Book, config: str, item: int, value: float | None) -> None:
    book.add_execution(executed(config, item))
    book.add_event(event(config, item, value))


def filled(scores: dict[str, list[float]]) -> Book:
    book = Book()
    for config, values in scores.items():
        for item, value in enumerate(values):
            scored(book, config, item, value)
    return book


def judged(book: Book, progress: Progress) -> list[Entry]:
    """Judge to the end; what is written is read back at once."""
    judging = Judging(progress, book)
    log: list[Entry] = []
    while entries := judging.next_entries():
        for entry in entries:
            assert judging.apply(entry) is None
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


# What counts.


def test_a_look_waits_for_every_config_that_runs_and_for_nobody_else() -> None:
    progress, book = Progress(plan(2, size=20)), Book()
    judging = Judging(progress, book)
    for item in range(5):
        scored(book, "c0", item, 0.5)
    for item in range(4):
        scored(book, "c1", item, 0.5)
    assert judging.next_entries() == []
    book.add_execution(executed("c1", 4))
    assert judging.next_entries() == []  # executed, but not labeled
    book.add_event(event("c1", 4, 0.5))
    (looked,) = judging.next_entries()
    assert isinstance(looked, Looked)
    assert looked.item == 5
    judging.apply(looked)
    judging.apply(Order(op="stop", config="c1"))
    for item in range(5, 10):
        scored(book, "c0", item, 0.5)
    assert [entry.kind for entry in judging.next_entries()] == ["looked"]


def test_failed_calls_and_answers_nobody_could_label_are_no_scores() -> None:
    progress, book = Progress(plan(2, size=10)), Book()
    for item in range(5):
        scored(book, "c0", item, 0.8)
        if item < 2:
            book.add_execution(executed("c1", item, failure="TimeoutError"))
        else:
            book.add_execution(executed("c1", item))
    book.add_event(event("c1", 2, 0.8))
    book.add_event(event("c1", 3, None))
    answer = RagInteraction(pipeline="c1", interaction_id="item-4", question="q", documents=["d"], response="r")
    payload, encoding = DeadLetter.encode_payload(answer.encode())
    book.add_letter(
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
    assert [book.cell("c1", item).outcome for item in range(5)] == [
        "failed", "failed", "scored", "scored", "unlabeled",
    ]  # fmt: skip
    judged(book, progress)
    assert progress.looked == 5
    rows = {row.name: row for row in board(progress, book).rows}
    row = rows["c1"]
    # The mean is over the one answer with a score: failures neither lower it nor make it surer.
    assert (row.n_items, row.n_failed, row.n_unlabeled, row.estimates[METRIC].n) == (5, 2, 1, 1)
    assert row.estimates[METRIC].estimate == pytest.approx(0.8)
    assert rows["c0"].estimates[METRIC].n == 5


def test_n_is_the_number_of_items_however_many_shards_there_are() -> None:
    # 10 items in 3 shards of 4, 3 and 3: nothing is multiplied with a size of shards.
    progress = Progress(plan(2, size=10, shards=3, race={"enabled": False, "look_every": 1}))
    book = filled({"c0": [0.5] * 10, "c1": [0.4] * 10})
    judging = Judging(progress, book)
    shards = []
    while not progress.completed:
        for entry in judging.next_entries():
            judging.apply(entry)
        found = board(progress, book)
        assert {row.estimates[METRIC].n for row in found.rows} == {progress.looked}
        shards.append(found.shard)
    assert shards == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


def test_a_clone_counts_on_the_items_since_it_came_and_does_not_start_again() -> None:
    progress = Progress(plan(1, size=20, race={"enabled": False}))
    book = filled({"c0": [0.5] * 20})
    judging = Judging(progress, book)
    for _ in range(2):
        for entry in judging.next_entries():
            judging.apply(entry)
    judging.apply(Order(op="clone", config="c0", clone="copy"))
    for item in range(10, 15):
        scored(book, "copy", item, 0.7)
    (looked,) = judging.next_entries()
    judging.apply(looked)
    rows = {row.name: row for row in board(progress, book).rows}
    assert (rows["c0"].n_items, rows["copy"].n_items, rows["copy"].parent) == (15, 5, "c0")
    ((n, gap),) = [found for found in paired(progress, book, "copy", ["c0"]) if found is not None]
    assert n == 5
    assert gap.estimate == pytest.approx(0.2)
    # At the end it is run on what it had missed; before that the experiment is not complete.
    for item in range(15, 20):
        scored(book, "copy", item, 0.7)
    for entry in judging.next_entries():
        judging.apply(entry)
    assert progress.all_looked
    assert judging.next_entries() == []
    for item in range(10):
        scored(book, "copy", item, 0.9)
    assert [entry.kind for entry in judging.next_entries()] == ["completed"]
    rows = {row.name: row for row in board(progress, book).rows}
    assert rows["copy"].estimates[METRIC].estimate == pytest.approx(0.8)


# The race.


def test_losers_are_stopped_with_their_evidence_and_the_best_is_left() -> None:
    progress = Progress(plan(8, size=200))
    book = filled(spread(8, 200))
    log = judged(book, progress)
    orders = [entry for entry in log if isinstance(entry, Order)]
    assert isinstance(log[-1], Completed)
    assert {order.config for order in orders} == {f"c{number}" for number in range(7)}
    assert [standing.config.name for standing in progress.running] == ["c7"]
    for order in orders:
        evidence = order.evidence
        assert evidence is not None
        assert (order.op, order.by) == ("stop", RACE)
        assert evidence.e_value * evidence.alpha >= 1
        assert evidence.item % 5 == 0
        assert evidence.n == evidence.item
        ours, theirs = (
            np.mean([book.cell(name, item).score(METRIC) for item in range(evidence.n)])
            for name in (evidence.by, order.config or "")
        )
        assert evidence.difference == pytest.approx(ours - theirs)
        assert evidence.lower <= evidence.difference <= evidence.upper
    # The worst goes first, and the race saves work.
    assert orders[0].config == "c0"
    found = board(progress, book)
    assert sum(row.n_items for row in found.rows) < 0.5 * 8 * 200
    assert found.leader is not None
    assert found.leader.name == "c7"


def test_whoever_reads_the_log_again_comes_to_the_same_decisions() -> None:
    scores = spread(6, 100, seed=3)
    log = judged(filled(scores), first := Progress(plan(6, size=100)))
    again = Judging(second := Progress(plan(6, size=100)), filled(scores))
    for place, entry in enumerate(log):
        if isinstance(entry, Looked):
            here = [one.model_copy(update={"at": entry.at}) for one in again.next_entries()]
            assert here == [one.model_copy(update={"at": entry.at}) for one in log[place : place + len(here)]]
        assert again.apply(entry) is None
    assert repr(first.configs) == repr(second.configs)


def test_a_person_may_overrule_the_race() -> None:
    progress = Progress(plan(2, size=100))
    book = filled({"c0": [0.2] * 100, "c1": [0.8] * 100})
    judging = Judging(progress, book)
    while len(progress.running) == 2:
        for entry in judging.next_entries():
            judging.apply(entry)
    assert [standing.config.name for standing in progress.running] == ["c1"]
    assert judging.apply(Order(op="resume", config="c0", by="ann", keep=True)) is None
    while found := judging.next_entries():
        for entry in found:
            judging.apply(entry)
    assert progress.completed
    assert {standing.status for standing in progress.configs.values()} == {"running"}
    assert all(row.status == "complete" for row in board(progress, book).rows)


def test_without_the_race_nobody_is_stopped() -> None:
    progress = Progress(plan(4, size=60, race={"enabled": False}))
    log = judged(filled(spread(4, 60)), progress)
    assert not [entry for entry in log if isinstance(entry, Order)]
    assert len(progress.running) == 4


def test_the_race_may_end_when_one_is_left() -> None:
    progress = Progress(plan(2, size=500, race={"finish": False}))
    judged(filled({"c0": [0.2] * 500, "c1": [0.8] * 500}), progress)
    assert progress.completed
    assert progress.looked < 100


def test_a_metric_may_be_better_when_it_is_lower() -> None:
    progress = Progress(plan(2, size=200, higher_is_better=False))
    book = filled({"c0": [0.2] * 200, "c1": [0.8] * 200})
    judged(book, progress)
    assert [standing.config.name for standing in progress.running] == ["c0"]
    assert [row.name for row in board(progress, book).rows] == ["c0", "c1"]


def test_an_order_in_between_makes_what_the_race_saw_stale() -> None:
    progress = Progress(plan(2, size=100))
    judging = Judging(progress, filled({"c0": [0.2] * 100, "c1": [0.8] * 100}))
    assert judging.next_entries()
    judging.apply(Order(op="stop", config="c0"))
    assert judging.stale


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
    hits = MetricDefinition("own.judging_hits", 0, 10, Direction.HIGHER, Kind.DISTRIBUTIVE, "Hits.", "test")
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
    progress = Progress(plan(2, size=200, race={"enabled": False}))
    book = filled(scores)
    judged(book, progress)
    assert progress.looked == 60
    ((n, gap),) = [found for found in paired(progress, book, "c1", ["c0"]) if found is not None]
    widths = [row.estimates[METRIC].upper - row.estimates[METRIC].lower for row in board(progress, book).rows]
    assert n == 60
    assert gap.estimate == pytest.approx(np.mean(scores["c1"]) - np.mean(scores["c0"]))
    assert (gap.upper - gap.lower) / 2 < min(widths)


def test_the_pareto_front_is_of_those_that_nobody_beats_in_both() -> None:
    progress = Progress(plan(3, size=10, race={"enabled": False}))
    book = Book()
    for item in range(10):
        for config, value, cost in (("c0", 0.5, 0.01), ("c1", 0.9, 0.05), ("c2", 0.4, 0.02)):
            book.add_execution(executed(config, item).model_copy(update={"cost_usd": cost}))
            book.add_event(event(config, item, value))
    judged(book, progress)
    found = board(progress, book)
    assert {row.name for row in found.rows if row.pareto} == {"c0", "c1"}
    assert found.cost_usd == pytest.approx(0.8)
    assert found.share_of_work == 1.0


def test_ids_of_other_interactions_are_no_items() -> None:
    assert [place_of(text) for text in ("item-7", "item-", "item-x", "7", "item-٣x")] == [7, None, None, None, None]


# The racer, on Redis.


async def write(redis: Any, config: str, items: range, values: list[float]) -> None:
    for item in items:
        await redis.xadd(STREAMS.executions, {DATA_FIELD: executed(config, item).encode()})
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: event(config, item, values[item]).encode()})


async def log_of(redis: Any) -> list[tuple[Any, ...]]:
    reader = ExperimentReader(redis, STREAMS)
    await reader.read()
    return [(order.op, order.config, order.evidence and order.evidence.item) for order in reader.orders]


async def test_racers_beside_each_other_and_after_each_other_decide_once(async_redis: Any) -> None:
    scores = spread(5, 100, seed=5)
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: Begun(plan=plan(5, size=100)).encode()})
    stop = asyncio.Event()
    for config, values in scores.items():
        await write(async_redis, config, range(50), values)
    # One that is gone after a while, then two beside each other.
    first = asyncio.create_task(Racer(async_redis, STREAMS).run(asyncio.Event()))
    await asyncio.sleep(0)
    first.cancel()
    racers = [asyncio.create_task(Racer(async_redis, STREAMS).run(stop)) for _ in range(2)]
    for config, values in scores.items():
        await write(async_redis, config, range(50, 100), values)
    await asyncio.wait_for(asyncio.gather(*racers), 120)
    expected = [
        (entry.op, entry.config, entry.evidence and entry.evidence.item)
        for entry in judged(filled(scores), Progress(plan(5, size=100)))
        if isinstance(entry, Order)
    ]
    assert await log_of(async_redis) == expected
    looks = [
        fields[DATA_FIELD]
        for _, fields in await async_redis.xrange(STREAMS.experiment)
        if b'"looked"' in fields[DATA_FIELD]
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
    racer = Racer(async_redis, STREAMS)
    await asyncio.wait_for(racer.run(asyncio.Event()), 120)
    assert racer.reader.progress.completed
    assert [why for _, why in racer.reader.refused] == ["there is no config 'nobody': use one of c0, c1"]


async def test_a_racer_that_takes_over_sees_what_the_looks_before_saw(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few entries are read at once, so the log is read long before the scores that its looks are about.
    monkeypatch.setattr(reading, "AT_ONCE", 7)
    scores = spread(5, 100, seed=5)
    log = judged(filled(scores), Progress(plan(5, size=100)))
    decisive = next(place for place, entry in enumerate(log) if isinstance(entry, Order)) - 1
    for config, values in scores.items():
        await write(async_redis, config, range(100), values)
    for entry in [Begun(plan=plan(5, size=100)), *log[:decisive]]:
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
    reader = ExperimentReader(async_redis, STREAMS, races=True)
    await reader.read()
    assert reader.judging is not None
    found = reader.judging.next_entries()
    assert len(found) > 1
    expected = log[decisive : decisive + len(found)]
    assert [entry.model_copy(update={"at": utc_now().min}) for entry in found] == [
        entry.model_copy(update={"at": utc_now().min}) for entry in expected
    ]


async def test_a_failure_of_redis_in_the_middle_of_a_read_loses_nothing_of_the_log(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 2)
    await async_redis.xadd(STREAMS.experiment, {"else": "an entry of somebody else before the beginning"}, id="1-0")
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
