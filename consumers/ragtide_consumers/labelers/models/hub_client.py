"""Asks the Hugging Face Hub, or a mirror, over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from yarl import URL

from ragtide_runtime.outside.certificates import tls_context
from ragtide_runtime.outside.proxies import proxy_of, through
from ragtide_runtime.settings.labelers import ModelsSettings

SILENCE_S: Final = 60.0
"""Seconds without a byte after which a try has failed."""

REDIRECTS_MAX: Final = 5
"""Most redirects of one file: large files are on other hosts."""

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class HubClient:
    """A client of the Hub; the token goes to the Hub alone, and to no host that it redirects to.

    Args:
        session: of HTTP.
        settings: address and token.
    """

    def __init__(self, session: aiohttp.ClientSession, settings: ModelsSettings) -> None:
        self._session = session
        self._token = settings.hub_token
        self.url = settings.hub_url.rstrip("/")
        """Address of the Hub."""

    @asynccontextmanager
    async def reply(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the reply to a request, after redirects.

        Args:
            path: after the address of the Hub, with a slash.

        Raises:
            aiohttp.ClientError: no reply, or too many redirects.
        """
        began = place = URL(self.url + path)
        for _ in range(REDIRECTS_MAX + 1):
            is_hub = self._token is not None and place.origin() == began.origin()
            headers = None
            if self._token is not None and is_hub:
                headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"}
            proxy = proxy_of(str(place))
            address = None if proxy is None else proxy.url
            async with self._session.get(place, headers=headers, allow_redirects=False, proxy=address) as reply:
                if reply.status not in _REDIRECTS:
                    yield reply
                    return
                try:
                    place = place.join(URL(reply.headers.get("Location", "")))
                except ValueError:
                    raise aiohttp.ClientError("a redirect without an address") from None
        raise aiohttp.ClientError(f"more than {REDIRECTS_MAX} redirects")

    def error_line(self, error: Exception) -> str:
        """Return an error of a request in one line, with the proxy that it went through."""
        return " ".join(f"{type(error).__name__}: {error}".split())[:200] + through(proxy_of(self.url))


@asynccontextmanager
async def hub_client(settings: ModelsSettings) -> AsyncIterator[HubClient]:
    """Yield a client of the Hub for the body of a `with`."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=SILENCE_S / 2, sock_read=SILENCE_S)
    # Packed bytes may unpack to any size, so the Hub is asked for plain ones.
    headers = {"Accept-Encoding": "identity", "User-Agent": "ragtide"}
    async with aiohttp.ClientSession(
        headers=headers,
        timeout=timeout,
        auto_decompress=False,
        connector=aiohttp.TCPConnector(ssl=tls_context()),
    ) as session:
        yield HubClient(session, settings)
