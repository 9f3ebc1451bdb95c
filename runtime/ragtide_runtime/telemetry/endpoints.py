"""HTTP endpoints of a role: `/metrics` for Prometheus, `/healthz` and `/readyz` for its supervisor."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from aiohttp import web

from ..processes.listening import listening_socket
from ..settings.model import Settings
from .health import HealthReport
from .role_endpoints import RoleEndpoints

SHUTDOWN_S: Final = 1.0
"""Seconds that running requests have when the role ends."""

log = structlog.get_logger("ragtide.http")


@asynccontextmanager
async def serving(settings: Settings, endpoints: RoleEndpoints) -> AsyncIterator[int | None]:
    """Serve the endpoints for the body of an `async with` and yield the port; without `http_port` serve nothing.

    Raises:
        ConfigurationError: the address cannot be used, for example because another process has the port.
    """
    if settings.http_port is None:
        yield None
        return
    runner = web.AppRunner(_application(endpoints), handle_signals=False, access_log=None, shutdown_timeout=SHUTDOWN_S)
    try:
        await runner.setup()
        listening = listening_socket(settings.http_host, settings.http_port, "RAGTIDE_HTTP_PORT")
        await web.SockSite(runner, listening).start()
        port = int(runner.addresses[0][1])
        log.info("serving metrics and health", address=settings.http_host, port=port)
        yield port
    finally:
        await runner.cleanup()


def _application(endpoints: RoleEndpoints) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        body, content_type = await endpoints.metrics(request.headers.get("accept", ""))
        return web.Response(body=body, headers={"content-type": content_type})

    async def healthz(_: web.Request) -> web.Response:
        return _response(endpoints.alive())

    async def readyz(_: web.Request) -> web.Response:
        return _response(endpoints.ready())

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return application


def _response(report: HealthReport) -> web.Response:
    return web.json_response(report.as_dict(), status=200 if report.ok else 503)
