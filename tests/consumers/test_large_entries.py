"""Oversized entries: read one by one, cut when they become dead dead_letters, and no reason to stop."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest
from tests.consumers.test_worker import STREAMS, dead_letters, events, publish
from tests.support.conditions import until

from ragtide import LocalLabeler
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_consumers.worker.claims import Reclaimer
from ragtide_consumers.worker.results import StreamEntry
from ragtide_consumers.worker.worker import LabelWorker
from ragtide_runtime.redis import log
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.settings.model import load_settings
from ragtide_schemas import Reason
from ragtide_schemas.limits import ENTRY_MAX_BYTES, KEPT_BYTES


async def test_large_entries_are_read_few_at_once_and_small_ones_many(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "READ_BYTES", 400_000)
    reads: list[list[int]] = []
    take = LabelWorker.take

    async def noted(self: LabelWorker, entries: Sequence[StreamEntry]) -> None:
        reads.append([sum(map(len, entry.fields.values())) for entry in entries])
        await take(self, entries)

    monkeypatch.setattr(LabelWorker, "take", noted)
    for _ in range(12):
        await async_redis.xadd(STREAMS.interactions, {"data": b"\xff" * 190_000})
    await publish(async_redis, *["fine."] * 40)
    stop = asyncio.Event()
    running = asyncio.create_task(run_workers(load_settings(), redis_url, LocalLabeler(), stop))
    try:
        await until(lambda: _counts(async_redis, 12, 40))
    finally:
        stop.set()
        await running
    large = [read for read in reads if max(read) > 100_000]
    assert sum(map(len, large)) >= 12
    assert max(map(sum, large)) <= 400_000
    assert max(map(len, reads)) >= 10


async def _counts(redis: Any, dead: int, scored: int) -> bool:
    return (await redis.xlen(STREAMS.dead_letters), await redis.xlen(STREAMS.metrics)) == (dead, scored)


async def test_large_entries_that_a_dead_worker_left_are_taken_over_few_at_once(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "READ_BYTES", 400_000)
    await create_group(async_redis, STREAMS.interactions)
    for _ in range(6):
        await async_redis.xadd(STREAMS.interactions, {"data": b"\xff" * 190_000})
    await async_redis.xreadgroup(LABEL_GROUP, "dead", {STREAMS.interactions: ">"})
    reclaimer = Reclaimer(async_redis, STREAMS, consumer="me", min_idle_s=0)
    taken: list[int] = []
    while sum(taken) < 6:
        taken.append(len((await reclaimer.claim(64))[0]))
    assert max(taken) <= 2


async def test_of_an_oversized_entry_the_dead_letter_keeps_the_beginning(async_redis: Any, redis_url: str) -> None:
    payload = b'{"question": "' + b"x" * ENTRY_MAX_BYTES
    await async_redis.xadd(STREAMS.interactions, {"data": payload})
    await publish(async_redis, "fine.")
    stop = asyncio.Event()
    running = asyncio.create_task(run_workers(load_settings(), redis_url, LocalLabeler(), stop))
    try:
        await until(lambda: _counts(async_redis, 1, 1))
    finally:
        stop.set()
        await running
    (letter,) = await dead_letters(async_redis)
    assert letter.reason is Reason.TOO_LARGE
    assert letter.payload_bytes() == payload[:KEPT_BYTES]
    assert (letter.size_bytes, letter.sha256) == (len(payload), sha256(payload).hexdigest())
    assert await async_redis.memory_usage(STREAMS.dead_letters) < 3 * KEPT_BYTES
    assert len(await events(async_redis)) == 1
