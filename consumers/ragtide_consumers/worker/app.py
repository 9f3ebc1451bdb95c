"""The label workers as a FastStream application: one batch subscriber per partition, acknowledged by our script."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

import structlog
from faststream import AckPolicy, FastStream
from faststream.redis import RedisBroker, RedisClusterBroker, RedisSentinelBroker, StreamSub
from faststream.redis.configs.state import RedisClusterConnectionState
from faststream.redis.message import FAKE_CONSUMER, RedisBatchStreamMessage
from faststream.specification import AsyncAPI
from redis import RedisError, ResponseError
from redis.asyncio import Redis

from ragtide_runtime.redis.addresses import address_of
from ragtide_runtime.redis.client import CONNECTIONS, TIMEOUTS, connect_async
from ragtide_runtime.redis.read_size import ReadSize
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Condition, Health, Sign
from ragtide_runtime.telemetry.instruments import WorkerInstruments
from ragtide_runtime.telemetry.outages import Outage, redis_outage
from ragtide_runtime.waiting import Backoff, sleep_or_stop
from ragtide_schemas import LABEL_GROUP

from ..labelers.protocol import Labeler
from .claims import ClaimKeeper
from .entries import StreamEntry
from .patience import Patience
from .worker import LabelWorker

POLL_MS = 200
"""Milliseconds one read waits for entries."""

GRACE_S = 10.0
"""Seconds that stopping waits for entries in flight."""

log = structlog.get_logger("ragtide.worker")

LIBRARY_LOG = logging.getLogger("ragtide.faststream")
"""Where FastStream logs: not its own logger, which writes to standard error in a format of its own."""


def _in_one_line(record: logging.LogRecord) -> bool:
    """Remove the stack trace from a log record about a failure of Redis: it is an event, not a bug."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, RedisError | OSError):
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {type(error).__name__}: {error}", (), None
    return True


LIBRARY_LOG.addFilter(_in_one_line)


def consumer_name() -> str:
    """Return a name that no other worker has: host, process and a few random letters."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


async def create_group(redis: Redis, stream: str) -> None:
    """Create the consumer group at the first entry, so that workers read entries published before they started."""
    try:
        await redis.xgroup_create(stream, LABEL_GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


async def _as_batch(raw: Any) -> RedisBatchStreamMessage:
    # FastStream would decode the JSON of every entry here, and trip over bytes that are not JSON. We decode later,
    # one entry at a time, so that a bad one goes to the dead letters alone.
    message_id = raw["message_ids"][0].decode()
    return RedisBatchStreamMessage(
        raw_message=raw,
        body=b"",
        message_id=message_id,
        correlation_id=message_id,
        headers={},
        consumer=FAKE_CONSUMER,  # we acknowledge ourselves
        group=None,
    )


async def _as_entries(message: Any) -> list[StreamEntry]:
    raw = message.raw_message
    return [
        StreamEntry(entry_id.decode(), fields) for entry_id, fields in zip(raw["message_ids"], raw["data"], strict=True)
    ]


def _bound_reads(subscriber: Any, stream: str, size: ReadSize) -> None:
    """Let a subscriber read fewer entries at once where they are large; FastStream knows only a fixed number."""
    read = subscriber._xreadgroup

    async def bounded(*, count: int, **options: Any) -> Any:
        return await read(count=await size.next({stream: ""}, count), **options)

    subscriber._xreadgroup = bounded


class _ClusterState(RedisClusterConnectionState):
    """The connection of a broker to a cluster, by ragtide's own client: FastStream's stays with a node that died."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def connect(self) -> Any:
        if not self._connected:
            self._client = cast("Any", connect_async(self._url))
            self._connected = True
        return self._client


class _ClusterBroker(RedisClusterBroker):
    def __init__(self, url: str, **options: Any) -> None:
        self._ragtide_url = url
        super().__init__(address_of(url).url, **options)

    def _make_connection_state(self, connection_options: dict[str, Any], kwargs: dict[str, Any]) -> _ClusterState:
        return _ClusterState(self._ragtide_url)


def broker_of(url: str) -> RedisBroker:
    """Return the broker for a URL: of one server, a cluster, or by sentinels."""
    address = address_of(url)
    common: dict[str, Any] = {
        "apply_types": False,
        "logger": LIBRARY_LOG,
        # At INFO the library would log every read twice; its errors keep their own level.
        "log_level": logging.DEBUG,
        "graceful_timeout": GRACE_S,
        **TIMEOUTS,
    }
    if address.kind == "cluster":
        return _ClusterBroker(url, **common)
    if address.kind == "sentinel":
        return RedisSentinelBroker(
            address.url,
            sentinels=address.nodes,
            sentinel_master_name=address.master,
            sentinel_kwargs=address.sentinel_options(),
            **common,
        )
    return RedisBroker(url, **common)


