"""Redis streams as logs: reads of bounded size, appends that require a certain last entry, and pins.

A pin keeps entries from being trimmed.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, cast

from redis import ResponseError
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from .entries import START, Entry, order
from .failures import is_missing
from .scripts import Lua, ScriptCall, run_script

READ_BYTES: Final = 32 * 1024 * 1024
"""About how many bytes one read takes at most. An entry that is larger is read alone."""

SAMPLES: Final = 1000
"""Nodes of a stream that are looked at."""

NO_SIZES: Final = ("permission", "ACL failure", "can't run this command", "nknown")
"""Words in the error of a Redis that reports no sizes: an ACL forbids it, or a service has no `MEMORY USAGE`."""

SIZE: Final = Lua("read_size")


def read_size(positions: Mapping[str, str], most: int, most_bytes: int, group: str = "") -> ScriptCall[int]:
    """Return the call that counts the entries that one read of streams may take.

    Args:
        positions: the id after which each stream of a partition is read; any text for a group.
        most: most entries of a stream.
        most_bytes: most bytes of these entries, unless a single entry has more.
        group: consumer group that reads; empty for a reader with positions of its own.
    """
    return ScriptCall(SIZE, tuple(positions), (most, most_bytes, SAMPLES, group, *positions.values()), int)


class ReadSize:
    """Determines the number of entries that the next read takes.

    Args:
        redis: client.
        group: consumer group that reads; None for a reader with positions of its own.
        read_bytes: about how many bytes one read takes at most; None for `READ_BYTES`.
    """

    def __init__(self, redis: Redis, group: str | None = None, *, read_bytes: int | None = None) -> None:
        self._group = group or ""
        self._read_bytes = READ_BYTES if read_bytes is None else read_bytes
        self._redis = redis
        self._sizes_known = True

    async def next(self, positions: Mapping[str, str], most: int) -> int:
        """Return how many entries of each stream the next read takes, at most `most`.

        Args:
            positions: the id after which each stream of a partition is read; any text for a group.
            most: most entries, however small they are.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._sizes_known:
            return most
        try:
            return await run_script(self._redis, read_size(positions, most, self._read_bytes, self._group))
        except ResponseError as error:
            if not any(words in str(error) for words in NO_SIZES):
                raise
            self._sizes_known = False
            return most


APPEND: Final = Lua("append_if_last")

READ_AT_ONCE: Final = 1000
"""Entries read in one round trip."""


async def read_range(redis: Redis, stream: str, *, first: str = "-", last: str = "+", count: int) -> list[Entry]:
    """Return entries from `first` to `last`; `(id` excludes the entry with that id."""
    return _entries(await redis.xrange(stream, min=first, max=last, count=count))


async def read_ranges(redis: Redis, firsts: Mapping[str, str], *, count: int) -> dict[str, list[Entry]]:
    """Return the entries from an id on in each of several streams, all in one round trip.

    Args:
        redis: client.
        firsts: for each stream the id of the first entry.
        count: most entries of each stream.
    """
    async with redis.pipeline(transaction=False) as pipe:
        for stream, first in firsts.items():
            pipe.xrange(stream, min=first, count=count)
        replies = await pipe.execute()
    return {stream: _entries(reply) for stream, reply in zip(firsts, replies, strict=True)}


async def read_all(
    redis: Redis, stream: str, *, after: str = START, page_bytes: int = READ_BYTES
) -> AsyncGenerator[Entry]:
    """Yield the entries of a stream, the oldest first, with one page of them in memory at a time.

    Args:
        redis: client.
        stream: key of the stream.
        after: id after which to begin.
        page_bytes: about how many bytes a page has at most.
    """
    size = ReadSize(redis, read_bytes=page_bytes)
    while entries := await read_range(
        redis, stream, first=f"({after}", count=await size.next({stream: after}, READ_AT_ONCE)
    ):
        for entry in entries:
            yield entry
        after = entries[-1].entry_id


