"""Destinations that take HTTP requests: sends them within limits, and says how each answer is meant."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import aiohttp
from pydantic import SecretStr
from pydantic_core import from_json, to_json

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.answers import collect
from ragtide_runtime.outside.proxies import Proxy, proxy_of, through
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_schemas import utc_now
from ragtide_schemas.printable import printable

from ...labelers.remote.replies import retry_after_s
from ..notification import Notification
from .addresses import PrivateAddressError, connector
from .protocol import Preview, Refused, TryLater

LARGEST_ANSWER: Final = 64 * 1024
"""Most bytes of an answer that are read."""

LONGEST_RETRY_AFTER_S: Final = 3600.0
"""Most seconds for which a destination's request to wait is obeyed."""

SHOWN_CHARS: Final = 200
"""Most characters of an answer in a reason."""

MASK: Final = "***"

PASSING: Final = frozenset({408, 421, 423, 425, 429})
"""Client errors that may pass by themselves; so may every status of 500 and more."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One POST of JSON to a destination."""

    url: str = field(repr=False)
    """The address, which may be a secret."""
    body: Any
    """JSON value."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers besides the content type."""
    content_type: str = "application/json"


class HttpAnswer(NamedTuple):
    """The answer to a request that was accepted."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    """At most the first `LARGEST_ANSWER` bytes."""

    def json(self) -> Any:
        """Return the JSON of the body; None if it is not JSON."""
        try:
            return from_json(self.body)
        except ValueError:
            return None


def open_session(notify: NotifySettings) -> aiohttp.ClientSession:
    """Return the HTTP client of all destinations.

    It connects to public addresses only, unless `notify.allow_private` is set, and it keeps no cookies. Each request
    goes through the proxy of the environment (`outside/proxies.py`), whose address is checked like a destination's.

    Raises:
        ConfigurationError: a variable of the environment names no certificates.
    """
    return aiohttp.ClientSession(
        connector=connector(allow_private=notify.allow_private),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Packed bytes that pass the limit may unpack to a thousand times as many.
        auto_decompress=False,
        headers={"accept-encoding": "identity", "user-agent": "ragtide"},
        timeout=aiohttp.ClientTimeout(total=None),  # each request has its own
    )


class HttpDestination(ABC):
    """A destination that takes HTTP requests.

    Args:
        notify: settings of all notifications.
        session: that `open_session` returned; it stays open when the destination is closed.
    """

    grouped: ClassVar[bool]
    """Whether one message holds several alerts."""
    resend_s: ClassVar[float | None] = None
    """Seconds after which a firing alert must be sent again; None if once is enough."""

    def __init__(self, settings: DestinationSettings, notify: NotifySettings, session: aiohttp.ClientSession) -> None:
        self.name = settings.name
        self.timeout_s = notify.timeout_s
        """Seconds that one request may take."""
        self._settings, self._session = settings, session
        self._secrets = secrets_of(settings)

    @abstractmethod
    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return the requests that carry a notification, in their order.

        Args:
            now: wall time of the attempt.
        """

    async def deliver(self, notification: Notification) -> str:
        """Send a notification. The destination gives no id to messages, so the returned id is empty.

        Raises:
            TryLater: it failed, and may succeed later.
            Refused: it would fail again.
        """
        for request in self.requests(notification, utc_now()):
            await self.post(request)
        return ""

    def preview(self, notification: Notification) -> list[Preview]:
        """Return the requests that `deliver` would send, with every secret masked. Nothing is sent."""
        return [self._mask_request(request) for request in self.requests(notification, utc_now())]

    async def aclose(self) -> None:  # noqa: B027  # no destination over HTTP has anything to close
        """Close nothing: the HTTP client belongs to the caller."""

    async def post(self, request: HttpRequest) -> HttpAnswer:
        """Send a request, and return the answer if it was accepted. Redirects are not followed.

        Raises:
            TryLater: no answer within the limit, no connection, or an answer that asks for patience.
            Refused: any other answer, or an address that is not allowed.
        """
        body, received = to_json(request.body), bytearray()
        headers = {"content-type": request.content_type, **request.headers, **self.signature_headers(request, body)}
        status, answered = 0, {}
        try:
            proxy = proxy_of(request.url)
        except ConfigurationError as error:
            raise TryLater(f"{self.name} is not reached: {error}") from None
        except ValueError:
            raise Refused(f"{self.name} has an address that cannot be used: correct its url") from None
        try:
            async with (
                asyncio.timeout(self.timeout_s),
                self._session.post(
                    request.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=None if proxy is None else proxy.url,
                ) as response,
            ):
                status, answered = response.status, dict(response.headers.items())
                # The status decides. A body that does not arrive whole changes nothing.
                with suppress(aiohttp.ClientError, OSError):
                    await collect(response.content.iter_any(), LARGEST_ANSWER, cut=True, into=received)
                response.close()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            if not status:
                raise self._failure_of(request, error, proxy) from None
        answer = HttpAnswer(status, {name.lower(): value for name, value in answered.items()}, bytes(received))
        self._check_status(answer, proxy)
        return answer

    def signature_headers(self, request: HttpRequest, body: bytes) -> dict[str, str]:
        """Return headers that depend on the bytes of the body, such as a signature."""
        return {}

    def clean(self, text: str) -> str:
        """Return a text of the destination, shortened, without secrets and control characters."""
        return printable(mask(text, self._secrets))[:SHOWN_CHARS]

    def _check_status(self, answer: HttpAnswer, proxy: Proxy | None) -> None:
        status = answer.status
        if 200 <= status < 300:
            return
        explanation = self.clean(answer.body[:10_000].decode("utf-8", "replace").strip())
        reason = f"{self.name} answered with status {status}" + (f": {explanation}" if explanation else "")
        reason += through(proxy)
        if status >= 500 or status in PASSING:
            raise TryLater(reason, retry_after_s(answer.headers, longest_s=LONGEST_RETRY_AFTER_S))
        if status < 400:
            raise Refused(
                f"{self.name} redirects with status {status}: redirects are not followed, correct its address"
            )
        raise Refused(reason)

    def _failure_of(self, request: HttpRequest, error: Exception, proxy: Proxy | None) -> TryLater | Refused:
        if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, PrivateAddressError):
            return Refused(f"{self.name} is not reached: {error.os_error}{through(proxy)}")
        # An error about a certificate is a ValueError, too.
        if isinstance(error, ValueError) and not isinstance(
            error, aiohttp.ClientSSLError
        ):  # such as aiohttp.InvalidURL
            return Refused(f"{self.name} has an address that cannot be used: correct its url")
        host = urlsplit(request.url if proxy is None else proxy.shown).hostname
        if isinstance(error, TimeoutError):
            reason = f"gave no answer within {self.timeout_s:g} s"
        elif isinstance(error, aiohttp.ClientConnectorDNSError):
            reason = f"is not reached: the name {host} cannot be resolved"
        elif isinstance(error, aiohttp.ClientSSLError):
            reason = f"is not reached: TLS with {host} fails (check its certificate)"
        elif isinstance(error, aiohttp.ClientConnectorError):
            reason = f"is not reached: no connection to {host} ({error.strerror or 'refused'})"
        else:
            reason = "closed the connection without an answer"
        return TryLater(f"{self.name} {reason}{through(proxy)}")

    def _mask_request(self, request: HttpRequest) -> Preview:
        headers = {
            "content-type": request.content_type,
            **request.headers,
            **self.signature_headers(request, to_json(request.body)),
        }
        return Preview(
            f"POST {mask_url(request.url)}",
            {name: MASK if name in _SECRET_HEADERS else value for name, value in headers.items()},
            mask_value(request.body, self._secrets),
        )


