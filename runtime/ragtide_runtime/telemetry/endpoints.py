"""HTTP endpoints of a role: `/metrics` for Prometheus, `/healthz` and `/readyz` for its supervisor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ..cancellation import end
from ..errors import ConfigurationError
from ..redis.client import connect_async
from ..settings.model import Settings
from .backlog_metrics import BacklogCollector
from .health import Health, HealthReport
from .process import ProcessTelemetry

PING_S: Final = 1.0
"""Seconds between two pings of Redis, and the time limit of each ping. A health probe itself never waits for Redis."""

log = structlog.get_logger("ragtide.http")


@asynccontextmanager
async def serving(settings: Settings, url: str, process: ProcessTelemetry) -> AsyncIterator[int | None]:
    """Serve the endpoints for the body of an `async with` and yield the port; without `http_port` serve nothing.

    Raises:
        ConfigurationError: the address cannot be used, for example because another process has the port.
    """
    if settings.http_port is None:
        yield None
        return
    redis = connect_async(url)
    backlog = BacklogCollector(redis, settings.prefix, settings.partitions)
    process.registry.register(backlog)
    ProcessCollector(registry=process.registry)
    runner = web.AppRunner(
        _application(process, backlog), handle_signals=False, access_log=None, shutdown_timeout=PING_S
    )
    pinging = asyncio.create_task(_ping(redis, process.health))
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, settings.http_host, settings.http_port).start()
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve on {settings.http_host}:{settings.http_port} ({error.strerror or error}): set "
                "RAGTIDE_HTTP_PORT to a free port, or to 0 for any"
            ) from None
        port = int(runner.addresses[0][1])
        log.info("serving metrics and health", address=settings.http_host, port=port)
        yield port
    finally:
        await runner.cleanup()
        await end(pinging)
        await redis.aclose()


def _application(process: ProcessTelemetry, backlog: BacklogCollector) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        await backlog.refresh()
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return web.Response(body=encode(process.registry), headers={"content-type": content_type})

    async def healthz(_: web.Request) -> web.Response:
        return _response(process.health.alive())

    async def readyz(_: web.Request) -> web.Response:
        return _response(process.health.ready())

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return application


def _response(report: HealthReport) -> web.Response:
    return web.json_response(report.as_dict(), status=200 if report.ok else 503)


async def _ping(redis: Redis, health: Health) -> None:
    while True:
        try:
            async with asyncio.timeout(PING_S):
                await redis.ping()
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            health.redis_failed(str(error) or type(error).__name__)
        else:
            health.redis_answered()
        await asyncio.sleep(PING_S)
