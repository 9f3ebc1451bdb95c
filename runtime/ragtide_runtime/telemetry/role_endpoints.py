"""The answers of a process about itself, for any web server: its metrics, and whether it is alive and ready."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ..processes.waiting import end
from ..redis.backlog import Backlog, read_backlogs
from ..redis.client import connect_async
from ..redis.failures import explained
from ..redis.keys import Streams
from ..settings.model import Settings
from . import catalogue
from .catalogue import HIGHEST
from .health import Health, HealthReport, ProcessTelemetry
from .metric import Collected, family, merged, of_pipelines
from .outages import redis_outage
from .process_reports import ProcessCheck, ReportSlot, reporting

READ_TIMEOUT_S: Final = 3.0
"""Seconds that Redis has to answer: a scrape has ten, and must get the process's own metrics even without Redis."""

_NUMBERS: Final = (
    (catalogue.WAITING, "waiting"),
    (catalogue.PENDING, "pending"),
    (catalogue.AWAITING, "awaiting"),
    (catalogue.OLDEST, "oldest_s"),
    (catalogue.EVENTS_WAITING, "events_waiting"),
    (catalogue.EVENTS_OLDEST, "events_oldest_s"),
    (catalogue.UNRECORDED, "unrecorded_s"),
    (catalogue.WORKERS, "workers"),
    (catalogue.OWNED, "owned"),
)
"""Metrics with one number for each partition, and the field of `Backlog` that holds it."""

_COUNTS: Final = ((catalogue.STREAM_ENTRIES, "lengths"), (catalogue.DROPPED, "dropped"))
"""Metrics with several named numbers for each partition, and the field of `Backlog` that holds them."""


class BacklogCollector(Collector):
    """Reports the backlog that `refresh` last read. While Redis is down, it reports only `ragtide_redis_up`, as 0."""

    def __init__(self, redis: Redis, prefix: str, partitions: int) -> None:
        self._redis = redis
        self._partitions = [Streams(prefix, partition) for partition in range(partitions)]
        self._backlogs: list[tuple[str, Backlog]] | None = None
        self._outage = redis_outage(redis).attempt("reading streams for /metrics")

    async def refresh(self) -> None:
        """Read the backlog of every partition; without an answer of Redis there is no backlog to report."""
        self._backlogs = None
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                backlogs = await read_backlogs(self._redis, self._partitions)
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            self._outage.failed(error)
        else:
            self._outage.succeeded()
            self._backlogs = [
                (str(streams.partition), backlog) for streams, backlog in zip(self._partitions, backlogs, strict=True)
            ]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the last `refresh`."""
        backlogs = self._backlogs
        yield family(catalogue.REDIS_UP, [((), float(backlogs is not None))])
        if backlogs is None:
            return
        for metric, attribute in _NUMBERS:
            yield family(
                metric, [((partition,), float(getattr(backlog, attribute) or 0)) for partition, backlog in backlogs]
            )
        for metric, attribute in _COUNTS:
            yield family(
                metric,
                [
                    ((partition, name), float(count))
                    for partition, backlog in backlogs
                    for name, count in sorted({**metric.zeros(), **getattr(backlog, attribute)}.items())
                ],
            )


PING_S: Final = 1.0
"""Seconds between two pings of Redis, and the time limit of each ping. A health probe itself never waits for Redis."""


class RoleEndpoints:
    """The answers of a process about itself, for any web server.

    Args:
        process: telemetry of the process.
        backlog: the backlog of every partition.
        workers: reports of the worker processes of the same command, whose metrics are added.
    """

    def __init__(self, process: ProcessTelemetry, backlog: BacklogCollector, workers: Iterable[ReportSlot]) -> None:
        self._process = process
        self._backlog = backlog
        self._workers = tuple(workers)
        self._refreshes: list[Callable[[], Awaitable[None]]] = [backlog.refresh]

    def refresh_by(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Await `refresh` before each scrape, at whichever address; it raises no error."""
        self._refreshes.append(refresh)

    async def metrics(
        self, accept: str, *, may_see: Callable[[str], bool] | None = None, deployment: bool = True
    ) -> tuple[bytes, str]:
        """Return the metrics, and their content type.

        Args:
            accept: the header `Accept` of the request.
            may_see: whether the client may see a pipeline; without it the client sees all pipelines.
            deployment: whether the client may see numbers of the whole deployment.
        """
        for refresh in self._refreshes:
            await refresh()
        encode, content_type = choose_encoder(accept)
        reports = [report for slot in self._workers if (report := slot.read()) is not None]
        families: Iterable[Metric] = self._process.registry.collect()
        if reports:
            families = merged([*families, *(family for report in reports for family in report.families)], HIGHEST)
        families = [*families, *self._backlog.collect()]
        if may_see is not None:
            families = of_pipelines(families, may_see, deployment=deployment)
        return await asyncio.to_thread(encode, Collected(families)), content_type

    def alive(self) -> HealthReport:
        """Return whether a restart would not help."""
        return self._process.health.alive()

    def ready(self) -> HealthReport:
        """Return whether every role does its work now."""
        return self._process.health.ready()


@asynccontextmanager
async def observing(
    settings: Settings, url: str, process: ProcessTelemetry, workers: Mapping[str, ReportSlot] | None = None
) -> AsyncIterator[RoleEndpoints]:
    """Observe this process for the body of an `async with`, and yield its answers about itself.

    Args:
        settings: of the process.
        url: of Redis.
        process: health and metrics.
        workers: reports of the worker processes of the same command, by their names; the answers are about them, too.
    """
    workers = workers or {}
    async with connect_async(url) as redis, _watching(redis, process):
        backlog = BacklogCollector(redis, settings.prefix, settings.partitions)
        checks = [ProcessCheck(name, slot) for name, slot in workers.items()]
        with process.health.reporting("worker", *checks) if checks else nullcontext():
            yield RoleEndpoints(process, backlog, workers.values())


@asynccontextmanager
async def observed(url: str, process: ProcessTelemetry, slot: ReportSlot) -> AsyncIterator[None]:
    """Observe this process for the body of an `async with`, and report to the process that answers for it."""
    async with connect_async(url) as redis, _watching(redis, process), reporting(process, slot):
        yield


@asynccontextmanager
async def _watching(redis: Redis, process: ProcessTelemetry) -> AsyncIterator[None]:
    """Ping Redis, and count what the process uses."""
    resources = ProcessCollector(registry=process.registry)
    pinging = asyncio.create_task(_ping(redis, process.health))
    try:
        yield
    finally:
        process.registry.unregister(resources)
        await end(pinging)


async def _ping(redis: Redis, health: Health) -> None:
    while True:
        try:
            async with asyncio.timeout(PING_S):
                await redis.ping()
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            health.redis_failed(explained(error))
        else:
            health.redis_answered()
        await asyncio.sleep(PING_S)
