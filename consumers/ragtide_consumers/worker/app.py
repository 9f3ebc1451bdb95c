"""Runs the label workers of a process: one for each partition, with one FastStream application that reads for all."""

import asyncio
import os
import socket
from contextlib import ExitStack
from uuid import uuid4

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.keys import LABEL_GROUP
from ragtide_runtime.redis.log import pin
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.watch import CRITERIA, LABELING, SettingsWatch
from ragtide_runtime.telemetry.health import ConditionCheck, HealthCheck
from ragtide_runtime.telemetry.outages import Outage

from ..labelers.evaluators import ReplaceableLabeler
from ..labelers.protocol import Labeler
from ..redaction.redaction import Redaction
from ..specimens.keeping import SpecimenKeeper
from .claims import ClaimRenewer
from .criteria_watch import asking_stored_criteria
from .result_export import exporting_results
from .subscriber import Handler, StreamApplication
from .telemetry import ROLE, WorkerTelemetry
from .waiting import Patience
from .worker import LabelWorker, WantedCovariates, WorkerHooks, WorkerParts

GRACE_S = 10.0
"""Seconds that stopping waits for entries in flight."""

log = structlog.get_logger("ragtide.worker")


def consumer_name() -> str:
    """Return a unique name of a worker: host, process and random letters."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


async def create_group(redis: Redis, stream: str) -> None:
    """Create the consumer group at the first entry, so that workers read entries published before they started."""
    await pin(redis, stream, LABEL_GROUP)


class WorkerApplication(StreamApplication):
    """Labels the interactions of every partition from `start` to `stop`."""

    def __init__(
        self,
        settings: Settings,
        url: str,
        patience: Patience,
        *,
        telemetry: WorkerTelemetry,
        outage: Outage,
        hooks: WorkerHooks,
    ) -> None:
        redis = connect_async(url, connections=CONNECTIONS + settings.partitions)
        consumer = consumer_name()
        claims = ClaimRenewer(url, consumer=consumer, min_idle_s=settings.worker_min_idle_s, outage=outage)
        parts = WorkerParts(
            redis=redis,
            settings=settings,
            patience=patience,
            consumer=consumer,
            claims=claims,
            telemetry=telemetry,
            outage=outage,
            hooks=hooks,
        )
        self.workers = [LabelWorker(parts, streams) for streams in settings.layout.all()]
        interactions = [streams.interactions for streams in settings.layout.all()]
        super().__init__(
            url,
            {
                stream: Handler(worker.take, worker.most)
                for stream, worker in zip(interactions, self.workers, strict=True)
            },
            group=LABEL_GROUP,
            consumer=consumer,
            most=settings.worker_batch,
            grace_s=GRACE_S,
            outage=outage,
        )

        @self.on_startup
        async def _create_groups() -> None:
            for stream in interactions:
                await create_group(redis, stream)

        @self.after_startup
        async def _start() -> None:
            for worker in self.workers:
                worker.start()
            claims.start()

        @self.after_shutdown
        async def _stop() -> None:
            for worker in self.workers:
                await worker.stop(GRACE_S)
            await asyncio.to_thread(claims.stop)
            await redis.aclose()

    def health_checks(self) -> list[HealthCheck]:
        """Return the health check of reading, and the heartbeat of every loop."""
        reason = "FastStream has stopped reading: the consumer group was removed, or the worker stops"
        reading = ConditionCheck("reading", lambda: self.reading, reason)
        return [reading, *(heartbeat for worker in self.workers for heartbeat in worker.heartbeats.values())]


async def run_workers(
    settings: Settings,
    url: str,
    labeler: Labeler,
    stop: asyncio.Event,
    *,
    telemetry: WorkerTelemetry | None = None,
    rules: SettingsWatch | None = None,
) -> None:
    """Label until `stop` is set; then finish entries in flight, for at most the grace time.

    FastStream stops when the consumer group was removed, for example after a flush of Redis. Then a new application is
    started, which creates the group again. A new application is also started if Redis fails during the start.

    Raises:
        ConfigurationError: `otel.results` is on, and its address or its packages are missing; or the function that
            redacts specimens cannot be loaded.
    """
    telemetry = telemetry or WorkerTelemetry()
    specimens = SpecimenKeeper.of(settings, telemetry.specimen)
    reasons: Redaction | None = None
    if settings.judge.reasons == "all" and settings.otel.results:
        reasons = Redaction.of("specimens", settings.specimens, patterns_here=True)
    try:
        async with exporting_results(settings.otel, telemetry, reasons=reasons) as export:
            covariates = WantedCovariates(settings)
            with ExitStack() as taking:
                if rules is not None:
                    taking.enter_context(rules.giving(covariates.take_rules))
                if rules is not None and specimens is not None:
                    taking.enter_context(rules.giving(specimens.take_rules))
                if rules is not None and isinstance(labeler, ReplaceableLabeler):
                    taking.enter_context(rules.giving(labeler.take, LABELING, without=CRITERIA))
                hooks, outage = WorkerHooks(specimens, export, covariates), Outage("Redis")
                async with asking_stored_criteria(settings, url, labeler, outage) as watch:
                    if rules is not None:
                        taking.enter_context(rules.giving(watch.take_settings, CRITERIA))
                    await _run_workers(settings, url, labeler, stop, telemetry=telemetry, hooks=hooks, outage=outage)
    finally:
        if specimens is not None:
            await asyncio.to_thread(specimens.close)


async def _run_workers(
    settings: Settings,
    url: str,
    labeler: Labeler,
    stop: asyncio.Event,
    *,
    telemetry: WorkerTelemetry,
    hooks: WorkerHooks,
    outage: Outage,
) -> None:
    patience = Patience(labeler)
    starting = outage.attempt("starting")
    backoff = Backoff()
    while not stop.is_set():
        app = WorkerApplication(settings, url, patience, telemetry=telemetry, outage=outage, hooks=hooks)
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
        evaluators = [labeler] if isinstance(labeler, ReplaceableLabeler) else []
        with telemetry.health.reporting(ROLE, *app.health_checks(), patience.outage, *evaluators):
            await asyncio.wait([*waits, *loops], return_when=asyncio.FIRST_COMPLETED)
        failed = [loop for loop in loops if loop.done()]
        for wait in waits:
            wait.cancel()
        await app.stop()
        for loop in failed:  # a bug in ragtide: raise its error; entries in flight stay pending for the next worker
            loop.result()
        if app.given_up.is_set():
            log.warning("the consumer group was removed, as a flush of Redis does: the worker creates it again")
