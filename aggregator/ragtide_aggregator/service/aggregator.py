"""The aggregators of a deployment: every partition has one owner, and those that come or go share anew."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.ownership.lease import Lease
from ragtide_runtime.ownership.membership import Membership, share
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.waiting import sleep_or_stop

from ..errors import LeaseLostError, StreamWentBackError
from ..statistics.recent import preload
from .halving import Halving, StepFailedError
from .options import ServiceOptions
from .pace import Pace
from .session import PartitionSession
from .telemetry import Observer, TenureObserver

RETRY_S = 0.5
"""Seconds before a partition is asked for again after Redis failed."""

SOON_S = 0.2
"""Seconds before a partition that somebody is about to give up is asked for again."""

log = structlog.get_logger("ragtide.aggregator")


@dataclass(slots=True)
class Serving:
    """A partition this aggregator owns."""

    task: asyncio.Task[None]
    stop: asyncio.Event


class Aggregator:
    """One process: owns its share of the partitions, and takes over those whose owner is gone.

    It says that it is here several times within the time of a lease. One that was silent for more than half of it no
    longer counts, which is before its leases run out, so that the others are ready when they do.
    """

    def __init__(
        self,
        redis: Redis,
        layout: Layout,
        options: ServiceOptions,
        *,
        holder: str,
        observer: Observer | None = None,
    ) -> None:
        self._redis = redis
        self._options = options
        self._observer = observer or Observer()
        self._observer.owns_none_of(layout.partitions)
        self._partitions = layout.partitions
        self._streams = layout.all()
        self._leases = [Lease(redis, streams, holder=holder, lease_s=options.lease_s) for streams in self._streams]
        self._holder = self._leases[0].holder
        self._membership = Membership(redis, layout.prefix, holder=self._holder, silent_s=0.6 * options.lease_s)
        self._beat_s = min(options.lease_s / 6, 1.0)
        self._serving: dict[int, Serving] = {}
        self._applied = 0
        self._sessions: dict[int, PartitionSession] = {}
        self._paces = [Pace(options.batch, options.lease_s) for _ in self._streams]
        self._waiting = False
        self._outage = redis_outage(redis).attempt("looking for partitions")

    @property
    def events_applied(self) -> int:
        """Metric events applied since the start."""
        return self._applied + sum(session.events_applied for session in self._sessions.values())

    @property
    def owned(self) -> list[int]:
        """Partitions owned now."""
        return sorted(self._serving)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop.

        Raises:
            CheckpointError: another version of ragtide wrote a checkpoint.
        """
        # In the first large step it would keep the partition waiting.
        await asyncio.to_thread(preload)
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                wait_s = await self._turn()
                tasks = [serving.task for serving in self._serving.values()]
                await asyncio.wait([stopping, *tasks], timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                self._reap()
        finally:
            stopping.cancel()
            for serving in self._serving.values():
                serving.stop.set()
            if self._serving:
                await asyncio.wait([serving.task for serving in self._serving.values()])
            with suppress(RedisError):
                await self._membership.leave()
        self._reap()

    def _reap(self) -> None:
        for partition, serving in list(self._serving.items()):
            if serving.task.done():
                del self._serving[partition]
                serving.task.result()

    async def _turn(self) -> float:
        """Take or give up partitions, and return the seconds until the next turn."""
        try:
            members = await self._membership.beat(len(self._serving))
            mine = share(self._holder, members, self._partitions)
            for partition in sorted(self._serving, reverse=True)[: mine.give]:
                log.info("this aggregator hands a partition to another one", partition=partition)
                self._serving[partition].stop.set()
            wait_s = await self._acquire(mine.take)
        except RedisError as error:
            self._observer.failed(error)
            self._outage.failed(error)
            return RETRY_S
        self._outage.succeeded()
        return wait_s

    async def _acquire(self, wanted: int) -> float:
        waits = [self._beat_s]
        for partition in self._candidates():
            if not wanted:
                break
            found = await self._leases[partition].acquire()
            if found.token is None:
                # Exactly when it runs out, if it is not prolonged.
                waits.append(max(found.held_for_s, 0.001) if found.held_for_s < self._beat_s else SOON_S)
                continue
            wanted -= 1
            stop = asyncio.Event()
            task = asyncio.create_task(self._serve(partition, found.token, stop))
            self._serving[partition] = Serving(task, stop)
        if not self._serving and not self._waiting:
            log.info("standing by: other aggregators own all partitions", partitions=self._partitions)
        self._waiting = not self._serving
        self._observer.turned(owned=len(self._serving), partitions=self._partitions)
        return min(waits)

    def _candidates(self) -> Iterator[int]:
        # Each begins elsewhere, so that those that start together do not all ask for the same.
        first = int(interaction_digest("", self._holder)[:8], 16)
        for number in range(self._partitions):
            partition = (first + number) % self._partitions
            if partition not in self._serving:
                yield partition

    async def _serve(self, partition: int, token: str, stop: asyncio.Event) -> None:
        lease = self._leases[partition]
        with self._observer.tenure(partition) as observer:
            await self._own(partition, lease, token, stop, observer)

    async def _run(
        self,
        partition: int,
        begin: Callable[[], Awaitable[PartitionSession]],
        stop: asyncio.Event,
        halving: Halving,
        observer: TenureObserver,
    ) -> bool:
        """Serve a partition from its checkpoint on; return False if a step failed and is to be tried in halves."""
        session = self._sessions[partition] = await begin()
        try:
            await session.run(stop)
        except StepFailedError as failed:
            halving.failed(failed.taken, failed.error)
            self._applied += self._sessions.pop(partition).events_applied
            observer.dropped()
            log.warning(
                "a step failed: looking for the entry that cannot be counted, from the checkpoint",
                partition=partition,
                metric_events=failed.taken.metrics,
                feedback=failed.taken.feedback,
                error=halving.reason,
            )
            return False
        return True

    async def _own(
        self, partition: int, lease: Lease, token: str, stop: asyncio.Event, observer: TenureObserver
    ) -> None:
        try:
            halving = Halving()
            async with lease.kept(token) as progress:
                begin = partial(
                    PartitionSession.begin,
                    self._redis,
                    self._streams[partition],
                    self._options,
                    lease,
                    token,
                    observer=observer,
                    pace=self._paces[partition],
                    progress=progress,
                    halving=halving,
                )
                while not await self._run(partition, begin, stop, halving, observer):
                    progress.made()
            # An owner that was paused may be asked to hand over before it finds out that there is nothing to hand over.
            if not await lease.release(token):
                raise LeaseLostError(f"the lease of partition {partition} had run out: another may own it")  # noqa: TRY301
        except (LeaseLostError, StreamWentBackError) as error:
            observer.lost()
            log.warning("partition lost: this aggregator no longer owns it", partition=partition, detail=str(error))
        except RedisError as error:
            # Entries that were not committed are read again from the checkpoint.
            observer.failed(error)
            self._outage.failed(error, partition=partition)
            await sleep_or_stop(stop, RETRY_S)
        finally:
            if partition in self._sessions:
                self._applied += self._sessions.pop(partition).events_applied
            with suppress(RedisError):
                await lease.release(token)
