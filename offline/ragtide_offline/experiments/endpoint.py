"""Calls the HTTP endpoint of an experiment: with a limit on the decompressed reply, and without redirects.

A redirect would send the question to another host, and a reply of a few kilobytes may decompress to gigabytes.
"""

import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from pydantic_core import from_json

from ragtide_producers.files.items import Item

from .answers import Answer, answer_from
from .errors import AnswerError

LARGEST_REPLY: Final = 8 * 1024 * 1024
"""Most bytes of a reply after decompression, also of an error."""

SHOWN_CHARS: Final = 200
"""Most characters shown of an endpoint's error."""

PIECE: Final = 64 * 1024
"""Most bytes read at once, and most bytes decompressed at once."""

HEADERS: Final = {"Accept-Encoding": "gzip, deflate"}
"""Header of each request: the compressions that are supported here."""


class HttpTarget:
    """An endpoint that takes `{"question", "item_id", "parameters"}` and returns `{"documents", "response"}`.

    Args:
        url: of the endpoint.
        session: an aiohttp session that does not decompress replies by itself.
    """

    def __init__(self, url: str, session: Any) -> None:
        self._url = url
        self._session = session

    async def answer(self, item: Item, parameters: Mapping[str, Any]) -> Answer:
        """Return the endpoint's answer.

        Raises:
            AnswerError: the reply is an error, a redirect, too large, or has no answer.
        """
        request = {"question": item.question, "item_id": item.item_id, "parameters": dict(parameters)}
        async with self._session.post(self._url, json=request, allow_redirects=False) as reply:
            if 300 <= reply.status < 400:
                location = reply.headers.get("Location", "nowhere")
                raise AnswerError(
                    f"the endpoint answered {reply.status}, a redirect to {location!r}: redirects are not "
                    "followed; give the final address as the target"
                )
            body = await _bounded(reply)
        if reply.status != 200:
            text = body.decode(errors="replace")[:SHOWN_CHARS]
            raise AnswerError(f"the endpoint answered {reply.status}: {text}")
        try:
            value = from_json(body)
        except ValueError as error:
            raise AnswerError(f"the endpoint's answer is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise AnswerError(f"the endpoint's answer is {type(value).__name__}: it must be an object")
        return answer_from(value)


async def _bounded(reply: Any) -> bytes:
    """Return the decompressed body of a reply, without decompressing more than the limit.

    Raises:
        AnswerError: the body is too large, or has another compression.
    """
    body = bytearray()
    async for piece in _unpacked(reply):
        body += piece
        if len(body) > LARGEST_REPLY:
            raise AnswerError(
                f"the endpoint's answer is larger than {LARGEST_REPLY // 2**20} MB after decompression: send less"
            )
    return bytes(body)


async def _unpacked(reply: Any) -> AsyncIterator[bytes]:
    encoding = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
        raise AnswerError(f"the endpoint's answer has the compression {encoding!r}: send gzip, deflate or plain JSON")
    unpacker = None if encoding == "identity" else zlib.decompressobj(wbits=47)  # the header says gzip or zlib
    async for piece in reply.content.iter_chunked(PIECE):
        if unpacker is None:
            yield piece
            continue
        packed = piece
        try:
            while packed:
                yield unpacker.decompress(packed, PIECE)
                packed = unpacker.unconsumed_tail
        except zlib.error as error:
            raise AnswerError(f"the endpoint's answer is not {encoding} ({error})") from None
    if unpacker is not None and not unpacker.eof:
        raise AnswerError(f"the endpoint's answer is not {encoding}, or it was cut off")
