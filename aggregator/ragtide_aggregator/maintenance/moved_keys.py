"""Moves keys to other partitions in a repartition: data about interaction ids, and the history of pipelines.

The lists of closed panes are first copied beside the lists of the new partition, because that one may have a list of
the same key that goes elsewhere. Later the copies take their names. Each step may be repeated.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.known_ids import copy_ids, without_entries
from ragtide_runtime.redis.scripts import run_script

from ..state.history import series_digest

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


def series_in(fields: Mapping[str, bytes]) -> dict[str, str]:
    """Return the keys that have a history in the fields of a checkpoint, by the digest in the names of their lists."""
    prefix = CheckpointField.HISTORY_SERIES
    names = [name.removeprefix(prefix) for name in fields if name.startswith(prefix)]
    return {series_digest(name): name for name in names}


async def copy_history(redis: Redis, streams: Streams, targets: Mapping[str, Streams]) -> None:
    """Copy lists of a partition beside the lists of other partitions, with the time at which they expire.

    Args:
        redis: client.
        streams: the partition.
        targets: new partition of each list, by the digest in its name; lists without one are not copied.
    """
    for rest in await _lists(redis, streams.history("*")):
        target = targets.get(rest.partition(":")[0])
        if target is None:
            continue
        source, copy = streams.history(rest), target.next_history(rest)
        await redis.delete(copy)
        expires_ms, start = await redis.pttl(source), 0
        while records := cast("list[bytes]", await redis.lrange(source, start, start + AT_ONCE - 1)):
            await redis.rpush(copy, *records)
            start += len(records)
        if expires_ms > 0:
            await redis.pexpire(copy, expires_ms)


async def take_history(redis: Redis, streams: Streams) -> None:
    """Give the copies in a partition their names."""
    for rest in await _lists(redis, streams.next_history("*")):
        await redis.rename(streams.next_history(rest), streams.history(rest))


async def drop_other_history(redis: Redis, streams: Streams) -> None:
    """Delete the lists of a partition whose keys its checkpoint does not have: they have moved."""
    stored = cast("list[bytes]", await redis.hkeys(streams.checkpoint))
    mine = series_in({name.decode(errors="replace"): b"" for name in stored})
    for rest in await _lists(redis, streams.history("*")):
        if rest.partition(":")[0] not in mine:
            await redis.unlink(streams.history(rest))


async def _lists(redis: Redis, pattern: str) -> set[str]:
    beginning = len(pattern) - 1
    return {name.decode()[beginning:] async for name in redis.scan_iter(match=pattern, count=AT_ONCE)}