class WorkerApp(FastStream):
    """A FastStream application that says when FastStream gave it up, as it does when a consumer group has vanished."""

    def __init__(self, broker: RedisBroker, workers: Sequence[LabelWorker]) -> None:
        super().__init__(
            broker,
            logger=LIBRARY_LOG,
            specification=AsyncAPI(title="ragtide label workers", description=worker_app.__doc__),
        )
        self.subscribed = broker
        self.workers = workers
        self.given_up = asyncio.Event()

    def exit(self) -> None:
        """Ask for the application to be stopped."""
        self.given_up.set()
        super().exit()


def worker_app(
    settings: Settings,
    url: str,
    labeler: Labeler,
    instruments: WorkerInstruments | None = None,
    *,
    patience: Patience | None = None,
    outage: Outage | None = None,
) -> WorkerApp:
    """Return the application that labels every partition's interactions.

    It reads with a batch subscriber (FastStream's one-message subscriber costs more than the labeling), acknowledges
    by script (`delivery.py`), and bounds its concurrency itself (`worker.py`).
    """
    broker = broker_of(url)
    redis = connect_async(url, connections=CONNECTIONS + settings.partitions)
    consumer = consumer_name()
    outage = outage or redis_outage(redis)
    claims = ClaimKeeper(url, consumer=consumer, min_idle_s=settings.worker_min_idle_s, outage=outage)
    workers: list[LabelWorker] = []
    app = WorkerApp(broker, workers)
    for streams in settings.layout.all():
        worker = LabelWorker(
            redis,
            streams,
            labeler,
            consumer=consumer,
            concurrency=settings.worker_concurrency,
            max_deliveries=settings.max_deliveries,
            min_idle_s=settings.worker_min_idle_s,
            dedupe_window_s=settings.dedupe_window_s,
            feedback_window_s=settings.feedback_window_s,
            forget_s=settings.worker_forget_s,
            # Aggregated metric events that are kept do not wait, so the cap has extra room for them.
            metrics_cap=settings.events_cap + settings.events_keep,
            claims=claims,
            patience=patience,
            instruments=instruments,
            outage=outage,
        )
        workers.append(worker)
        source = StreamSub(
            streams.interactions,
            group=LABEL_GROUP,
            consumer=consumer,
            batch=True,
            max_records=settings.worker_batch,
            polling_interval=POLL_MS,
        )
        subscriber = broker.subscriber(
            stream=source,
            ack_policy=AckPolicy.MANUAL,
            parser=_as_batch,
            decoder=_as_entries,
            title=f"interactions of partition {streams.partition}",
        )
        subscriber(worker.take)
        _bound_reads(subscriber, streams.interactions, ReadSize(redis, LABEL_GROUP))

    @app.on_startup
    async def _create_groups() -> None:
        for streams in settings.layout.all():
            await create_group(redis, streams.interactions)

    @app.after_startup
    async def _start() -> None:
        for worker in workers:
            worker.start()
        claims.start()

    @app.after_shutdown
    async def _stop() -> None:
        for worker in workers:
            await worker.stop(GRACE_S)
        await asyncio.to_thread(claims.stop)
        await redis.aclose()

    return app


def _signs(app: WorkerApp) -> list[Sign]:
    # FastStream does not report the outcome of each read: this sign only sees whether it still reads.
    reading = Condition(
        "reading",
        lambda: all(subscriber.running for subscriber in app.subscribed.subscribers),
        "FastStream has stopped reading: the consumer group vanished, or the worker stops",
    )
    return [reading, *(pulse for worker in app.workers for pulse in worker.pulses)]


async def run_workers(
    settings: Settings,
    url: str,
    labeler: Labeler,
    stop: asyncio.Event,
    *,
    instruments: WorkerInstruments | None = None,
    health: Health | None = None,
) -> None:
    """Label until told to stop; then finish entries in flight, for at most the grace time.

    FastStream gives up when the consumer group has vanished, for example after a flush of Redis. The application is
    then built anew, which creates the group again. It is also built anew when Redis goes away while it starts.
    """
    patience = Patience(labeler)
    outage = Outage("Redis")
    starting = outage.attempt("starting")
    backoff = Backoff()
    while not stop.is_set():
        app = worker_app(settings, url, labeler, instruments, patience=patience, outage=outage)
        try:
            await app.start()
        except (RedisError, OSError, TimeoutError) as error:
            starting.failed(error)
            await app.stop()
            await sleep_or_stop(stop, backoff.pause_s())
            continue
        backoff.succeeded()
        starting.succeeded()
        log.info("worker started", labeler=labeler.name, profile=labeler.profile, partitions=settings.partitions)
        waits = [asyncio.create_task(event.wait()) for event in (stop, app.given_up)]
        loops = [loop for worker in app.workers for loop in worker.loops]
        with (health or Health()).watching("worker", *_signs(app), patience.outage):
            await asyncio.wait([*waits, *loops], return_when=asyncio.FIRST_COMPLETED)
        failed = [loop for loop in loops if loop.done()]
        for wait in waits:
            wait.cancel()
        await app.stop()
        for loop in failed:  # a bug in ragtide: end loudly; entries in flight stay pending for the next worker
            loop.result()
        if app.given_up.is_set():
            log.warning("the consumer group is gone, as after a flush of Redis: the worker creates it again")
