"""The recorder of a process: writes down every partition that no other recorder has, and takes over those left."""

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.lease import Lease
from ragtide_runtime.recordings.kinds import Kind
from ragtide_runtime.recordings.store import Store, open_store
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.instruments import RecorderInstruments
from ragtide_runtime.telemetry.observed import Observed
from ragtide_runtime.telemetry.outages import Outage, redis_outage

from .errors import RecorderFencedError, StepAbortedError, StreamLostError
from .fence import hold
from .observer import Observer, TenureObserver
from .redaction import Redaction
from .session import Tenure
from .writing import prepare

RETRY_S: Final = 0.5
"""Seconds before a failed command is tried again."""

STORE_RETRY_S: Final = 5.0
"""Seconds before a store that failed, such as a full disk, is tried again."""

log = structlog.get_logger("ragtide.recorder")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A recorder whose settings are valid, whose libraries are loaded, and for which unrecorded entries wait."""

    store: Store
    redaction: Redaction


async def prepare_recorder(settings: Settings, redis: Redis) -> Prepared:
    """Check the settings, load the libraries, and keep unrecorded entries from being trimmed.

    The roles beside it start after this: loading takes seconds, in which an aggregator would already trim.

    Raises:
        ConfigurationError: no place to record to is set, or a library it needs is not installed.
        redis.RedisError: Redis failed.
    """
    if settings.recorder.url is None:
        raise ConfigurationError("recorder.url is not set: set RAGTIDE_RECORDER_URL to a folder or a URL to record to")
    store = open_store(settings.recorder.url, settings.recorder.storage_options)
    redaction = Redaction.of(settings.recorder)
    await asyncio.to_thread(prepare, settings.recorder.format)
    for streams in settings.layout.all():
        await hold(redis, streams, [Kind(name) for name in settings.recorder.kinds])
    return Prepared(store, redaction)


async def run_recorder(
    settings: Settings, url: str, stop: asyncio.Event, observed: Observed, prepared: Prepared
) -> None:
    """Record every partition until told to stop.

    Raises:
        RagtideError: the recording cannot be continued; the message says why, and what to do.
    """
    redis = connect_async(url, connections=CONNECTIONS + settings.partitions)
    observer = Observer(RecorderInstruments(observed.registry), observed.health)
    try:
        with observer.watched():
            await Recorder(redis, settings, prepared.store, prepared.redaction, observer).run(stop)
    finally:
        await redis.aclose()


class Recorder:
    """The recorder of one process: it records each partition whose lease it gets, and stands by if it gets none."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        store: Store,
        redaction: Redaction,
        observer: Observer | None = None,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._store = store
        self._redaction = redaction
        self._observer = observer or Observer()
        self._observer.owns_none_of(settings.partitions)
        self._owned = 0
        self._waiting = False
        self._outage = redis_outage(redis)
        self._store_outage = Outage("The store of recordings")

    async def run(self, stop: asyncio.Event) -> None:
        """Record until told to stop.

        Raises:
            RagtideError: the recording cannot be continued.
        """
        partitions = [asyncio.create_task(self._partition(streams, stop)) for streams in self._settings.layout.all()]
        try:
            await asyncio.wait(partitions, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            stop.set()
            await asyncio.wait(partitions)
            await asyncio.to_thread(self._redaction.close)
        for partition in partitions:
            partition.result()

    async def _partition(self, streams: Streams, stop: asyncio.Event) -> None:
        holder = f"{socket.gethostname()}-{os.getpid()}"
        lease_s = self._settings.lease_s
        lease = Lease(self._redis, streams, holder=holder, lease_s=lease_s, recorder=True)
        outage = self._outage.attempt(f"asking for partition {streams.partition}")
        while not stop.is_set():
            wait_s = RETRY_S
            try:
                found = await lease.acquire()
                if found.token is not None:
                    self._owned += 1
                    try:
                        wait_s = await self._own(streams, lease, found.token, stop)
                    finally:
                        self._owned -= 1
                else:
                    # Ask again when the lease would run out, or sooner, because its owner may give it up.
                    wait_s = min(max(found.held_for_s, 0.001), lease_s / 6, 1.0)
                    if not self._owned and not self._waiting:
                        log.info("standing by: another recorder has the partition", partition=streams.partition)
                        self._waiting = True
                self._observer.turned(owned=self._owned, partitions=self._settings.partitions)
                outage.succeeded()
            except RedisError as error:
                self._observer.failed(error)
                outage.failed(error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait_s)

    async def _own(self, streams: Streams, lease: Lease, token: str, stop: asyncio.Event) -> float:
        """Record a partition while the lease lasts, and return the seconds until it is asked for again."""
        self._waiting = False
        with self._observer.tenure(streams.partition) as observer:
            self._observer.turned(owned=self._owned, partitions=self._settings.partitions)
            try:
                return await self._record(streams, token, stop, observer)
            finally:
                with suppress(RedisError):
                    await lease.release(token)

    async def _record(self, streams: Streams, token: str, stop: asyncio.Event, observer: TenureObserver) -> float:
        storing = self._store_outage.attempt(f"recording partition {streams.partition}")
        try:
            await Tenure(
                self._redis,
                streams,
                self._settings.recorder,
                store=self._store,
                redaction=self._redaction.fresh(),
                token=token,
                lease_s=self._settings.lease_s,
                observer=observer,
                storing=storing,
            ).run(stop)
        except StepAbortedError as error:
            log.warning(
                "stopped before everything was written",
                partition=streams.partition,
                detail=str(error),
            )
        except (RecorderFencedError, StreamLostError) as error:
            log.warning(
                "partition lost: this recorder no longer owns it", partition=streams.partition, detail=str(error)
            )
        except RedisError as error:
            # No entry is lost: a recorder reads again every entry that no manifest counts.
            observer.failed(error)
            self._outage.attempt(f"asking for partition {streams.partition}").failed(error)
        except OSError as error:
            observer.failed(error)
            storing.failed(error, partition=streams.partition)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), STORE_RETRY_S)
            return 0.0
        return RETRY_S
