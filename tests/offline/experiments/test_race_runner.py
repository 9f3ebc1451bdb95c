"""The race runner and the reader of an experiment, on Redis."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.offline.experiments.scores import STREAMS, executed, filled, raced, spread, write
from tests.support.experiment_plans import plan

from ragtide_offline.experiments import reader as reading
from ragtide_offline.experiments.board import board
from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.driver import RaceRunner
from ragtide_offline.experiments.reader import ExperimentReader
from ragtide_offline.experiments.state import ExperimentState
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.log import read_after
from ragtide_schemas import (
    utc_now,
)
from ragtide_schemas.experiments import (
    Begun,
    Command,
    LogEntry,
    Look,
)


async def log_of(redis: Any) -> list[tuple[Any, ...]]:
    reader = ExperimentReader(redis, STREAMS)
    await reader.read()
    commands = (command.command for command in reader.state.commands)
    return [(command.op, command.config, command.evidence and command.evidence.item) for command in commands]


async def test_race_runners_beside_each_other_and_after_each_other_decide_once(async_redis: Any) -> None:
    scores = spread(5, 100, seed=5)
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: Begun(plan=plan(5, size=100)).encode()})
    stop = asyncio.Event()
    for config, values in scores.items():
        await write(async_redis, config, range(50), values)
    # One that is gone after a while, then two beside each other.
    first = asyncio.create_task(RaceRunner(async_redis, STREAMS).run(asyncio.Event()))
    await asyncio.sleep(0)
    await end(first)
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
    for payload in (b"{", b'{"kind": "command", "op": "stop", "config": "nobody"}', b"[]"):
        await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: payload})
    await async_redis.xadd(STREAMS.experiment, {"other": b"field"})
    await async_redis.xadd(STREAMS.metrics, {DATA_FIELD: b"garbage"})
    for config in ("c0", "c1"):
        await write(async_redis, config, range(10), [0.5] * 10)
    runner = RaceRunner(async_redis, STREAMS)
    await asyncio.wait_for(runner.run(asyncio.Event()), 120)
    assert runner.reader.state.completed
    assert [one.reason for one in runner.reader.state.refused] == ["there is no config 'nobody'. There are: c0, c1"]


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
