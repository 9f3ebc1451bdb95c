"""Consumer groups: reads, claims that are kept or taken over, and the removal of consumers."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from .entries import START, Entry
from .failures import is_missing
from .scripts import Lua, ScriptCall

_Read = list[tuple[str, Entry]]

RENEW: Final = Lua("renew_claims")
DELETE_IDLE: Final = Lua("delete_idle_consumers")

RELEASED_S: Final = 864_000
"""Idle seconds of an entry that its consumer has released: longer than any time after which others take over."""


def renew_claims(stream: str, group: str, consumer: str, entry_ids: Sequence[str]) -> ScriptCall[int]:
    """Return the call that makes entries look just delivered; its reply is how many the consumer still has."""
    return ScriptCall(RENEW, (stream,), (group, consumer, *entry_ids), int)


def delete_idle_consumers(stream: str, group: str, consumers: Sequence[str | bytes]) -> ScriptCall[int]:
    """Return the call that deletes those of the consumers without entries; its reply is their number."""
    return ScriptCall(DELETE_IDLE, (stream,), (group, *consumers), int)


async def create_group(redis: Redis, stream: str, group: str, position: str) -> bool:
    """Create a consumer group, and its stream if there is none; return False if the group exists.

    Args:
        redis: client.
        stream: key of the stream.
        group: name of the group.
        position: id after which the group begins to read; `$` for the last entry.

    Raises:
        redis.RedisError: Redis failed.
    """
    try:
        await redis.xgroup_create(stream, group, id=position, mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise
        return False
    return True


async def create_groups(redis: Redis, streams: Sequence[str], group: str, *, from_start: bool) -> None:
    """Create a consumer group where it is missing; a group that exists keeps its position.

    In a partition that is newer than the group it begins with the first entry. The group of the first partition is
    created last: while it is missing, a missing group elsewhere is as new as this one.

    Args:
        redis: client.
        streams: keys of the streams, of partition 0 first.
        group: name of the group.
        from_start: whether a new group begins with the first entry instead of the next entry.

    Raises:
        redis.RedisError: Redis failed.
    """
    first = streams[0]
    exists = await group_position(redis, first, group) is not None
    for stream in (*streams[1:], first):
        await create_group(redis, stream, group, START if exists or from_start else "$")


async def group_position(redis: Redis, stream: str, group: str) -> str | None:
    """Return the id of the last entry that was delivered to a group; None if there is no such group or stream.

    Raises:
        redis.RedisError: Redis failed.
    """
    try:
        groups = await redis.xinfo_groups(stream)
    except ResponseError as error:
        if not is_missing(error):
            raise
        return None
    return next((info["last-delivered-id"].decode() for info in groups if info["name"] == group.encode()), None)


async def read_group(
    redis: Redis,
    streams: Sequence[str],
    group: str,
    consumer: str,
    *,
    own: bool,
    block_ms: int | None = None,
    count: int = 1,
) -> list[tuple[str, Entry]]:
    """Return entries of each stream: the next entries of the group, or the oldest ones that the consumer holds.

    A cluster gets one read for each partition. If a read fails, entries that other reads took stay with the consumer.

    Args:
        redis: client.
        streams: keys of the streams.
        group: name of the group.
        consumer: name of the consumer.
        own: read the entries that the consumer holds; one that was deleted from the stream has no fields.
        block_ms: milliseconds to wait if there is no next entry; None not to wait.
        count: most entries of each stream.

    Raises:
        redis.RedisError: Redis failed, or a group was removed (NOGROUP).
    """
    after: Literal["0", ">"] = "0" if own else ">"
    if not isinstance(redis, RedisCluster):
        return await _read(redis, group, consumer, dict.fromkeys(streams, after), block_ms, count)
    partitions: defaultdict[int, list[str]] = defaultdict(list)
    for stream in streams:
        partitions[redis.keyslot(stream)].append(stream)
    reads = [_read(redis, group, consumer, dict.fromkeys(some, after), block_ms, count) for some in partitions.values()]
    return [entry for partition in await asyncio.gather(*reads) for entry in partition]


async def _read(  # noqa: PLR0917 - the words of one command
    redis: Redis, group: str, consumer: str, wanted: dict[Any, Any], block_ms: int | None, count: int
) -> _Read:
    reply = await redis.xreadgroup(group, consumer, wanted, count=count, block=block_ms)
    read = cast("list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes] | None]]]]", reply)
    return [
        (name.decode(), Entry(entry_id.decode(), fields or {}))
        for name, entries in read
        for entry_id, fields in entries
    ]


async def claim_abandoned(
    redis: Redis, stream: str, group: str, consumer: str, *, min_idle_s: float, count: int = 1
) -> None:
    """Take over the oldest entries that their consumers have neither finished nor renewed for so long.

    Args:
        redis: client.
        stream: key of the stream.
        group: name of the group.
        consumer: name of the consumer that takes over.
        min_idle_s: seconds.
        count: most entries.

    Raises:
        redis.RedisError: Redis failed, or the group was removed (NOGROUP).
    """
    idle_ms = max(int(1000 * min_idle_s), 1)
    claims = await redis.xpending_range(stream, group, min="-", max="+", count=count, idle=idle_ms)
    ids = [info["message_id"] for info in cast("list[dict[str, Any]]", claims)]
    if ids:
        await redis.xclaim(stream, group, consumer, idle_ms, ids, justid=True)


async def release(redis: Redis, stream: str, group: str, consumer: str, entry_ids: Sequence[str]) -> None:
    """Let others take over entries at once: the entries count as not renewed for `RELEASED_S`.

    Raises:
        redis.RedisError: Redis failed, or the group was removed (NOGROUP).
    """
    ids: list[Any] = list(entry_ids)
    await redis.xclaim(stream, group, consumer, 0, ids, idle=1000 * RELEASED_S, justid=True)