async def last_id(redis: Redis, stream: str) -> str:
    """Return the id of the last entry that was ever added to a stream, trimmed or not; `0-0` without a stream."""
    try:
        return cast("bytes", (await redis.xinfo_stream(stream))["last-generated-id"]).decode()
    except ResponseError as error:
        if not is_missing(error):
            raise
        return START


async def end_at(redis: Redis, stream: str, position: str) -> str:
    """Return a position, or the last entry before it if Redis lost the entry there; a trimmed entry is not lost."""
    if position == START or await read_range(redis, stream, first=position, last=position, count=1):
        return position
    last = await last_id(redis, stream)
    if order(last) < order(position):
        return last
    before = await redis.xrevrange(stream, max=position, count=1)
    return cast("bytes", before[0][0]).decode() if before else position


async def read_last(redis: Redis, stream: str) -> Entry | None:
    """Return the last entry; None if the stream is empty."""
    entries = _entries(await redis.xrevrange(stream, count=1))
    return entries[0] if entries else None


async def read_after(
    redis: Redis, positions: Mapping[str, str], *, count: int, block_ms: int | None
) -> list[tuple[str, list[Entry]]]:
    """Return the entries after a position in each stream; wait for the first entry on request.

    A cluster gets one read for each partition, because partitions are on different nodes. All reads must answer.

    Args:
        redis: client.
        positions: for each stream the id after which to read.
        count: most entries of each stream.
        block_ms: milliseconds to wait if there is nothing; None not to wait.
    """
    if isinstance(redis, RedisCluster):
        partitions: defaultdict[int, dict[str, str]] = defaultdict(dict)
        for stream, position in positions.items():
            partitions[redis.keyslot(stream)][stream] = position
        reads = [_read(redis, some, count, block_ms) for some in partitions.values()]
        return [entry for partition in await asyncio.gather(*reads) for entry in partition]
    return await _read(redis, positions, count, block_ms)


async def _read(
    redis: Redis, positions: Mapping[str, str], count: int, block_ms: int | None
) -> list[tuple[str, list[Entry]]]:
    wanted: dict[Any, Any] = dict(positions)
    reply = cast("list[tuple[bytes, Any]]", await redis.xread(wanted, count=count, block=block_ms))
    return [(name.decode(), _entries(entries)) for name, entries in reply]


def _entries(reply: Any) -> list[Entry]:
    return [Entry(entry_id.decode(), fields) for entry_id, fields in reply]


async def append_if_last(redis: Redis, stream: str, last: str, models: Sequence[bytes]) -> bool:
    """Append entries if the last entry of a stream is still `last`; return whether they were appended.

    Several processes can follow one log: the first process to decide appends, and the others read its entries.

    Args:
        redis: client.
        last: id of the last entry that was read; `START` for none.
        models: the JSON of each entry.

    Raises:
        redis.RedisError: they may or may not have been appended.
    """
    return await run_script(redis, append_call(stream, last, models))


def append_call(stream: str, last: str, models: Sequence[bytes]) -> ScriptCall[bool]:
    """Return the call of `append_if_last`."""
    return ScriptCall(APPEND, (stream,), (last, *models), bool)


async def pin(redis: Redis, stream: str, group: str) -> None:
    """Create a consumer group at the first entry of a stream; an existing group stays at its position.

    Entries are not trimmed before the group has finished them. A group that reads nothing is only a pin: `move_pin`
    moves it, and `unpin` removes it.

    Raises:
        redis.RedisError: Redis failed.
    """
    try:
        await redis.xgroup_create(stream, group, id=START, mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


async def move_pin(redis: Redis, stream: str, group: str, position: str) -> None:
    """Allow the entries up to a position to be trimmed.

    Raises:
        redis.RedisError: Redis failed, or there is no such pin.
    """
    await redis.xgroup_setid(stream, group, position)


async def unpin(redis: Redis, stream: str, group: str) -> None:
    """Remove a pin; a pin or stream that does not exist is no error.

    Raises:
        redis.RedisError: Redis failed.
    """
    try:
        await redis.xgroup_destroy(stream, group)
    except ResponseError as error:
        if not is_missing(error):
            raise
