"""The HTTP client of the judge: replies of a bounded size, and no redirects.

A redirect would carry the whole prompt to another host, and a reply of a few kilobytes may unpack to gigabytes.
"""

from typing import Any

import httpx2
import openai

from ..remote.replies import LARGEST_REPLY, ReplyTooLarge


def bounded_client() -> Any:
    """Return the HTTP client; a reply over the limit raises `ReplyTooLarge`."""
    # On one core the transport by aiohttp makes twice as many calls a second as the default transport.
    return openai.DefaultAioHttpClient(follow_redirects=False, event_hooks={"response": [_read_bounded]})


async def _read_bounded(response: httpx2.Response) -> None:
    """Read a reply, count its bytes, and put its unpacked body into the reply."""
    # A second response over the same stream unpacks it, piece by piece.
    unpacking = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
    body = bytearray()
    try:
        async for piece in unpacking.aiter_bytes():
            body += piece
            if len(body) > LARGEST_REPLY:
                raise ReplyTooLarge
    finally:
        await unpacking.aclose()
    response.stream = httpx2.ByteStream(bytes(body))
    response.headers.pop("content-encoding", None)
