"""Moves the history of pipelines to their new partitions, in a repartition.

The lists of closed panes are first copied beside the lists of the new partition, because that one may have a list of
the same key that goes elsewhere. Later the copies take their names. Each step may be repeated.
"""

from collections.abc import Mapping
from typing import cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..state.history import series_digest
from .known_copies import AT_ONCE


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
