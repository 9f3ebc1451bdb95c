"""The transport of clients of `httpx2`: bounded answers, and the proxy and the certificates of every client."""

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx2

from .answers import ForeignAnswerError, too_large
from .certificates import tls_context
from .proxies import Proxy


def bounded_transport(proxy: Proxy | None, most: Callable[[httpx2.Request], int]) -> httpx2.AsyncBaseTransport:
    """Return a transport whose answers are plain, because a packed one unpacks to any size, and have a most of bytes.

    Args:
        proxy: through which requests go; None for none.
        most: returns the most bytes of the answer to a request.

    Raises:
        ConfigurationError: a variable of the environment names no certificates.
    """
    through = None if proxy is None else httpx2.Proxy(proxy.shown, auth=proxy.login)
    return _BoundedTransport(httpx2.AsyncHTTPTransport(verify=tls_context(), proxy=through, trust_env=False), most)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, most: Callable[[httpx2.Request], int]) -> None:
        self._inner, self._most = inner, most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        packing = response.headers.get("content-encoding", "identity")
        if packing.strip().lower() != "identity":
            await response.aclose()
            raise ForeignAnswerError(
                f"the answer is packed as {packing[:40]!r} though it was asked for plain: check the address"
            )
        response.stream = _BoundedStream(cast("httpx2.AsyncByteStream", response.stream), self._most(request))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner, self._most = inner, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._most:
                raise too_large(self._most)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
