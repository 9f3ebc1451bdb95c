"""Claims on entries: renewed from a thread, taken over from dead workers, and released when a worker stops.

An entry belongs to the worker that took it until it has been idle for `worker_min_idle_s`. The thread renews each claim
three times in that time. It does not wait for the event loop, which labeling may occupy, so that a busy event loop is
not mistaken for a dead worker. If the event loop has not run for `SILENT_S`, the thread renews no claim, so that
another worker takes over the entries of a worker that hangs.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, cast

from redis import Redis as BlockingRedis
from redis import RedisError, ResponseError
from redis.asyncio import Redis

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.consumer_groups import delete_idle_consumers, renew_claims
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, awaited_labeler
from ragtide_runtime.redis.log import ReadSize
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script, run_scripts_blocking
from ragtide_runtime.telemetry.health import SILENT_S, Heartbeat
from ragtide_runtime.telemetry.outages import Outage

from .results import StreamEntry

BEYOND: Final = "18446744073709551615-18446744073709551614"
"""The highest id but one: a read of a consumer's own entries after this id returns nothing."""

JOIN_S: Final = 2.0
"""Seconds that a stopping worker waits for the thread, which may itself wait for Redis."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The entries of one partition that a worker is working on."""

    stream: str
    entry_ids: Callable[[], Sequence[str]]
    """Returns the ids of these entries; called from the thread."""
    heartbeat: Heartbeat