_SECRET_HEADERS: Final = frozenset({"authorization", "webhook-signature"})


def bearer(token: SecretStr | None) -> dict[str, str]:
    """Return the header that carries a token; empty without one."""
    return {} if token is None else {"authorization": f"Bearer {token.get_secret_value()}"}


def secrets_of(settings: DestinationSettings) -> tuple[str, ...]:
    """Return the secrets of a destination as they may appear in a text, the longest first."""
    secrets = [
        secret.get_secret_value()
        for secret in (settings.secret, settings.token, settings.password)
        if secret is not None
    ]
    if settings.url is not None:
        url = settings.url.get_secret_value()
        parts = urlsplit(url)
        places = [parts.path, *parts.path.split("/"), parts.query, *(value for _, value in parse_qsl(parts.query))]
        secrets += [url, parts.password or "", *(place for place in places if len(place) >= _LEAST_PLACE)]
    return tuple(sorted({text for text in secrets if text}, key=len, reverse=True))


_LEAST_PLACE: Final = 12
"""Fewest characters of a part of an address that is masked inside of texts: `alerts` is no secret."""


def mask(text: str, secrets: tuple[str, ...]) -> str:
    """Return a text in which every secret is masked."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def mask_value(value: Any, secrets: tuple[str, ...]) -> Any:
    """Return a JSON value in whose texts every secret is masked."""
    if isinstance(value, str):
        return mask(value, secrets)
    if isinstance(value, dict):
        return {name: mask_value(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask_value(item, secrets) for item in value]
    return value


def mask_url(url: str) -> str:
    """Return scheme and host of an address; the rest may be a secret.

    >>> mask_url("https://user:pw@hooks.example.com:8443/services/T0/B0/key?sig=1")
    'https://hooks.example.com:8443/***'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{MASK}"
