"""Posts JSON to an endpoint, over connections that stay open, and reads bounded replies."""

import ssl
import zlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from .replies import LARGEST_REPLY, ReplyTooLarge

POST_ERRORS: Final = (aiohttp.ClientError, OSError, TimeoutError, ReplyTooLarge)
"""Errors of `Poster.post` beside `ErrorReply`: there was no reply, or none that can be used."""


class ErrorReply(Exception):  # noqa: N818  # reads as what it carries
    """A reply with a status of 300 or more.

    Args:
        status: of the reply.
        headers: of the reply.
        text: its body.
    """

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        super().__init__(f"status {status}: {text}" if text else f"status {status}")
        self.status = status
        self.headers = headers
        self.text = text


class Poster:
    """Posts JSON to one address.

    It follows no redirect, which would carry the texts to another host. It uses the proxy of the environment
    (HTTPS_PROXY, NO_PROXY), as it is at the first request. Certificates are those that the `openai` client trusts.

    Args:
        url: address.
        headers: of every request, beside those of JSON.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url
        self._headers = headers
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> bytes:
        """Return the body of the reply, unpacked.

        Raises:
            ErrorReply: the reply has a status of 300 or more.
            ReplyTooLarge: the reply has more than `LARGEST_REPLY` bytes, packed or unpacked.
            aiohttp.ClientError, OSError: there was no whole reply.
        """
        async with self._opened().post(self.url, data=body, allow_redirects=False) as response:
            received = bytearray()
            async for piece in response.content.iter_any():
                received += piece
                if len(received) > LARGEST_REPLY:
                    raise ReplyTooLarge
            packings = response.headers.get("content-encoding")
            reply = bytes(received) if packings is None else unpacked(received, packings)
            if response.status >= 300:
                raise ErrorReply(response.status, response.headers, _text(reply, response.charset))
            return reply

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "ragtide"}
            self._session = aiohttp.ClientSession(
                headers={**headers, **self._headers},
                # Packed bytes that pass the limit may unpack to a thousand times as many.
                auto_decompress=False,
                # The endpoint's own limit of calls in flight adapts.
                connector=aiohttp.TCPConnector(limit=0, ssl=_certificates(self.url)),
                # The endpoint has its own timeout.
                timeout=aiohttp.ClientTimeout(total=None),
                # With `trust_env` aiohttp reads files in a thread, twice for each request.
                proxy=_proxy(self.url),
            )
        return self._session

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


def unpacked(body: bytes | bytearray, packings: str) -> bytes:
    """Return the bytes of a body that was packed.

    Args:
        body: packed, by an endpoint that was asked not to.
        packings: the header `content-encoding`; other packings than gzip and deflate leave the body as it is.

    Raises:
        ReplyTooLarge: there are more bytes than `LARGEST_REPLY`.
        aiohttp.ClientPayloadError: the body is not packed as the header says.

    >>> unpacked(zlib.compress(zlib.compress(b"{}")), "deflate, deflate")
    b'{}'
    """
    found = bytes(body)
    for packing in reversed(packings.lower().split(",")):
        if packing.strip() not in ("gzip", "x-gzip", "deflate"):
            continue
        try:
            found = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(found, LARGEST_REPLY + 1)
        except zlib.error as error:
            raise aiohttp.ClientPayloadError(f"the reply is not packed as {packings[:40]}: {error}") from None
        if len(found) > LARGEST_REPLY:
            raise ReplyTooLarge
    return found


def _text(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _certificates(url: str) -> ssl.SSLContext | bool:
    if urlsplit(url).scheme != "https":
        return True
    from httpx2 import create_ssl_context  # noqa: PLC0415 - an import of 0.15 s, for addresses with https only

    return create_ssl_context()


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
