"""Abandoned entries: a worker takes over the entries of dead workers, and releases its own when it stops."""

from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.redis.log import START
from ragtide_runtime.redis.read_size import ReadSize
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script

from .entries import StreamEntry

UNCOUNT: Final = Lua("uncount_deliveries")
DELETE_IDLE: Final = Lua("delete_idle_consumers")


def uncount_deliveries(stream: str, consumer: str, entry_ids: Sequence[str]) -> ScriptCall[int]:
    """Return the call that takes one delivery off entries, and returns how many the consumer still has."""
    return ScriptCall(UNCOUNT, (stream,), (LABEL_GROUP, consumer, *entry_ids), int)


def delete_idle_consumers(stream: str, consumers: Sequence[str | bytes]) -> ScriptCall[int]:
    """Return the call that deletes those of the consumers without entries, and returns how many there were."""
    return ScriptCall(DELETE_IDLE, (stream,), (LABEL_GROUP, *consumers), int)


class Reclaimer:
    """Takes over abandoned entries of one partition with XAUTOCLAIM, a few at a time; releases this worker's own."""

    def __init__(self, redis: Redis, streams: Streams, *, consumer: str, min_idle_s: float) -> None:
        self._redis = redis
        self._stream = streams.interactions
        self._read_size = ReadSize(redis)
        self._consumer = consumer
        self._min_idle_ms = int(min_idle_s * 1000)
        self._cursor: bytes | str = "0-0"

    async def claim(self, count: int) -> tuple[list[StreamEntry], bool]:
        """Return at most `count` abandoned entries, now this worker's, and whether the whole list has been scanned.

        It takes fewer entries at once if they are large, because other workers may have died on them.

        An entry that was deleted from the stream while it was pending is returned without fields.
        """
        # Choose the size from the start of the stream: it is not known yet which entries are abandoned.
        count = await self._read_size.next({self._stream: START}, count)
        reply = await self._redis.xautoclaim(
            self._stream, LABEL_GROUP, self._consumer, self._min_idle_ms, start_id=self._cursor, count=count
        )
        self._cursor, claimed = reply[0], reply[1]
        scanned = self._cursor in (b"0-0", "0-0")
        # From 7.0 on Redis acknowledges a deleted entry when it is claimed, and returns its id apart.
        acknowledged = [
            StreamEntry(entry_id.decode(), {}, pending=False) for entry_id in (reply[2] if len(reply) > 2 else ())
        ]
        if not claimed:
            return acknowledged, scanned
        deliveries = await self._deliveries()
        entries = [
            StreamEntry(entry_id.decode(), fields, deliveries.get(entry_id, 1))
            for entry_id, fields in claimed
            if entry_id is not None
        ]
        # Redis 6.2 answers a deleted entry with nil, without its id: find which of ours no longer exist.
        if len(entries) < len(claimed):
            entries += [StreamEntry(entry_id.decode(), {}, n) for entry_id, n in await self._deleted(deliveries)]
        return entries + acknowledged, scanned

    async def uncount(self, entry_ids: Sequence[str]) -> None:
        """Take one delivery off entries of this worker, because their labeler was not asked or was unavailable."""
        if entry_ids:
            await run_script(self._redis, uncount_deliveries(self._stream, self._consumer, entry_ids))

    async def release_pending(self, tried: Collection[str] = ()) -> int:
        """Release this worker's unfinished entries, so that others take them over at once; return how many there were.

        Redis has no command to release an entry. So the idle time is set to the time after which others take it over.
        An entry that is not among `tried` also loses one delivery.
        """
        unfinished: list[Any] = list(await self._deliveries())
        await self.uncount([entry_id.decode() for entry_id in unfinished if entry_id.decode() not in tried])
        if unfinished:
            await self._redis.xclaim(
                self._stream, LABEL_GROUP, self._consumer, 0, unfinished, idle=self._min_idle_ms, justid=True
            )
        return len(unfinished)

    async def delete_idle_consumers(self, idle_s: float) -> int:
        """Delete consumers that have no entries and have been idle for so long; return how many there were.

        Every start of a worker makes a new consumer, and Redis never deletes consumers. A dead consumer that still has
        entries stays until other workers have taken them over.
        """
        consumers = await self._redis.xinfo_consumers(self._stream, LABEL_GROUP)
        names = [
            consumer["name"] for consumer in consumers if not consumer["pending"] and consumer["idle"] >= 1000 * idle_s
        ]
        others = [name for name in names if name.decode() != self._consumer]
        return await self.delete_consumers(others) if others else 0

    async def leave(self) -> None:
        """Delete this worker's own consumer, unless it still has entries, which others take over first."""
        await self.delete_consumers([self._consumer])

    async def delete_consumers(self, consumers: Sequence[str | bytes]) -> int:
        """Delete those of the consumers that have no entries; return how many there were."""
        return await run_script(self._redis, delete_idle_consumers(self._stream, consumers))

    async def _deliveries(self) -> dict[bytes, int]:
        reply = await self._redis.xpending_range(
            self._stream, LABEL_GROUP, min="-", max="+", count=10_000, consumername=self._consumer
        )
        pending = cast("list[dict[str, Any]]", reply)
        return {entry["message_id"]: entry["times_delivered"] for entry in pending}

    async def _deleted(self, deliveries: dict[bytes, int]) -> list[tuple[bytes, int]]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for entry_id in deliveries:
                pipe.xrange(self._stream, entry_id, entry_id)
            found = await pipe.execute()
        return [item for item, entries in zip(deliveries.items(), found, strict=True) if not entries]
