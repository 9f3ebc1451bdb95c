"""The owner loop: who owns a partition, for how long, and what ends it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from redis import ConnectionError as RedisConnectionError
from redis.asyncio import Redis
from structlog.testing import capture_logs
from tests.support.conditions import until

from ragtide_runtime.errors import ConfigurationError, LeaseLostError, StreamRollbackError
from ragtide_runtime.ownership import ownership as ownership_module
from ragtide_runtime.ownership.owner import PartitionOwner, Work
from ragtide_runtime.ownership.ownership import Lease, LeaseRole, Ownership
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout

STREAMS = Layout("ragtide", 3).all()
REFUSAL = ConfigurationError("another process works on it: wait for its end")


def lease_of(
    redis: Redis, streams: Streams = STREAMS[0], *, holder: str = "a", role: LeaseRole = "aggregator"
) -> Lease:
    return Lease(redis, streams, holder=holder, lease_s=0.6, role=role)


def owner_of(redis: Redis, work: Work, *, exclusive: bool = False, holder: str = "a") -> PartitionOwner:
    leases = [lease_of(redis, streams, holder=holder) for streams in STREAMS]
    telemetry = OwnerTelemetry("tester", len(STREAMS))
    return PartitionOwner(redis, leases, work, telemetry=telemetry, refusal=REFUSAL if exclusive else None)


@asynccontextmanager
async def running(owner: PartitionOwner) -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    task = asyncio.create_task(owner.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait([task])
    task.result()


async def until_stopped(ownership: Ownership) -> None:
    while not ownership.stop.is_set():
        ownership.check()
        await asyncio.sleep(0.01)


async def tokens(redis: Any) -> list[bytes | None]:
    return [await redis.get(streams.lease) for streams in STREAMS]


async def test_a_lease_that_ran_out_is_taken_back_unless_another_process_acquired_it(async_redis: Any) -> None:
    first, other = lease_of(async_redis), lease_of(async_redis, holder="b")
    token = (await first.acquire()).token
    assert token is not None
    await async_redis.delete(STREAMS[0].lease)  # it ran out
    with capture_logs() as logs:
        assert await first.renew(token)
        assert await first.renew(token)
    assert [line["event"].partition(":")[0] for line in logs] == ["a lease ran out and was taken back"]
    assert await async_redis.get(STREAMS[0].lease) == token.encode()
    await async_redis.delete(STREAMS[0].lease)
    taken = (await other.acquire()).token
    assert taken is not None
    assert not await first.renew(token)
    assert await other.release(taken)
    assert not await first.renew(token), "another process has owned the partition since"
    await async_redis.flushall()
    assert not await other.renew(taken), "the counter of tokens is gone"


async def test_each_role_has_a_lease_of_its_own(async_redis: Any) -> None:
    roles: list[LeaseRole] = ["aggregator", "recorder", "driver"]
    found = [await lease_of(async_redis, holder=role, role=role).acquire() for role in roles]
    assert all(one.token is not None for one in found)


async def test_a_lease_is_renewed_while_the_work_makes_progress_and_no_longer(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, renewals = Lease.renew, 0

    async def counted(self: Lease, token: str) -> bool:
        nonlocal renewals
        renewals += 1
        return await renew(self, token)

    monkeypatch.setattr(ownership_module, "PATIENCE", 4)
    monkeypatch.setattr(Lease, "renew", counted)
    lease = lease_of(async_redis)
    token = (await lease.acquire()).token
    assert token is not None
    ownership = Ownership([lease], [token])
    with capture_logs() as logs:
        async with ownership.renewing():
            while renewals < 8:  # more than the patience
                ownership.check()
                await asyncio.sleep(0.01)
            assert not logs
            await until(lambda: _no_lease(async_redis))
            assert [line["event"] for line in logs] == ["a step makes no progress: its lease is no longer renewed"]
            ownership.check()  # it goes on, and nobody else has come
            await until(lambda: async_redis.exists(STREAMS[0].lease))


async def test_ownership_is_certain_only_until_the_lease_may_have_run_out(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew = Lease.renew

    async def failing(self: Lease, token: str) -> bool:
        raise RedisConnectionError("gone")

    lease = lease_of(async_redis)
    token = (await lease.acquire()).token
    assert token is not None
    assert not Ownership([lease], [token], asked_s=monotonic() - lease.lease_s).certain
    ownership = Ownership([lease], [token])
    async with ownership.renewing():
        monkeypatch.setattr(Lease, "renew", failing)
        await until(lambda: not ownership.certain)
        ownership.check()  # it may still be taken back
        monkeypatch.setattr(Lease, "renew", renew)
        await until(lambda: ownership.certain)
        await async_redis.set(STREAMS[0].lease, "99:another", px=60_000)
        await until(lambda: not ownership.certain)
    with pytest.raises(LeaseLostError):
        ownership.check()


async def _no_lease(redis: Any) -> bool:
    return not await redis.exists(STREAMS[0].lease)


async def test_ownership_that_was_lost_says_so(async_redis: Any) -> None:
    lease = lease_of(async_redis)
    token = (await lease.acquire()).token
    assert token is not None
    ownership = Ownership([lease], [token])

    def lost() -> bool:
        try:
            ownership.check()
        except LeaseLostError:
            return True
        return False

    async with ownership.renewing():
        await async_redis.set(STREAMS[0].lease, "99:another")
        await until(lost)
    with pytest.raises(LeaseLostError, match="partition 0 had run out"):
        await ownership.release()


async def test_a_service_takes_every_partition_and_releases_all(async_redis: Any) -> None:
    async with running(owner_of(async_redis, until_stopped)):
        await until(lambda: _all_owned(async_redis, b":a:"))
    assert await tokens(async_redis) == [None] * 3


async def _all_owned(redis: Any, holder: bytes) -> bool:
    return all(token is not None and holder in token for token in await tokens(redis))


async def test_a_service_asks_again_when_work_ends_is_lost_or_fails(async_redis: Any) -> None:
    ends = [None, LeaseLostError("lost"), StreamRollbackError("gone"), RedisConnectionError("away")]
    seen: list[int] = []

    async def work(ownership: Ownership) -> None:
        (partition,) = ownership.tokens
        seen.append(partition)
        if partition == 1 and ends:
            end = ends.pop(0)
            if end is not None:
                raise end
            return
        await until_stopped(ownership)

    with capture_logs() as logs:
        async with running(owner_of(async_redis, work)):
            await until(lambda: seen.count(1) == 5)
            await until(lambda: _all_owned(async_redis, b":a:"))
    assert sorted(seen) == [0, 1, 1, 1, 1, 1, 2]
    lost = [line for line in logs if line["event"] == "partition lost: this tester no longer owns it"]
    assert [line["partition"] for line in lost] == [1, 1]


async def test_an_error_of_one_partition_ends_the_work_on_all(async_redis: Any) -> None:
    async def work(ownership: Ownership) -> None:
        if 1 in ownership.tokens:
            raise ConfigurationError("no such place")
        await until_stopped(ownership)

    with pytest.raises(ConfigurationError, match="no such place"):
        await owner_of(async_redis, work).run(asyncio.Event())
    assert await tokens(async_redis) == [None] * 3


async def test_a_standby_takes_over_when_the_leases_of_a_dead_process_have_run_out(async_redis: Any) -> None:
    for streams in STREAMS:
        await lease_of(async_redis, streams, holder="dead").acquire()
    async with running(owner_of(async_redis, until_stopped)) as task:
        await until(lambda: _all_owned(async_redis, b":a:"))
        assert not task.done()


async def test_an_exclusive_owner_works_on_all_partitions_at_once_until_its_work_is_done(async_redis: Any) -> None:
    owned: list[dict[int, str]] = []

    async def work(ownership: Ownership) -> None:
        owned.append(ownership.tokens)

    await owner_of(async_redis, work, exclusive=True).run(asyncio.Event())
    assert [list(one) for one in owned] == [[0, 1, 2]]
    assert await tokens(async_redis) == [None] * 3


async def test_an_exclusive_owner_waits_for_the_leases_of_a_dead_process(async_redis: Any) -> None:
    for streams in STREAMS:
        await lease_of(async_redis, streams, holder="dead").acquire()
    worked = asyncio.Event()

    async def work(_: Ownership) -> None:
        worked.set()

    await owner_of(async_redis, work, exclusive=True).run(asyncio.Event())
    assert worked.is_set()


async def test_an_exclusive_owner_refuses_while_a_live_process_owns_a_partition(async_redis: Any) -> None:
    first = owner_of(async_redis, until_stopped, exclusive=True)
    async with running(first):
        await until(lambda: _all_owned(async_redis, b":a:"))
        with pytest.raises(ConfigurationError, match="another process works on it"):
            await owner_of(async_redis, until_stopped, exclusive=True, holder="b").run(asyncio.Event())
        assert await _all_owned(async_redis, b":a:")


async def test_an_exclusive_owner_begins_again_when_it_lost_its_leases(async_redis: Any) -> None:
    tries = 0

    async def work(ownership: Ownership) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await async_redis.delete(*(streams.lease for streams in STREAMS))
            other = lease_of(async_redis, STREAMS[2], holder="b")
            assert (await other.acquire()).token is not None
            await until_stopped(ownership)

    await owner_of(async_redis, work, exclusive=True).run(asyncio.Event())
    assert tries == 2


async def test_an_exclusive_owner_ends_when_redis_fails(async_redis: Any) -> None:
    async def work(_: Ownership) -> None:
        raise RedisConnectionError("away")

    with pytest.raises(RedisConnectionError):
        await owner_of(async_redis, work, exclusive=True).run(asyncio.Event())
    assert await tokens(async_redis) == [None] * 3