class ClaimRenewer:
    """Renews the claims of one worker process on all its partitions.

    Args:
        url: of Redis; the thread has a connection of its own.
        consumer: name of the worker in the consumer group.
        min_idle_s: idle seconds after which another worker takes an entry over.
        clock: monotonic seconds.
        outage: of Redis, shared with the other loops of the worker.
    """

    def __init__(
        self,
        url: str,
        *,
        consumer: str,
        min_idle_s: float,
        clock: Callable[[], float] = monotonic,
        outage: Outage | None = None,
    ) -> None:
        self._outage = (outage or Outage("Redis")).attempt("renewing claims on entries")
        self._url = url
        self._consumer = consumer
        self._pause_s = min(min_idle_s / 3, 5.0)
        self._clock = clock
        self._claims: dict[str, Claim] = {}
        self._renewing = threading.Lock()
        self._stopping = threading.Event()
        self._event_loop_ran = clock()
        self._thread = threading.Thread(
            # The thread has the context of the worker, so its log lines name the role.
            target=copy_context().run,
            args=(self._run,),
            name="ragtide claims",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        self._event_loop_ran = self._clock()
        self._thread.start()

    def stop(self) -> None:
        """End the thread. It is a daemon, so that an unreachable Redis does not keep the process alive."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def event_loop_ran(self) -> None:
        """Report that the event loop is alive."""
        self._event_loop_ran = self._clock()

    def add(self, streams: Streams, entry_ids: Callable[[], Sequence[str]], heartbeat: Heartbeat) -> None:
        """Begin to renew the claims on the entries of a partition that `entry_ids` returns."""
        self._claims = {**self._claims, streams.interactions: Claim(streams.interactions, entry_ids, heartbeat)}

    def remove(self, streams: Streams) -> None:
        """Stop renewing the claims of a partition; a renewal in progress has ended when this returns."""
        self._claims = {stream: claim for stream, claim in self._claims.items() if stream != streams.interactions}
        if self._renewing.acquire(timeout=JOIN_S):
            self._renewing.release()

    def _run(self) -> None:
        client: BlockingRedis | None = None
        while not self._stopping.wait(self._pause_s):
            with self._renewing:
                try:
                    client = client or connect(self._url)
                    self._renew(client)
                except (RedisError, OSError) as error:
                    for claim in self._claims.values():
                        claim.heartbeat.failed(f"renewing claims fails: {error}")
                    self._outage.failed(error)
        if client is not None:
            client.close()

    def _renew(self, client: BlockingRedis) -> None:
        silent_s = self._clock() - self._event_loop_ran
        if silent_s > SILENT_S:
            for claim in self._claims.values():
                claim.heartbeat.failed(f"the event loop has been blocked for {silent_s:.0f} s: claims are not renewed")
            return
        for claim in self._claims.values():
            if entry_ids := claim.entry_ids():
                run_scripts_blocking(client, [renew_claims(claim.stream, LABEL_GROUP, self._consumer, entry_ids)])
            else:
                self._report_alive(client, claim.stream)
            claim.heartbeat.beat("renewing claims")
        self._outage.succeeded()

    def _report_alive(self, client: BlockingRedis, stream: str) -> None:
        try:
            client.xreadgroup(LABEL_GROUP, self._consumer, {stream: BEYOND}, count=1)
        except ResponseError as error:
            if not str(error).startswith("NOGROUP"):  # the worker creates the group again
                raise


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

    async def claim(self, count: int, tries: Callable[[str], int] = lambda _: 0) -> tuple[list[StreamEntry], bool]:
        """Take over at most `count` abandoned entries; return them, and whether the whole list has been scanned.

        Fewer entries are taken at once if they are large, because other workers may have died of them. An entry that
        was deleted from the stream while it was pending is returned without fields.

        Args:
            count: most abandoned entries.
            tries: returns how many entries that wait for a labeler, or for an evaluator, may be tried.
        """
        # The size is measured at the start of the stream, because the abandoned entries are not known yet.
        count = await self._read_size.next({self._stream: START}, count)
        summary = await self._redis.xpending(self._stream, LABEL_GROUP)
        holders = [consumer["name"] for consumer in summary["consumers"]]
        if any(awaited_labeler(holder.decode()) is not None for holder in holders):
            return await self._claim_beside(holders, count, tries)
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
            async with self._redis.pipeline(transaction=False) as pipe:
                for entry_id in deliveries:
                    pipe.xrange(self._stream, entry_id, entry_id)
                stored = await pipe.execute()
            entries += [
                StreamEntry(entry_id.decode(), {}, n)
                for (entry_id, n), kept in zip(deliveries.items(), stored, strict=True)
                if not kept
            ]
        return entries + acknowledged, scanned

    async def _claim_beside(
        self, holders: Sequence[bytes], count: int, tries: Callable[[str], int]
    ) -> tuple[list[StreamEntry], bool]:
        # There may be very many that wait, and XAUTOCLAIM would take them all, again and again.
        entries: list[StreamEntry] = []
        scanned = True
        for holder in (name.decode() for name in holders):
            labeler = awaited_labeler(holder)
            most = count - len(entries) if labeler is None else min(count, tries(labeler))
            if most < 1:
                continue
            reply = await self._redis.xpending_range(
                self._stream, LABEL_GROUP, "-", "+", most, holder, idle=max(self._min_idle_ms, 1)
            )
            deliveries = {
                entry["message_id"]: entry["times_delivered"] + 1 for entry in cast("list[dict[str, Any]]", reply)
            }
            if not deliveries:
                continue
            # A waiting entry keeps its consumer, so that `ragtide doctor` and alerts know it while it is tried.
            claimed: Any = await self._redis.xclaim(
                self._stream,
                LABEL_GROUP,
                self._consumer if labeler is None else holder,
                max(self._min_idle_ms, 1),
                list(deliveries),
            )
            entries += [
                StreamEntry(entry_id.decode(), fields, deliveries[entry_id], awaiting="" if labeler is None else holder)
                for entry_id, fields in claimed
                if entry_id is not None
            ]
            scanned = scanned and len(deliveries) < most
        return entries, scanned

    async def uncount(self, entries: Sequence[StreamEntry], *, to: str = "") -> None:
        """Uncount one delivery of entries, because their labeler was not called or was unavailable.

        Args:
            entries: held by this worker, or by a consumer of those that wait for their labelers.
            to: consumer that holds them from now on; empty for the same.
        """
        for awaiting in {entry.awaiting for entry in entries}:
            entry_ids = [entry.entry_id for entry in entries if entry.awaiting == awaiting]
            await run_script(self._redis, uncount_deliveries(self._stream, awaiting or self._consumer, entry_ids, to))

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
