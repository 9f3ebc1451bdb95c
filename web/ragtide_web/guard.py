"""Looks at each request before its route does: its origin, and afterwards its status and duration."""

from collections.abc import Mapping
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import structlog
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtide_runtime.settings.serve import is_loopback
from ragtide_schemas.printable import printable

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
        need_tokens: whether clients have tokens; a browser sends a token only if a page of ours does.
    """

    def __init__(self, app: ASGIApp, *, telemetry: HttpTelemetry, need_tokens: bool) -> None:
        self._app = app
        self._telemetry = telemetry
        self._need_tokens = need_tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", UNKNOWN_ROUTE)
            self._telemetry.answered(route, status, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = (
            None
            if self._need_tokens
            else foreign_site(scope["method"], Headers(scope=scope), seen(scope).forwarded_host)
        )
        if refused is not None:
            await JSONResponse({"detail": refused}, 403, headers={"Connection": "close"})(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:  # a defect of this program must not end the service
            log.exception("a request failed", method=scope["method"], route=getattr(scope.get("route"), "path", None))
            if not started:
                detail = "the request failed by a defect of ragtide: its log has the error"
                await JSONResponse({"detail": detail}, 500)(scope, receive, send)


def foreign_site(method: str, headers: Mapping[str, str], forwarded_host: str | None = None) -> str | None:
    """Return why a request of a browser is refused; None if it is not.

    Args:
        method: of the request.
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
