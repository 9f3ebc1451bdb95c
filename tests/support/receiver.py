"""A receiver of notifications over HTTP that records requests, and answers as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from ragtide_consumers.notify.destinations.http import open_session
from ragtide_consumers.notify.destinations.protocol import Destination
from ragtide_consumers.notify.service import destination_of
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings


class Received(NamedTuple):
    """One request."""

    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.body)


@dataclass
class ScriptedAnswer:
    """An answer to come."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    """The server does not answer."""
    stalls: bool = False
    """The server sends the headers and one byte of the body, and then nothing."""
    resets: bool = False
    """The server closes the connection instead of answering."""


class Receiver:
    """The recorded requests, and the answers to come."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[ScriptedAnswer] = []
        """Of the next requests; then every request gets `usual`."""
        self.usual = ScriptedAnswer()
        self.url = ""
        self.released = asyncio.Event()

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Record a request, and answer it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.path_qs, headers, await request.read()))
        answer = self.answers.pop(0) if self.answers else self.usual
        if answer.hangs:
            await self.released.wait()
        if answer.resets and request.transport is not None:
            request.transport.abort()
        if answer.stalls:
            response = web.StreamResponse(status=answer.status)
            await response.prepare(request)
            await response.write(b"x")
            await self.released.wait()
            return response
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    """Give a receiver on a free port of this machine."""
    kept = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", kept.take)
    async with TestServer(app) as server:
        kept.url = str(server.make_url("/")).rstrip("/")
        try:
            yield kept
        finally:
            kept.released.set()


@asynccontextmanager
async def destination(
    kind: str,
    *,
    name: str = "ours",
    prefix: str = "ragtide",
    notify: Mapping[str, Any] | None = None,
    **fields: Any,
) -> AsyncIterator[Destination]:
    """Give a destination with these settings; private addresses are allowed unless `notify` says otherwise."""
    of_all = NotifySettings.model_validate({"allow_private": True, **(notify or {})})
    settings = DestinationSettings.model_validate({"name": name, "kind": kind, **fields})
    session: aiohttp.ClientSession
    async with open_session(of_all) as session:
        built = destination_of(settings, of_all, session, prefix=prefix)
        try:
            yield built
        finally:
            await built.aclose()
