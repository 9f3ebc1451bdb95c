"""Reads the HTTP service with a token, whose rights decide what is seen; each failure is one sentence."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import TypeAdapter, ValidationError

from ragtide_runtime import __version__
from ragtide_runtime.errors import ConfigurationError, RagtideError
from ragtide_runtime.settings.serve import McpSettings, is_loopback
from ragtide_schemas.printable import printable

TIMEOUT_S: Final = 60.0
"""Seconds after which an answer is given up."""
ANSWER_BYTES: Final = 16_777_216
"""Most bytes of an answer of the service."""
DETAIL_CHARS: Final = 2_000

T = TypeVar("T")


class ServiceError(RagtideError):
    """The HTTP service cannot be read, or refuses a question."""


class ServiceClient:
    """Reads the routes below `/v1/` of a `ragtide serve`. It sends GET only.

    Args:
        settings: address and token. The token is sent to this address only: redirects are not followed.

    Raises:
        ConfigurationError: the address or the token cannot be used.
    """

    def __init__(self, settings: McpSettings) -> None:
        parts = urlsplit(settings.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ConfigurationError(
                "the address of ragtide serve must begin with http:// or https:// and have no user or password: give "
                "one such as http://127.0.0.1:8080 with --url or RAGTIDE_MCP_ENDPOINT, and the token in "
                "RAGTIDE_MCP_TOKEN"
            )
        token = None if settings.token is None else settings.token.get_secret_value()
        if token is not None and not (token.isascii() and token.isprintable() and token == token.strip()):
            raise ConfigurationError(
                "the token in RAGTIDE_MCP_TOKEN has a space at an end or a character that is not printable ASCII: copy "
                "it again"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        """Address of the service, without a slash at its end."""
        self._headers = {"User-Agent": f"ragtide-mcp/{__version__}", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._has_token = bool(token)
        # The way to this machine leads through no proxy, which would see the token.
        self._uses_proxies = not is_loopback(parts.hostname)
        self._stack = AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._http = await self._stack.enter_async_context(
            httpx2.AsyncClient(
                headers=self._headers,
                timeout=TIMEOUT_S,
                follow_redirects=False,
                trust_env=self._uses_proxies,
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def get(self, path: str, adapter: TypeAdapter[T], **query: str | float | bool | None) -> T:
        """Return the answer to a question.

        Args:
            path: path of the route, such as `/v1/fleet`.
            adapter: reads the answer.
            query: the parameters; one that is None is left out.

        Raises:
            ServiceError: the service does not answer, refuses, or answers something else.
        """
        assert self._http is not None  # noqa: S101 - the caller has entered it
        given = {name: _text(value) for name, value in query.items() if value is not None}
        try:
            async with self._http.stream("GET", self.url + path, params=given) as reply:
                body = bytearray()
                async for part in reply.aiter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise ServiceError(f"the answer has more than {ANSWER_BYTES:,} bytes: ask for fewer with limit")
        except httpx2.TimeoutException:
            raise ServiceError(
                f"ragtide serve at {self.url} did not answer within {TIMEOUT_S:g} s: try again"
            ) from None
        except httpx2.HTTPError:  # its text may name a proxy with its password
            raise ServiceError(
                f"ragtide serve does not answer at {self.url}: start it (ragtide serve, or ragtide up), or give its "
                "address with --url or RAGTIDE_MCP_ENDPOINT"
            ) from None
        if reply.status_code != 200:
            raise ServiceError(self._problem(reply.status_code, bytes(body)))
        try:
            return adapter.validate_json(bytes(body))
        except ValidationError:
            raise ServiceError(
                f"the answer of {self.url}{path} is not that of ragtide {__version__}: is it the address of a ragtide "
                "serve, of the same release?"
            ) from None

    def _problem(self, status: int, body: bytes) -> str:
        """Return the sentence about an answer that is no success."""
        if status == 401:
            given = "does not know the token" if self._has_token else "needs a token"
            return (
                f"ragtide serve at {self.url} {given}: set RAGTIDE_MCP_TOKEN to a token of its serve.tokens that has "
                "the access read"
            )
        try:
            detail = _DETAIL.validate_json(body).get("detail")
        except ValidationError:
            detail = None
        if isinstance(detail, str) and detail:
            return printable(detail)[:DETAIL_CHARS]
        return f"{self.url} answered with the HTTP status {status}: is it the address of a ragtide serve?"


_DETAIL: Final[TypeAdapter[Mapping[str, Any]]] = TypeAdapter(Mapping[str, Any])


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
