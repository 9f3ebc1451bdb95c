"""Entries that Redis loses become void in the recording."""

from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    STREAMS,
    add,
    add_all,
    caught_up,
    event,
    interaction,
    recorded,
    recording,
    session_of,
    settings_of,
)
from tests.support.conditions import until

from ragtide_runtime.errors import StreamRollbackError
from ragtide_runtime.recordings import EntryKind, Recording


async def lose_tail(redis: Any, stream: str, count: int) -> None:
    """Take the last entries away, as a Redis that comes back without its last writes does."""
    entries = await redis.xrange(stream)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.delete(stream)
        for entry_id, fields in entries[:-count]:
            pipe.xadd(stream, fields, id=entry_id)
        await pipe.execute()


async def test_what_redis_lost_is_void(async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_consumers.recorder.session.ROLL_ENTRIES", 30)
    expected = (await add_all(async_redis, 0, 20))[EntryKind.METRICS]
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
        await lose_tail(async_redis, STREAMS.metrics, 7)
        # While it runs this is noticed at its next look, or at the next step.
        again = await add(async_redis, EntryKind.METRICS, *map(event, range(13, 17)))
        await until(lambda: caught_up(async_redis))
    found = Recording.open(str(tmp_path / "r"))
    assert list(found.entries("metrics")) == expected[:13] + again
    assert found.count("metrics") == 17
    assert found.count("interactions") == 20, "the other streams lost nothing"
    assert [e for table in found.tables("metrics") for e in table["entry_id"].to_pylist()] == [
        entry.entry_id for entry in expected[:13] + again
    ]


async def test_what_was_read_and_lost_before_it_was_written_is_not_recorded(async_redis: Any, tmp_path: Path) -> None:
    owner = await session_of(async_redis, tmp_path, "1:owner")
    expected = await add(async_redis, EntryKind.METRICS, *map(event, range(5)))
    await owner.take(0)
    await lose_tail(async_redis, STREAMS.metrics, 2)
    with pytest.raises(StreamRollbackError, match="lost entries that were read"):
        await owner.write()
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await async_redis.delete(STREAMS.recorder_lease)
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected[:3]


async def test_a_redis_that_was_emptied_does_not_void_the_archive(async_redis: Any, tmp_path: Path) -> None:
    before = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    await async_redis.flushall()
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
        after = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5, 8)))
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == before + after
