"""Commands that meet: the log takes one of two equal commands, and the author of the other learns of it."""

import asyncio
from typing import Any

import pytest
from tests.support.experiment_plans import EVIDENCE, plan

from ragtide_offline.experiments.control import check_command, conflict_of, give_command
from ragtide_offline.experiments.errors import CommandConflictError, ExperimentError
from ragtide_offline.experiments.reader import ExperimentReader
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas.experiments import Begun, Command, Completed, Limits, LogEntry, Look, Paused, decode_entry

STREAMS = Streams("ragtide", 0)


async def write(redis: Any, *entries: LogEntry) -> str:
    last = b""
    for entry in entries:
        last = await redis.xadd(STREAMS.experiment, {DATA_FIELD: entry.encode()})
    return last.decode()


async def commands(redis: Any) -> list[Command]:
    found = [decode_entry(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.experiment)]
    return [one for one in found if isinstance(one, Command)]


async def give(redis: Any, command: Command, seen: str | None) -> bool:
    return await give_command(redis, STREAMS, ExperimentReader(redis, STREAMS, races=False), command, seen=seen)


async def test_of_two_who_press_stop_at_once_one_stops(async_redis: Any, redis_url: str) -> None:
    seen = await write(async_redis, Begun(plan=plan()))

    async def press(name: str) -> bool:
        # With a client of its own, as in a process of its own: clients of one pool wait for each other.
        async with connect_async(redis_url) as redis:
            await redis.ping()
            return await give(redis, Command(op="stop", config="#1", by=name), seen)

    both = await asyncio.gather(*(press(name) for name in ("ann", "bob") * 5), return_exceptions=True)
    assert both.count(False) == 1  # no driver runs
    assert sum(isinstance(one, CommandConflictError) for one in both) == 9
    assert [command.config for command in await commands(async_redis)] == ["c1"]


async def test_a_command_is_given_although_the_log_moved_on_elsewhere(async_redis: Any) -> None:
    seen = await write(async_redis, Begun(plan=plan()))
    await write(async_redis, Look(item=5), Command(op="stop", config="c2", by="bob"))
    await async_redis.xadd(STREAMS.experiment, {DATA_FIELD: b"no entry"})
    await async_redis.set(STREAMS.driver, "1")
    assert await give(async_redis, Command(op="stop", config="c1", by="ann"), seen)
    with pytest.raises(ExperimentError, match="is stopped already"):
        await give(async_redis, Command(op="stop", config="c1", by="ann"), None)


async def test_a_check_writes_nothing(async_redis: Any) -> None:
    await write(async_redis, Begun(plan=plan()))
    reader = ExperimentReader(async_redis, STREAMS, races=False)
    assert (await check_command(async_redis, STREAMS, reader, Command(op="stop", config="#2"))).config == "c2"
    assert await commands(async_redis) == []


STOP = Command(op="stop", config="c1", by="ann")
RESUME = Command(op="resume", config="c1", by="ann")
CLONE = Command(op="clone", config="c1", clone="new", by="ann")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("entry", "command", "words"),
    [
        (Command(op="stop", config="c1", by="race", evidence=EVIDENCE), STOP, "race gave the command stop to"),
        (Command(op="delete", config="c1", by="bob"), CLONE, "bob gave the command delete"),
        (Command(op="clone", config="c2", clone="new", by="bob"), CLONE, "bob added the config 'new'"),
        (Completed(), STOP, "was completed"),
        (Paused(reason="too dear"), RESUME, "this command continues it"),
        (Paused(reason="too dear"), STOP, None),
        (Look(item=5), STOP, None),
        (Command(op="limits", limits=Limits(max_tokens=5)), RESUME, None),
        (Command(op="stop", config="c2", by="bob"), STOP, None),
        (Command(op="clone", config="c1", clone="other", by="bob"), STOP, None),
    ],
)
def test_only_entries_that_change_the_meaning_are_conflicts(
    entry: LogEntry, command: Command, words: str | None
) -> None:
    found = conflict_of([entry], command)
    assert found is None if words is None else words in (found or "")
