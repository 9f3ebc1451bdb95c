"""The HTTP service in this process, on a port of its own, and a client of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from tests.support.conditions import until

from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import ServeSettings
from ragtide_runtime.settings.watch import SettingsWatch
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_runtime.telemetry.role_endpoints import RoleEndpoints, observing
from ragtide_web.reading.laboratory import Laboratory
from ragtide_web.server import listen, serve_http

try:
    from ragtide_offline.pages.laboratory import LABORATORY
except ModuleNotFoundError:  # `make core` tests without it
    LABORATORY: Laboratory | None = None  # type: ignore[no-redef]


@dataclass
class Service:
    """A running service."""

    port: int
    session: aiohttp.ClientSession
    process: ProcessTelemetry
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    endpoints: RoleEndpoints

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def get(self, path: str, token: str | None = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the JSON (else the text) of an answer."""
        async with self.session.get(self.url + path, headers=_with(headers, token)) as reply:
            return reply.status, await _content(reply)

    async def post(
        self, path: str, json: Any = None, token: str | None = None, data: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Return the status and the JSON (else the bytes) of an answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.post(self.url + path, json=json, data=data, headers=_with(named, token)) as reply:
            return reply.status, await _content(reply)


def _with(headers: Mapping[str, str], token: str | None) -> dict[str, str]:
    return {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}


async def _content(reply: aiohttp.ClientResponse) -> Any:
    return await reply.json() if reply.content_type == "application/json" else await reply.read()


@asynccontextmanager
async def http_service(
    url: str,
    *,
    serve: Mapping[str, Any] | None = None,
    wait_ready: bool = True,
    rules: SettingsWatch | None = None,
    **settings: Any,
) -> AsyncIterator[Service]:
    """Run the service for the body of an `async with`."""
    found = Settings(**{"serve": ServeSettings(**{"port": 0, **(serve or {})}), **settings})
    process, stop = ProcessTelemetry(Health("serve")), asyncio.Event()
    listening = listen(found.serve)
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address without a name, too
    async with observing(found, url, process) as endpoints, aiohttp.ClientSession(cookie_jar=jar) as session:
        port = listening.getsockname()[1]
        task = asyncio.create_task(
            serve_http(
                found,
                url,
                stop,
                endpoints=endpoints,
                process=process,
                listening=listening,
                rules=rules,
                laboratory=LABORATORY,
            )
        )
        service = Service(port, session, process, stop, task, endpoints)
        try:
            await until(lambda: _answers(service, 200 if wait_ready else 503))
            yield service
        finally:
            stop.set()
            await task


async def _answers(service: Service, status: int) -> bool:
    if service.task.done():
        service.task.result()
    try:
        return (await service.get("/readyz"))[0] == status
    except aiohttp.ClientConnectionError:
        return False
