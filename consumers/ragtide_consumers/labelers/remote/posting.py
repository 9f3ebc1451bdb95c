"""Posts JSON to an endpoint, over connections that stay open, and reads bounded replies."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import aiohttp

from ragtide_runtime.outside.answers import ERROR_BYTES, USUAL, AnswerLimits, ForeignAnswerError, collect, decode
from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.outside.proxies import Proxy, proxy_of, through

T = TypeVar("T")

POST_ERRORS: Final = (aiohttp.ClientError, OSError, TimeoutError, ForeignAnswerError)
"""Errors of `Poster.post` beside `ErrorReply`: there was no reply, or none that can be used."""


ERRORS: Final = AnswerLimits(ERROR_BYTES, ERROR_BYTES, ERROR_BYTES)
"""Limits of an error that is unpacked."""


class ErrorReply(Exception):  # noqa: N818  # reads as what it carries
    """A reply with a status of 300 or more.

    Args:
        text: the beginning of its body.
    """

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(f"status {status}: {text}" if text else f"status {status}")
        self.status = status
        self.headers = headers
        self.text = text


class Poster:
    """Posts JSON to one address.

    It follows no redirect, which would carry the texts to another host. It uses the proxy and the certificates of the
    environment, as they are at the first request (`outside/proxies.py`, `outside/certificates.py`).

    Args:
        url: address.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url
        self._headers = headers
        self._session: aiohttp.ClientSession | None = None
        self._proxy: Proxy | None = None

    @property
    def through(self) -> str:
        """The words about the proxy at the end of a message about a failure; empty without a proxy."""
        return through(self._proxy)

    async def post(self, body: bytes, read: Callable[[bytes], T]) -> T:
        """Return what `read` makes of the body of the reply; of a large one in a thread.

        Raises:
            ErrorReply: the reply has a status of 300 or more.
            ForeignAnswerError: the reply has more bytes or values than the limits of an answer, or cannot be unpacked.
            aiohttp.ClientError, OSError: there was no whole reply.
            ConfigurationError: a variable names no proxy, or no certificates.
            Exception: any error of `read`.
        """
        async with self._open_session().post(self.url, data=body, allow_redirects=False) as response:
            is_error = response.status >= 300
            most = ERROR_BYTES if is_error else USUAL.bytes
            received = await collect(response.content.iter_any(), most, cut=is_error)
            if is_error:
                text = await _error_text(received, response)
                raise ErrorReply(response.status, response.headers, text)
            return await decode(received, response.headers.get("content-encoding"), read)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._proxy = proxy_of(self.url)
            headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "ragtide"}
            # A proxy with https has a certificate, too.
            uses_tls = any(
                address.startswith("https:") for address in (self.url, self._proxy.url if self._proxy else "")
            )
            self._session = aiohttp.ClientSession(
                headers={**headers, **self._headers},
                # Packed bytes that pass the limit may unpack to a thousand times as many.
                auto_decompress=False,
                # The endpoint's own limit of calls in flight adapts.
                connector=aiohttp.TCPConnector(limit=0, ssl=tls_context() if uses_tls else True),
                # The endpoint has its own timeout.
                timeout=aiohttp.ClientTimeout(total=None),
                # With `trust_env` aiohttp would decide by rules of its own.
                proxy=None if self._proxy is None else self._proxy.url,
            )
        return self._session

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


async def _error_text(body: bytes, response: aiohttp.ClientResponse) -> str:
    def text(plain: bytes) -> str:
        try:
            return plain.decode(response.charset or "utf-8", "replace")
        except LookupError:
            return plain.decode("utf-8", "replace")

    try:
        return await decode(body, response.headers.get("content-encoding"), text, ERRORS)
    except ForeignAnswerError:
        return ""  # the status says enough
