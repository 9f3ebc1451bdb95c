"""The recorder of a process: it records every partition that no other live recorder owns."""

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.processes.waiting import sleep_or_stop
from ragtide_runtime.recordings.entries import EntryKind
from ragtide_runtime.recordings.store import Store, open_store
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.outages import Outage
from ragtide_runtime.user_ids import UserIds

from ..redaction.process import RedactionAbortedError
from ..redaction.redaction import Redaction
from .fence import pin_streams
from .session import RecorderSession
from .telemetry import RecorderTelemetry
from .writing import StepAbortedError, prepare

STORE_RETRY_S: Final = 5.0
"""Seconds before a store that failed, such as a full disk, is tried again."""

log = structlog.get_logger("ragtide.recorder")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A recorder that is ready to start: its settings are valid, its libraries loaded, and its streams pinned."""

    store: Store
    redaction: Redaction


def open_recorder(settings: Settings) -> Prepared:
    """Return the place and the redaction of a recorder, with the libraries loaded that it needs.

    Raises:
        ConfigurationError: no place for recordings is set, or a library or the user's function cannot be loaded.
    """
    if settings.recorder.url is None:
        raise ConfigurationError("recorder.url is not set: set RAGTIDE_RECORDER_URL to a folder or a URL to record to")
    store = open_store(settings.recorder.url, settings.recorder.storage_options)
    redaction = Redaction.of("recorder", settings.recorder)
    prepare(settings.recorder.format)
    return Prepared(store, redaction)


async def prepare_recorder(settings: Settings, redis: Redis) -> Prepared:
    """Open a recorder, and keep unrecorded entries from being trimmed.

    Other roles of the process start after this, because loading takes seconds, in which an aggregator would trim.

    Raises:
        ConfigurationError: as `open_recorder`.
        redis.RedisError: Redis failed.
    """
    prepared = await asyncio.to_thread(open_recorder, settings)
    for streams in settings.layout.all():
        await pin_streams(redis, streams, [EntryKind(name) for name in settings.recorder.kinds])
    return prepared


async def run_recorder(
    settings: Settings, url: str, stop: asyncio.Event, process: ProcessTelemetry, prepared: Prepared
) -> None:
    """Record every partition until `stop` is set.

    Raises:
        RagtideError: the recording cannot be continued; the message names the cause and the action to take.
    """
    telemetry = RecorderTelemetry(settings.partitions, process, prepared.redaction.names)
    async with connect_async(url, connections=CONNECTIONS + settings.partitions) as redis:
        await Recorder(redis, settings, prepared.store, prepared.redaction, telemetry).run(stop)


class Recorder:
    """The recorder of one process: it records each partition that no other recorder owns."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        store: Store,
        redaction: Redaction,
        telemetry: RecorderTelemetry | None = None,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._store = store
        self._redaction = redaction
        self._user_ids = UserIds.of(settings)
        self._telemetry = telemetry or RecorderTelemetry(settings.partitions)
        self._store_outage = Outage("The store of recordings")
        leases = [
            Lease(redis, streams, holder=process_name(), lease_s=settings.lease_s, role="recorder")
            for streams in settings.layout.all()
        ]
        self._owner = PartitionOwner(redis, leases, self._record, telemetry=self._telemetry)

    async def run(self, stop: asyncio.Event) -> None:
        """Record until `stop` is set.

        Raises:
            RagtideError: the recording cannot be continued.
        """
        try:
            await self._owner.run(stop)
        finally:
            await asyncio.to_thread(self._redaction.close)

    async def _record(self, ownership: Ownership) -> None:
        (streams,) = ownership.streams
        storing = self._store_outage.attempt(f"recording partition {streams.partition}")
        session = RecorderSession(
            self._redis,
            self._settings.recorder,
            ownership,
            store=self._store,
            redaction=self._redaction.fresh(),
            user_ids=self._user_ids,
            telemetry=self._telemetry,
            storing=storing,
        )
        try:
            await session.run()
        except (StepAbortedError, RedactionAbortedError) as error:
            log.warning("stopped before all entries were written", partition=streams.partition, detail=str(error))
        except OSError as error:
            self._telemetry.partition_failed(streams.partition, error)
            storing.failed(error, partition=streams.partition)
            await sleep_or_stop(ownership.stop, STORE_RETRY_S)
