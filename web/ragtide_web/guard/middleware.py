"""Looks at each request before its route does: its origin, and afterwards its status and duration."""

import asyncio
import re
from collections.abc import Mapping
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import structlog
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtide_runtime.processes.waiting import end
from ragtide_runtime.settings.serve import is_loopback
from ragtide_schemas.printable import printable

from .access import Clients
from .headers import DONE_COOKIE, DONE_S, HEADERS, done_digest, done_in
from .proxy import KEEP_HOST, is_own_origin, other_origin, seen
from .telemetry import HttpTelemetry

UNKNOWN_ROUTE: Final = "unknown"
"""Label of requests to paths that are no route, so that foreign paths add no series."""

log = structlog.get_logger("ragtide.web")


class Guard:
    """An ASGI middleware.

    A service without tokens trusts every program of this machine. A browser is such a program, so pages of other sites
    are kept out: a request must name this machine as its host, and one that changes something must come from no other
    site.

    Args:
        app: the routes.
        telemetry: counts requests.
        clients: whether they need tokens; a browser sends a token only if a page of ours does.
    """

    def __init__(self, app: ASGIApp, *, telemetry: HttpTelemetry, clients: Clients) -> None:
        self._app = app
        self._telemetry = telemetry
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        if is_head:  # what GET answers, without its body
            scope = {**scope, "method": "GET"}
        scope.setdefault("state", {})
        began, status = perf_counter(), 500
        ended = False

        async def sending(message: Message) -> None:
            nonlocal status, ended
            if ended:
                return
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if status == 303 and (done := done_in(headers.get("location", ""))):
                    view = seen(scope)
                    cookie = f"{DONE_COOKIE}={done_digest(done)}; Max-Age={DONE_S}; Path={view.prefix or '/'}"
                    secure = "; Secure" if view.is_https else ""
                    headers.append("set-cookie", f"{cookie}; HttpOnly; SameSite=Strict{secure}")
                message = {**message, "headers": headers.raw}
            elif is_head:
                message, ended = {"type": "http.response.body", "body": b"", "more_body": False}, True
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        finally:
            self._clients.release(scope["state"])
            route = getattr(scope.get("route"), "path", UNKNOWN_ROUTE)
            self._telemetry.answered(route, status, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        malformed = seen(scope).malformed or malformed_head(scope["path"], headers)
        if malformed is not None:
            await JSONResponse({"detail": malformed}, 400, headers={"Connection": "close"})(scope, receive, send)
            return
        refused = None
        if not self._clients.need_tokens:
            refused = foreign_site(scope["method"], headers, seen(scope).forwarded_host)
        if refused is not None:
            await JSONResponse({"detail": refused}, 403, headers={"Connection": "close"})(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            if scope["method"] == "GET":
                await answer_while_connected(self._app, scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        except ClientDisconnect:  # the client no longer waits for an answer
            pass
        except Exception:  # a defect of this program must not end the service
            log.exception("a request failed", method=scope["method"], route=getattr(scope.get("route"), "path", None))
            if not started:
                detail = "the request failed by a defect of ragtide: its log has the error"
                await JSONResponse({"detail": detail}, 500)(scope, receive, send)


async def answer_while_connected(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an application answer a request, and cancel it when the client is gone: nobody reads the answer.

    Only for requests that change nothing.

    Raises:
        ClientDisconnect: the client is gone.
    """
    received: asyncio.Queue[Message] = asyncio.Queue()
    answering = asyncio.ensure_future(app(scope, received.get, send))

    async def watch() -> None:
        while (message := await receive())["type"] != "http.disconnect":
            received.put_nowait(message)
        received.put_nowait(message)

    watching = asyncio.create_task(watch())
    try:
        await asyncio.wait((answering, watching), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            await end(answering)
            raise ClientDisconnect
        answering.result()
    finally:
        await end(answering)
        await end(watching)


_HOST: Final = re.compile(r"(?:\[[0-9A-Za-z:.%_~-]{2,100}\]|[^\s/?#@\[\]\\:,]{0,300})(?::[0-9]{0,5})?")


def malformed_head(path: str, headers: Mapping[str, str]) -> str | None:
    """Return why the head of a request cannot be read in one way only; None if it can."""
    if not path.startswith(("/", "*")):
        return "the request names no path of this service: begin it with /"
    if _HOST.fullmatch(headers.get("host", "")) is None:
        return "the header Host is no name with a port: send the name of the service, such as localhost:8080"
    for name, value in (
        ("Host", f"//{headers.get('host', '')}"),
        ("Origin", headers.get("origin", "")),
        *(("X-Forwarded-Host", f"//{part.strip()}") for part in headers.get("x-forwarded-host", "").split(",")),
    ):
        try:
            parts = urlsplit(value)
            _ = parts.hostname, parts.port
        except ValueError:
            return f"the header {name} is no address: send it as a browser does"
    if "content-length" in headers and "transfer-encoding" in headers:
        # Programs in front of this one may read another end of the body (RFC 9112, 6.1).
        return "the request has both Content-Length and Transfer-Encoding: send one of them"
    return None


def foreign_site(method: str, headers: Mapping[str, str], forwarded_host: str | None = None) -> str | None:
    """Return why a request of a browser is refused; None if it is not.

    Args:
        headers: of the request, by their names in lower case.
        forwarded_host: what a trusted proxy states in place of the header Host.
    """
    # A page that leads its own name to this machine can send any header, so both must name this machine.
    for named in (headers.get("host", ""), forwarded_host or ""):
        host = urlsplit(f"//{named}").hostname
        if host is None or is_loopback(host):
            continue
        return (
            f"without tokens this service answers only to localhost, and the request names the host "
            f"{printable(host)[:200]}: use localhost, or set serve.tokens; {KEEP_HOST}"
        )
    origin = headers.get("origin")
    if method in ("GET", "HEAD", "OPTIONS") or origin is None:
        return None
    if not is_own_origin(origin, headers.get("host"), forwarded_host):
        return f"a page of another site may not write without a token: {other_origin(origin, headers.get('host'))}"
    return None
