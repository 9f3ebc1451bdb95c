import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.aggregator.test_service import SETTINGS, STATE
from tests.support.aggregator_settings import changed
from tests.support.conditions import until
from tests.support.metric_events import adherence, beta

from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_runtime.ownership.owner import Membership
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import DATA_FIELD, Streams

PARTITIONS = 6


@asynccontextmanager
async def running(redis: Any, holder: str) -> AsyncIterator[Aggregator]:
    stop = asyncio.Event()
    aggregator = Aggregator(redis, changed(SETTINGS, partitions=PARTITIONS), holder=holder)
    task = asyncio.create_task(aggregator.run(stop))
    try:
        yield aggregator
    finally:
        stop.set()
        await task


async def owners(redis: Any) -> dict[int, str]:
    tokens = {partition: await redis.get(Streams("ragtide", partition).lease) for partition in range(PARTITIONS)}
    return {partition: token.decode().split(":")[1] for partition, token in tokens.items() if token is not None}


async def shares(redis: Any) -> list[int]:
    found = list((await owners(redis)).values())
    return sorted(found.count(name) for name in set(found))


async def counted(redis: Any, partition: int) -> int:
    state = (await load_checkpoint(redis, Streams("ragtide", partition), STATE)).state
    return sum(int(state.moments.n(row)) for row, key in enumerate(state.keys) if key.metric == "trace.adherence")


@pytest.mark.heavy
async def test_aggregators_share_the_partitions_anew_when_one_comes_or_goes(async_redis: Any) -> None:
    events = [event.encode() for event in adherence(beta(0.85, 300, 1))]
    published = 0

    async def publish(count: int) -> None:
        nonlocal published
        for event in events[published : published + count]:
            for partition in range(PARTITIONS):
                await async_redis.xadd(Streams("ragtide", partition).metrics, {DATA_FIELD: event})
        published += count

    async def all_counted() -> bool:
        return [await counted(async_redis, partition) for partition in range(PARTITIONS)] == [published] * PARTITIONS

    async def shared(*wanted: int) -> bool:
        return await shares(async_redis) == list(wanted)

    async with running(async_redis, "first"):
        await publish(50)
        await until(lambda: shared(6))
        async with running(async_redis, "second"):
            await publish(50)
            await until(lambda: shared(3, 3))
            async with running(async_redis, "third"):
                await publish(50)
                await until(lambda: shared(2, 2, 2))
                await publish(50)
                await until(all_counted)
            await until(lambda: shared(3, 3))
            await publish(50)
        await until(lambda: shared(6))
        await publish(50)
        await until(all_counted)
    assert await owners(async_redis) == {}


async def test_an_owner_that_vanishes_is_replaced_when_its_leases_run_out(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, leave = Lease.release, Membership.leave

    async def releasing(self: Lease, token: str) -> bool:
        return self.holder.startswith("doomed") or await release(self, token)

    async def leaving(self: Membership) -> None:
        if not self.member.startswith("doomed"):
            await leave(self)

    async with running(async_redis, "survivor"):
        doomed, stop = (
            Aggregator(async_redis, changed(SETTINGS, partitions=PARTITIONS), holder="doomed"),
            asyncio.Event(),
        )
        task = asyncio.create_task(doomed.run(stop))

        async def shared(*wanted: int) -> bool:
            return await shares(async_redis) == list(wanted)

        await until(lambda: shared(3, 3))
        # As after a kill, nothing is released.
        monkeypatch.setattr(Lease, "release", releasing)
        monkeypatch.setattr(Membership, "leave", leaving)
        stop.set()
        await task
        await until(lambda: shared(6))
