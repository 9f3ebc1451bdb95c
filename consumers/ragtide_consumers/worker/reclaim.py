"""Takes over the entries of dead workers, and releases a worker's own entries when it stops."""

from collections.abc import Collection, Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.consumer_groups import delete_idle_consumers
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import AWAITING, LABEL_GROUP, Streams
from ragtide_runtime.redis.log import ReadSize
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script

from .entries import StreamEntry

UNCOUNT: Final = Lua("uncount_deliveries")


def uncount_deliveries(stream: str, consumer: str, entry_ids: Sequence[str], to: str = "") -> ScriptCall[int]:
    """Return the call that uncounts one delivery of entries, and moves them to another consumer if one is given.

    Its reply is how many the consumer had.
    """
    return ScriptCall(UNCOUNT, (stream,), (LABEL_GROUP, consumer, to or consumer, *entry_ids), int)


class Reclaimer:
    """Takes over abandoned entries of one partition with XAUTOCLAIM, a few at a time; releases own entries."""

    def __init__(self, redis: Redis, streams: Streams, *, consumer: str, min_idle_s: float) -> None:
        self._redis = redis
        self._stream = streams.interactions
        self._read_size = ReadSize(redis)
        self._consumer = consumer
        self._min_idle_ms = int(min_idle_s * 1000)
        self._cursor: bytes | str = "0-0"

    async def claim(self, count: int, awaiting: int = 0) -> tuple[list[StreamEntry], bool]:
        """Take over at most `count` abandoned entries; return them, and whether the whole list has been scanned.

        Fewer entries are taken at once if they are large, because other workers may have died of them. An entry that
        was deleted from the stream while it was pending is returned without fields.

        Args:
            count: most abandoned entries.
            awaiting: most of the entries that wait for the labeler of a sample.
        """
        # The size is measured at the start of the stream, because the abandoned entries are not known yet.
        count = await self._read_size.next({self._stream: START}, count)
        summary = await self._redis.xpending(self._stream, LABEL_GROUP)
        holders = [consumer["name"] for consumer in summary["consumers"]]
        if AWAITING.encode() in holders:
            return await self._claim_beside(holders, count, min(count, awaiting))
        reply = await self._redis.xautoclaim(
            self._stream, LABEL_GROUP, self._consumer, self._min_idle_ms, start_id=self._cursor, count=count
        )
        self._cursor, claimed = reply[0], reply[1]
        scanned = self._cursor in (b"0-0", "0-0")
        # Redis 7.0 and later acknowledge a deleted entry when it is claimed, and return its id in a list of its own.
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
        # Redis 6.2 returns nil for a deleted entry, without its id: find the entries that no longer exist.
        if len(entries) < len(claimed):
            entries += [StreamEntry(entry_id.decode(), {}, n) for entry_id, n in await self._deleted(deliveries)]
        return entries + acknowledged, scanned

    async def _claim_beside(
        self, holders: Sequence[bytes], count: int, awaiting: int
    ) -> tuple[list[StreamEntry], bool]:
        """Take over abandoned entries without a look at those that wait for the labeler of a sample, and some of these.

        There may be very many that wait, and XAUTOCLAIM would take them all, again and again. An entry that was deleted
        meanwhile is left to XAUTOCLAIM.
        """
        entries: list[StreamEntry] = []
        scanned = True
        for holder in holders:
            waits = holder == AWAITING.encode()
            most = awaiting if waits else count - len(entries)
            if most < 1:
                continue
            reply = await self._redis.xpending_range(
                self._stream, LABEL_GROUP, "-", "+", most, holder.decode(), idle=max(self._min_idle_ms, 1)
            )
            deliveries = {one["message_id"]: one["times_delivered"] + 1 for one in cast("list[dict[str, Any]]", reply)}
            if not deliveries:
                continue
            # A waiting entry keeps its consumer, so that `ragtide doctor` and alerts know it while it is tried.
            claimed: Any = await self._redis.xclaim(
                self._stream,
                LABEL_GROUP,
                AWAITING if waits else self._consumer,
                max(self._min_idle_ms, 1),
                list(deliveries),
            )
            entries += [
                StreamEntry(entry_id.decode(), fields, deliveries[entry_id], awaiting=waits)
                for entry_id, fields in claimed
                if entry_id is not None
            ]
            scanned = scanned and len(deliveries) < most
        return entries, scanned

    async def uncount(self, entries: Sequence[StreamEntry], *, to: str = "") -> None:
        """Uncount one delivery of entries, because their labeler was not called or was unavailable.

        Args:
            entries: held by this worker, or by the consumer of those that wait for the labeler of a sample.
            to: consumer that holds them from now on; empty for the same.
        """
        for holder, awaiting in ((self._consumer, False), (AWAITING, True)):
            if entry_ids := [entry.entry_id for entry in entries if entry.awaiting is awaiting]:
                await run_script(self._redis, uncount_deliveries(self._stream, holder, entry_ids, to))

    async def release_pending(self, tried: Collection[str] = ()) -> int:
        """Release this worker's unfinished entries, so that others take them over at once; return their number.

        Redis has no command to release an entry, so its idle time is set to the time after which others take it over.
        For an entry that is not among `tried`, one delivery is uncounted.
        """
        unfinished: list[Any] = list(await self._deliveries())
        untried = [entry_id.decode() for entry_id in unfinished if entry_id.decode() not in tried]
        await self.uncount([StreamEntry(entry_id, {}) for entry_id in untried])
        if unfinished:
            await self._redis.xclaim(
                self._stream, LABEL_GROUP, self._consumer, 0, unfinished, idle=self._min_idle_ms, justid=True
            )
        return len(unfinished)

    async def delete_idle_consumers(self, idle_s: float) -> int:
        """Delete consumers that have no entries and have been idle for so long; return their number.

        Every start of a worker makes a new consumer, and Redis never deletes consumers. A dead consumer with entries
        stays until other workers have taken them over.
        """
        consumers = await self._redis.xinfo_consumers(self._stream, LABEL_GROUP)
        names = [
            consumer["name"] for consumer in consumers if not consumer["pending"] and consumer["idle"] >= 1000 * idle_s
        ]
        others = [name for name in names if name.decode() != self._consumer]
        return await self.delete_consumers(others) if others else 0

    async def leave(self) -> None:
        """Delete this worker's consumer, unless it still has entries."""
        await self.delete_consumers([self._consumer])

    async def delete_consumers(self, consumers: Sequence[str | bytes]) -> int:
        """Delete those of the consumers that have no entries; return their number."""
        return await run_script(self._redis, delete_idle_consumers(self._stream, LABEL_GROUP, consumers))

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
