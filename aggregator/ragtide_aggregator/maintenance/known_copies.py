"""Copies the data about interaction ids from one partition to others: owners, metric events, graded metrics."""

from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.known_ids import copy_ids, without_entries
from ragtide_runtime.redis.scripts import run_script

KEYS: Final = ("owner", "graded", "scored")
"""Families of keys that hold one interaction each."""

BUCKETS: Final = ("owners", "events")
"""Families of keys that hold many interactions each (`known_ids.py`)."""

AT_ONCE: Final = 500
"""Entries or keys copied in one round trip."""


async def copy_keys(redis: Redis, source: Streams, kind: str, targets: list[Streams]) -> None:
    """Copy all keys of a kind to other partitions with their remaining lifetime; existing values stay."""
    if not targets:
        return
    names: list[str] = []
    async for key in redis.scan_iter(match=getattr(source, kind)("*"), count=AT_ONCE):
        names.append(key.decode())
        if len(names) == AT_ONCE:
            await _copy_some(redis, source, names, kind, targets)
            names = []
    await _copy_some(redis, source, names, kind, targets)


async def _copy_some(redis: Redis, source: Streams, names: list[str], kind: str, targets: list[Streams]) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.pttl(name)
            if kind == "graded":
                pipe.smembers(name)
            else:
                pipe.get(name)
        replies: list[Any] = await pipe.execute()
    digests = [name.rpartition(":")[2] for name in names]
    for target in targets:
        async with redis.pipeline(transaction=False) as pipe:
            for digest, ttl_ms, data in zip(digests, replies[::2], replies[1::2], strict=True):
                if ttl_ms <= 0 or not data:
                    continue
                name = getattr(target, kind)(digest)
                if kind == "graded":
                    pipe.sadd(name, *data)
                    pipe.pexpire(name, ttl_ms)
                else:
                    # Copies of metric events get new entry ids, which the caller writes afterwards.
                    pipe.set(name, START if kind == "scored" else data, px=ttl_ms, nx=True)
            await pipe.execute()


async def copy_buckets(redis: Redis, source: Streams, kind: str, targets: list[Streams]) -> None:
    """Copy buckets of known ids to the same buckets of other partitions, with their remaining lifetime."""
    if not targets:
        return
    async for key in redis.scan_iter(match=getattr(source, kind)("*"), count=AT_ONCE):
        ttl_ms = await redis.pttl(key)
        groups = cast("list[bytes]", await redis.hvals(key))
        if kind == "events":  # as above
            groups = [without_entries(group) for group in groups]
        shard_and_bucket = key.decode().partition(f":{kind}:")[2]
        for target in targets:
            name = getattr(target, kind)(shard_and_bucket)
            for start in range(0, len(groups), AT_ONCE):
                await run_script(redis, copy_ids(name, groups[start : start + AT_ONCE], ttl_ms))
