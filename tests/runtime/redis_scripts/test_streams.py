"""Scripts on streams: appending on condition, pins, trimming, the size of a read."""

from typing import Any

import pytest

from ragtide_aggregator.service.trimming import trim_streams
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import LABEL_GROUP, RECORD_GROUP, Streams
from ragtide_runtime.redis.log import append_if_last, move_pin, pin, read_size, unpin
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)


async def ids(redis: Any, stream: str) -> list[str]:
    return [entry_id.decode() for entry_id, _ in await redis.xrange(stream)]


async def test_entries_are_appended_after_the_last_one_that_was_read(async_redis: Any) -> None:
    assert await append_if_last(async_redis, "s", START, [b"a", b"b"])
    last = (await ids(async_redis, "s"))[-1]
    assert await append_if_last(async_redis, "s", last, [b"c"])
    assert [fields[b"data"] for _, fields in await async_redis.xrange("s")] == [b"a", b"b", b"c"]


async def test_nothing_is_appended_if_another_entry_came_in_between(async_redis: Any) -> None:
    await append_if_last(async_redis, "s", START, [b"a"])
    assert not await append_if_last(async_redis, "s", START, [b"b"])
    assert await async_redis.xlen("s") == 1


@pytest.mark.parametrize("pins", [False, True])
async def test_a_pin_keeps_entries_from_being_trimmed_until_it_moves_on(async_redis: Any, pins: bool) -> None:
    added = [(await async_redis.xadd(STREAMS.interactions, {"data": "x"})).decode() for _ in range(5)]
    await async_redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="$")
    await async_redis.zadd(STREAMS.finished, {entry_id: int(entry_id.partition("-")[0]) for entry_id in added})
    if pins:
        for _ in range(2):  # the second time it is there
            await pin(async_redis, STREAMS.interactions, RECORD_GROUP)
        await move_pin(async_redis, STREAMS.interactions, RECORD_GROUP, added[1])
    trim = trim_streams(STREAMS, Settings(), START, START)
    await run_script(async_redis, trim)
    assert await ids(async_redis, STREAMS.interactions) == (added[2:] if pins else [])
    await unpin(async_redis, STREAMS.interactions, RECORD_GROUP)
    await unpin(async_redis, "no such stream", RECORD_GROUP)
    await run_script(async_redis, trim)
    assert await ids(async_redis, STREAMS.interactions) == []


async def test_trimming_reports_what_waits_and_what_its_caps_dropped(async_redis: Any) -> None:
    waiting = [(await async_redis.xadd(STREAMS.interactions, {"data": "x"})).decode() for _ in range(5)]
    scored = (await async_redis.xadd(STREAMS.metrics, {"data": "x"})).decode()
    seen = await run_script(async_redis, trim_streams(STREAMS, Settings(interactions_cap=3), START, START))
    assert seen.oldest_waiting_ms == int(waiting[2].partition("-")[0])
    assert seen.last_scored_ms == int(scored.partition("-")[0])
    assert seen.dropped == {"capped": 2}
    again = await run_script(async_redis, trim_streams(STREAMS, Settings(interactions_cap=3), START, START))
    assert (again.dropped, again.oldest_waiting_ms) == (seen.dropped, seen.oldest_waiting_ms)


async def test_a_read_takes_as_many_entries_as_its_bytes_allow(async_redis: Any) -> None:
    for _ in range(10):
        await async_redis.xadd("s", {"data": b"x" * 10_000})
    assert await run_script(async_redis, read_size({"s": START}, 100, 10**9)) == 100
    assert await run_script(async_redis, read_size({"s": START}, 100, 35_000)) == 3
    assert await run_script(async_redis, read_size({"s": START}, 100, 1)) == 1
