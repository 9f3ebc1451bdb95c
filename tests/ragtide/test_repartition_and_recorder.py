from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import add, caught_up, event, interaction, recorded, recording, settings_of
from tests.support.conditions import until

from ragtide import ConfigurationError
from ragtide_aggregator.maintenance.repartition import Repartition, check_at_rest
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.keys import RECORD_GROUP, Streams
from ragtide_runtime.redis.log import last_id

STREAMS = Streams("ragtide", 0)


async def test_partitions_are_not_changed_before_everything_is_recorded(async_redis: Any) -> None:
    await async_redis.xgroup_create(STREAMS.alerts, RECORD_GROUP, id="0", mkstream=True)
    await check_at_rest(async_redis, STREAMS)
    await async_redis.set(STREAMS.recorder_lease, "1:host-5")
    with pytest.raises(ConfigurationError, match="has the recorder 1:host-5: stop all roles"):
        await check_at_rest(async_redis, STREAMS)
    await async_redis.delete(STREAMS.recorder_lease)
    last = await async_redis.xadd(STREAMS.alerts, {"data": "{}"}, id="5-0")
    with pytest.raises(ConfigurationError, match="not recorded: start ragtide recorder and stop it"):
        await check_at_rest(async_redis, STREAMS)
    await async_redis.xgroup_setid(STREAMS.alerts, RECORD_GROUP, last)
    await check_at_rest(async_redis, STREAMS)


async def test_copies_are_not_recorded_again_and_an_entry_that_only_says_it_is_one_is(
    async_redis: Any, tmp_path: Path
) -> None:
    pipelines = [f"p-{number}" for number in range(8)]
    events = [event(number, pipeline=name) for number, name in enumerate(pipelines)]
    await add(async_redis, EntryKind.METRICS, *events)
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    position = await last_id(async_redis, STREAMS.metrics)
    await async_redis.hset(STREAMS.checkpoint, mapping={"position": position, "feedback": "0-0"})
    await async_redis.xadd(STREAMS.dead_letters, {"data": "no dead letter"})
    await async_redis.xadd(STREAMS.dead_letters, {"other": "no dead letter"})
    old = settings_of(tmp_path / "r")
    new = old.model_copy(update={"partitions": 3})
    assert await Repartition(async_redis, old, new.layout).run() > 0
    copies = {token for streams in new.layout.all() for token in await _tokens(async_redis, streams)}
    assert len(copies) == 1
    target = Streams("ragtide", 1)
    for token in ("1", *copies):
        forged = interaction(len(token), pipeline=pipelines[0]).encode()
        await async_redis.xadd(target.interactions, {"data": forged, "moved": token})
        await async_redis.xadd(target.metrics, {"data": event(len(token) + 100).encode(), "moved": token})
    async with recording(async_redis, new):
        await until(lambda: _recorded_up_to_the_end(async_redis, new.layout.all()))
    assert len(recorded(tmp_path / "r", EntryKind.INTERACTIONS)) == 2
    names = [entry.model.interaction_id for entry in recorded(tmp_path / "r", EntryKind.METRICS)]  # type: ignore[attr-defined]
    assert sorted(names) == sorted([*(one.interaction_id for one in events), "i-101", "i-132"])


async def _tokens(redis: Any, streams: Streams) -> set[str]:
    return {fields[b"moved"].decode() for _, fields in await redis.xrange(streams.metrics) if b"moved" in fields}


async def _recorded_up_to_the_end(redis: Any, partitions: list[Streams]) -> bool:
    for streams in partitions:
        for kind in (EntryKind.INTERACTIONS, EntryKind.METRICS):
            groups = await redis.xinfo_groups(kind.stream(streams)) if await redis.exists(kind.stream(streams)) else []
            if [group["last-delivered-id"].decode() for group in groups] != [
                await last_id(redis, kind.stream(streams))
            ]:
                return False
    return True
