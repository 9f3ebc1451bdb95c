"""The answers of a process about itself, for any web server: its metrics, and whether it is alive and ready."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ..processes.cancellation import end
from ..redis.client import connect_async
from ..redis.failures import explained
from ..settings.model import Settings
from .backlog_metrics import BacklogCollector
from .families import Collected, of_pipelines
from .health import Health, HealthReport
from .process import ProcessTelemetry

PING_S: Final = 1.0
"""Seconds between two pings of Redis, and the time limit of each ping. A health probe itself never waits for Redis."""


class RoleEndpoints:
    """The answers of a process about itself, for any web server.

    Args:
        process: telemetry of the process.
        backlog: the backlog of every partition.
    """

    def __init__(self, process: ProcessTelemetry, backlog: BacklogCollector) -> None:
        self._process = process
        self._backlog = backlog

    async def metrics(
        self, accept: str, *, may_see: Callable[[str], bool] | None = None, deployment: bool = True
    ) -> tuple[bytes, str]:
        """Return the metrics, and their content type.

        Args:
            accept: the header `Accept` of the request.
            may_see: whether the client may see a pipeline; without it the client sees all pipelines.
            deployment: whether the client may see numbers of the whole deployment.
        """
        await self._backlog.refresh()
        encode, content_type = choose_encoder(accept)
        registry = self._process.registry
        if may_see is not None:
            registry = of_pipelines(registry, may_see, deployment=deployment)
        return await asyncio.to_thread(encode, Collected(registry)), content_type

    def alive(self) -> HealthReport:
        """Return whether a restart would not help."""
        return self._process.health.alive()

    def ready(self) -> HealthReport:
        """Return whether every role does its work now."""
        return self._process.health.ready()


@asynccontextmanager
async def observing(settings: Settings, url: str, process: ProcessTelemetry) -> AsyncIterator[RoleEndpoints]:
    """Ping Redis for the body of an `async with`, and yield the answers of the process about itself."""
    redis = connect_async(url)
    backlog = BacklogCollector(redis, settings.prefix, settings.partitions)
    process.registry.register(backlog)
    resources = ProcessCollector(registry=process.registry)
    pinging = asyncio.create_task(_ping(redis, process.health))
    try:
        yield RoleEndpoints(process, backlog)
    finally:
        process.registry.unregister(backlog)
        process.registry.unregister(resources)
        await end(pinging)
        await redis.aclose()


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
