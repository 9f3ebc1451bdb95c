"""Reads the HTTP service with a token, whose rights decide what is seen; each failure is one sentence."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import SecretStr, TypeAdapter
from pydantic_core import from_json

from ragtide_schemas.printable import printable

from . import __version__
from .errors import ConfigurationError, RagtideError
from .outside.answers import AnswerLimits, ForeignAnswerError, collect, decode, validate
from .outside.httpx_transport import bounded_transport
from .outside.proxies import proxy_of, through
from .settings.serve import is_loopback, service_url

LIMITS: Final = AnswerLimits(bytes=8_388_608, parts=100_000, commas=1_000_000)
"""Limits of an answer of the service."""
DETAIL_CHARS: Final = 2_000

T = TypeVar("T")


class ServiceError(RagtideError):
    """The HTTP service cannot be read, or refuses a question.

    Attributes:
        status: HTTP status of its answer; None without an answer that is its own.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServiceNames:
    """Names of the settings that the errors of the client name."""

    url: str
    """Name of what gives the address, such as `RAGTIDE_MCP_ENDPOINT`."""
    token: str
    """Name of the setting that gives the token."""


class ServiceClient:
    """Reads the routes below `/v1/` of a `ragtide serve`. It sends GET only.

    Args:
        url: address of the service, with its path below a reverse proxy.
        token: one of its `serve.tokens`; None for a service without tokens. The token is sent to this address only:
            redirects are not followed.
        timeout_s: seconds after which an answer is given up.

    Raises:
        ConfigurationError: the address or the token cannot be used.
    """

    def __init__(self, url: str, token: SecretStr | None, names: ServiceNames, *, timeout_s: float) -> None:
        try:
            self.url = service_url(url)
            """Address of the service, without a slash at its end."""
        except ValueError as error:
            raise ConfigurationError(
                f"the address of ragtide serve {error}: correct {names.url}, and give the token in {names.token}"
            ) from None
        given = None if token is None else token.get_secret_value()
        if given is not None and not (given.isascii() and given.isprintable() and given == given.strip()):
            raise ConfigurationError(
                f"the token in {names.token} has a space at an end or a character that is not printable ASCII: copy "
                "it again"
            )
        self._names = names
        self._timeout_s = timeout_s
        self._headers = {"User-Agent": f"ragtide/{__version__}", "Accept": "application/json"}
        if given:
            self._headers["Authorization"] = f"Bearer {given}"
        self._has_token = bool(given)
        # The way to this machine leads through no proxy, which would see the token.
        self._proxy = None if is_loopback(urlsplit(self.url).hostname or "") else proxy_of(self.url)
        self._stack = AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._http = await self._stack.enter_async_context(
            httpx2.AsyncClient(
                headers=self._headers,
                timeout=self._timeout_s,
                follow_redirects=False,
                trust_env=False,
                transport=bounded_transport(self._proxy, lambda _: LIMITS.bytes),
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def get(self, path: str, adapter: TypeAdapter[T], **query: str | float | bool | Sequence[str] | None) -> T:
        """Return the answer to a question.

        Args:
            path: path of the route, such as `/v1/fleet`.
            adapter: reads the answer.
            query: the parameters; one that is None is left out, and one with several values is repeated.

        Raises:
            ServiceError: the service does not answer, refuses, or answers something else.
        """
        assert self._http is not None  # noqa: S101 - the caller has entered it
        parameters: list[tuple[str, str | int | float | bool | None]] = [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, values in query.items()
            for value in (values if isinstance(values, list | tuple) else (values,))
            if value is not None
        ]
        try:
            # The timeout of the client is for each piece of an answer; this one is for reading and decoding the whole.
            async with (
                asyncio.timeout(self._timeout_s),
                self._http.stream("GET", self.url + path, params=parameters) as reply,
            ):
                body = await collect(reply.aiter_raw(), LIMITS.bytes)
                if reply.status_code == 200:
                    # Alerts and criteria are strict elsewhere; in an answer of a later release they may have more.
                    return await decode(body, None, partial(validate, adapter, extra="ignore"), LIMITS)
                problem = await decode(body, None, partial(self._problem, reply.status_code), LIMITS)
                raise ServiceError(problem, reply.status_code)
        except (TimeoutError, httpx2.TimeoutException):
            raise ServiceError(
                f"ragtide serve at {self.url} did not answer within {self._timeout_s:g} s: try again"
                f"{through(self._proxy)}"
            ) from None
        except httpx2.HTTPError:  # its text may name a proxy with its password
            raise ServiceError(
                f"ragtide serve does not answer at {self.url}: start it (ragtide serve, or ragtide up), or correct "
                f"{self._names.url}{through(self._proxy)}"
            ) from None
        except ForeignAnswerError as error:
            raise ServiceError(f"{self.url}{path}: {error}, or give a limit{through(self._proxy)}") from None
        except ValueError:  # among them ValidationError
            raise ServiceError(
                f"the answer of {self.url}{path} is not that of ragtide {__version__}: is it the address of a ragtide "
                f"serve, of the same release?{through(self._proxy)}"
            ) from None

    def _problem(self, status: int, body: bytes) -> str:
        if status == 401:
            why = "does not know the token" if self._has_token else "needs a token"
            return (
                f"ragtide serve at {self.url} {why}: set {self._names.token} to a token of its serve.tokens that "
                "has the access read"
            )
        try:
            fields = from_json(body)
        except ValueError:
            fields = None
        detail = fields.get("detail") if isinstance(fields, dict) else None
        if isinstance(detail, str) and detail:
            return printable(detail)[:DETAIL_CHARS]
        return f"{self.url} answered with the HTTP status {status}: is it the address of a ragtide serve?"
