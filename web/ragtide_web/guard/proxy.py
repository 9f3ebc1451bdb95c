"""Requests through a reverse proxy: the path prefix, the scheme and the host that a browser sees.

A proxy may keep the prefix in the path or strip it. The routes always get the path without it; links, redirects and
cookies get it back.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.serve import ServeSettings, path_prefix
from ragtide_schemas.printable import printable

SEEN: Final = "ragtide.seen"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
"""A host that may stand in a command to copy."""
KEEP_HOST: Final = (
    "behind a reverse proxy let the proxy keep the header Host with its port (nginx: proxy_set_header Host "
    "$http_host), or send X-Forwarded-Host from an address in serve.trusted_proxies"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The service as a browser sees it."""

    prefix: str = ""
    """Path below which the service is, such as `/ragtide`; empty for none."""
    is_https: bool = False
    """Whether the browser uses HTTPS."""
    forwarded_host: str | None = None
    """Host that the browser asked a trusted proxy for; None if no trusted proxy states it."""
    malformed: str | None = None
    """Why the headers of a trusted proxy cannot be used; None if they can."""


def seen(scope: Scope) -> Seen:
    """Return the service as the browser of a request sees it."""
    stored = scope.get(SEEN)
    return stored if isinstance(stored, Seen) else Seen()


def prefix_of(request: Request) -> str:
    """Return the prefix of every path in an answer: of links, forms and cookies."""
    return seen(request.scope).prefix


def address_seen(request: Request) -> str:
    """Return the address of the service as the browser of a request sees it, without a slash at the end."""
    view = seen(request.scope)
    host = view.forwarded_host or request.headers.get("host", "")
    if HOST.fullmatch(host) is None:
        host = "localhost"
    return f"{'https' if view.is_https else 'http'}://{host}{view.prefix}"


class BehindProxy:
    """An ASGI middleware that takes the prefix off the path, and adds it to the places of redirects.

    Args:
        app: the service.
        settings: its prefix, and the proxies that may state another.
        paths: paths of the routes. A prefix that begins like one of them would give an address two meanings.

    Raises:
        ConfigurationError: `serve.root_path` begins like a path of a route.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, paths: Iterable[str]) -> None:
        self._app = app
        self._settings = settings
        self._paths = [path.strip("/").split("/") for path in paths]
        if self._is_own(settings.root_path):
            raise ConfigurationError(
                f"serve.root_path is {settings.root_path!r}, where ragtide has pages of its own: choose another, such "
                "as /ragtide"
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            view = self._seen(scope)
        except ValueError as error:
            view = Seen(malformed=f"the proxy's header X-Forwarded-Prefix {error}")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                if "location" in headers:
                    path = urlsplit(headers["location"])._replace(scheme="", netloc="").geturl()
                    headers["location"] = view.prefix + path
            await send(message)

        # Of the paths, only the description of the API needs the prefix: it names the server.
        scope = {**scope, **_without(view.prefix, scope), "root_path": view.prefix, SEEN: view}
        await self._app(scope, receive, sending)

    def _seen(self, scope: Scope) -> Seen:
        headers = Headers(scope=scope)
        # A cookie that is marked as secure without need does no harm, so no proof is asked for.
        is_https = "https" in (scope["scheme"], _first(headers.get("x-forwarded-proto")).lower())
        client = scope.get("client")
        if client is None or not self._settings.trusts(client[0]):
            return Seen(self._settings.root_path, is_https)
        prefix = self._settings.root_path
        if stated := headers.getlist("x-forwarded-prefix"):
            # Each proxy of a chain that takes off a part of the path adds this part.
            prefix = path_prefix("/".join(part.strip() for header in stated for part in header.split(",")))
            if self._is_own(prefix):
                raise ValueError(f"is {prefix!r}, where ragtide has pages of its own: choose another, such as /ragtide")
        host = _first(headers.get("x-forwarded-host"))
        port = _first(headers.get("x-forwarded-port"))
        if host and port.isdecimal() and _port(host) is None and int(port) not in DEFAULT_PORTS.values():
            host = f"{host}:{port}"
        return Seen(prefix, is_https, host or None)

    def _is_own(self, prefix: str) -> bool:
        return bool(prefix) and any(_begins(path, prefix.strip("/").split("/")) for path in self._paths)


def _begins(path: Sequence[str], prefix: Sequence[str]) -> bool:
    for name, part in zip(path, prefix, strict=False):
        if name.endswith(":path}"):
            return True
        if not name.startswith("{") and name != part:
            return False
    return len(path) >= len(prefix)


def _without(prefix: str, scope: Scope) -> dict[str, object]:
    path, raw = scope["path"], scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    if not prefix or not f"{path}/".startswith(f"{prefix}/"):
        return {}
    # The raw path has the prefix in any spelling, with as many slashes.
    rest = raw.split(b"/", prefix.count("/") + 1)[prefix.count("/") + 1 :]
    return {"path": path[len(prefix) :] or "/", "raw_path": b"/" + b"/".join(rest)}


def _first(value: str | None) -> str:
    return (value or "").partition(",")[0].strip()


def _port(host: str) -> int | None:
    try:
        return urlsplit(f"//{host}").port
    except ValueError:
        return None


def is_own_origin(origin: str, host: str | None, forwarded_host: str | None) -> bool:
    """Return whether an origin is of the site that a request was sent to.

    Args:
        origin: header of the request, such as `https://ragtide.example`.
        host: header of the request.
        forwarded_host: what a trusted proxy states in its place.

    >>> origins = ("https://r.example:443", "http://r.example:81", "null")
    >>> [is_own_origin(origin, "r.example", None) for origin in origins]
    [True, False, False]
    """
    try:
        parts = urlsplit(origin)
        place = _place(parts.netloc, parts.scheme)
        return place is not None and place in {
            _place(address, parts.scheme) for address in (host, forwarded_host) if address
        }
    except ValueError:
        return False


def _place(netloc: str, scheme: str) -> tuple[str, int | None] | None:
    parts = urlsplit(f"//{netloc}")
    return None if parts.hostname is None else (parts.hostname, parts.port or DEFAULT_PORTS.get(scheme))


def other_origin(origin: str, host: str | None) -> str:
    """Return why a request of another origin is refused, with the remedy for a proxy that changes the host."""
    return (
        f"the page is at {printable(origin)[:200]}, but the request names the host {printable(host or 'none')[:200]}: "
        f"{KEEP_HOST}"
    )
