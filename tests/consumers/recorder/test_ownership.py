"""At most one recorder writes, and it follows its lease."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.recorder.running import (
    STREAMS,
    add,
    caught_up,
    event,
    interaction,
    recorded,
    recording,
    session_of,
    settings_of,
)
from tests.support.conditions import until

from ragtide_consumers.recorder import fence
from ragtide_consumers.recorder.writing import NotRecordableError
from ragtide_runtime.errors import LeaseLostError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.recordings.store import LocalStore
from ragtide_runtime.redis.keys import Streams


async def test_a_lease_that_ran_out_and_nobody_took_is_taken_back(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
        token = await async_redis.get(STREAMS.recorder_lease)
        await async_redis.delete(STREAMS.recorder_lease)
        expected = await add(async_redis, EntryKind.METRICS, event(0))
        await until(lambda: caught_up(async_redis))
        await until(lambda: async_redis.exists(STREAMS.recorder_lease))
        assert await async_redis.get(STREAMS.recorder_lease) == token
    assert recorded(tmp_path / "r", EntryKind.METRICS) == expected


async def test_of_two_recorders_one_stands_by_and_takes_over(async_redis: Any, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "r")
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5)))
    async with recording(async_redis, settings):
        async with recording(async_redis, settings) as first:
            await until(lambda: caught_up(async_redis))
            expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(5, 9)))
            await until(lambda: caught_up(async_redis))
            assert not first.done()
        expected += await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(9, 12)))
        await until(lambda: caught_up(async_redis))
    assert recorded(tmp_path / "r") == expected


@pytest.mark.parametrize("notices", [True, False])
async def test_an_owner_that_was_frozen_writes_nothing_twice(
    notices: bool, async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await add(async_redis, EntryKind.INTERACTIONS, *map(interaction, range(6)))
    frozen = await session_of(async_redis, tmp_path, "1:frozen")
    await frozen.take(0)
    other = await session_of(async_redis, tmp_path, "2:other")
    await other.take(0)
    await other.write()
    if not notices:  # the lease alone is not what keeps it from writing

        async def passes(_: fence.Fence, __: Any) -> None:
            """Find the lease held."""

        monkeypatch.setattr(fence.Fence, "check", passes)
    with pytest.raises(LeaseLostError):
        await frozen.write()
    assert recorded(tmp_path / "r") == expected
    assert Recording.open(str(tmp_path / "r")).verify() == []
    await session_of(async_redis, tmp_path, "3:next")
    names = {file.path for file in Recording.open(str(tmp_path / "r")).files("interactions")}
    assert set(LocalStore(tmp_path / "r").list("interactions")) == names, "what it left is removed"


async def test_a_place_belongs_to_one_deployment(async_redis: Any, tmp_path: Path) -> None:
    async with recording(async_redis, settings_of(tmp_path / "r")):
        await until(lambda: caught_up(async_redis))
    other = settings_of(tmp_path / "r").model_copy(update={"prefix": "other"})
    with pytest.raises(NotRecordableError, match="give each deployment a recorder"):
        async with recording(async_redis, other) as task:
            await asyncio.wait([task], timeout=120)
    assert not await async_redis.exists(Streams("other", 0).interactions)
