"""Reads the bodies of requests, within limits of bytes, and works on them beside the event loop."""

import asyncio
import zlib
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from ragtide_runtime.settings.serve import ServeSettings

from ..guard.access import Client
from ..guard.memory import INLINE_BYTES
from ..guard.problems import HttpProblem, too_large
from ..reading.context import Context

T = TypeVar("T")

GZIP: Final = 16 + zlib.MAX_WBITS
ZLIB: Final = 32 + zlib.MAX_WBITS
"""Window bits with which zlib reads gzip, and gzip or zlib."""
STEP_BYTES: Final = 65_536
"""Bytes that are decompressed at once."""
DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a decompressed body, unless more may be sent."""
DECOMPRESSED_RATIO: Final = 50
"""Most decompressed bytes for one byte that was sent, above `FREE_BYTES`."""
FREE_BYTES: Final = 8 * 1024 * 1024
"""Decompressed bytes that any body may have, however well it was compressed."""
ALONE_BYTES: Final = 1024 * 1024
"""Bodies above this are decompressed and decoded one at a time, because then they take several times their bytes."""
BLANK_BYTES: Final = 1024 * 1024
"""Most bytes of blank lines between two items: they cost time and say nothing."""


@dataclass(slots=True)
class SentBody:
    """A body as it was sent."""

    sent: bytes
    encoding: str
    client: Client
    settings: ServeSettings

    def parts(self) -> Iterator[bytes]:
        """Yield the decompressed body in parts, from its beginning.

        Raises:
            HttpProblem: 400 for a broken compression, 413 above a limit.
        """
        yield from self._parts(self.client.bytes.take)

    def whole(self, most: int) -> bytes | None:
        """Return the decompressed body; None if it has more bytes than `most`."""
        parts, size = [], 0
        for part in self._parts(lambda _: None):
            size += len(part)
            if size > most:
                return None
            parts.append(part)
        if self.encoding:
            self.client.bytes.take(size)
        return b"".join(parts)

    def _parts(self, count: Callable[[int], None]) -> Iterator[bytes]:
        opened = _Decompression(self.encoding, count, self.settings)
        yield from opened.parts(self.sent)
        opened.end()


@asynccontextmanager
async def body_of(
    request: Request, shared: Context, client: Client, work: Callable[[Iterable[bytes]], T]
) -> AsyncIterator[T]:
    """Yield what a function makes of a body, and hold its memory for the body of an `async with`.

    Args:
        request: the request.
        shared: shared objects.
        client: who sent it.
        work: takes the decompressed parts. It runs in a thread unless the body is small.

    Raises:
        HttpProblem: 400 for a broken compression, 408 for a slow body, 413 above a limit, 415 for an unknown encoding,
            429 if many bodies fill the memory.
    """
    memory, received = shared.memory, 0
    try:
        encoding = _encoding(request)
        settings = shared.settings.serve
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced[:20]) > settings.body_bytes:
            raise too_large(f"the body has {int(announced[:20]):,} bytes, more than {settings.body_bytes:,}")
        parts = []
        async for part in _sent(request, client, encoding):
            memory.receive(len(part))
            received += len(part)
            if received > settings.body_bytes:
                raise too_large(f"the body has more than {settings.body_bytes:,} bytes")
            parts.append(part)
        body = SentBody(b"".join(parts), encoding, client, settings)
        del parts
        async with worked_on(shared, body, work) as result:
            del body
            memory.release(received)
            received = 0
            yield result
    finally:
        memory.release(received)


@asynccontextmanager
async def worked_on(shared: Context, body: SentBody, work: Callable[[Iterable[bytes]], T]) -> AsyncIterator[T]:
    """Yield what a function makes of a body that was received; the rest is as in `body_of`."""
    if len(body.sent) <= ALONE_BYTES and (whole := body.whole(ALONE_BYTES)) is not None:
        yield work((whole,)) if len(whole) <= INLINE_BYTES else await asyncio.to_thread(work, (whole,))
        return
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for part in body.parts():
            size += len(part)
            yield part

    async with shared.decoding:
        result = await asyncio.to_thread(lambda: work(counted()))
        # While it waits, no other body is decoded. So the memory has at most one more than it should.
        await shared.memory.keep(size)
    try:
        yield result
    finally:
        await shared.memory.let_go(size)


async def read_lines(request: Request, client: Client, settings: ServeSettings) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they come, without empty lines. The body as a whole has no limit.

    Raises:
        HttpProblem: as `body_of`; 400 for too many blank lines, 413 for a line above the limit.
    """
    encoding = _encoding(request)
    opened = _Decompression(encoding, client.bytes.take, settings, whole=False)
    item_came: Callable[[], None] = request.scope["state"].get("item_came", lambda: None)
    rest: list[bytes] = []
    size = blank = 0
    mark = BOM_UTF8  # some programs write it before a text
    async for chunk in _sent(request, client, encoding):
        for part in opened.parts(chunk):
            first, *others = part.split(b"\n")
            size += len(first)
            if not part.strip():
                blank += len(part)
            rest.append(first)
            if blank > BLANK_BYTES:
                raise HttpProblem(400, f"the body has {BLANK_BYTES:,} blank bytes in a row: send items", close=True)
            if size > settings.body_bytes:
                raise too_large(f"a line has more than {settings.body_bytes:,} bytes")
            if others:
                first, mark = b"".join(rest).removeprefix(mark), b""
                for line in (first, *others[:-1]):
                    if line.strip():
                        blank = 0
                        item_came()
                        yield line
                rest, size = [others[-1]], len(others[-1])
            await asyncio.sleep(0)  # decompressed parts come without a wait of their own
    opened.end()
    line = b"".join(rest).removeprefix(mark)
    if line.strip():
        yield line


async def _sent(request: Request, client: Client, encoding: str) -> AsyncIterator[bytes]:
    try:
        async for part in request.stream():
            if not encoding:  # else the decompressed bytes are counted
                client.bytes.take(len(part))
            yield part
    except ClientDisconnect:
        raise HttpProblem(400, "the connection ended before the body: send it again", close=True) from None


def _encoding(request: Request) -> str:
    encoding = ", ".join(request.headers.getlist("content-encoding")).strip().lower()
    if encoding in ("", "identity"):
        return ""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise HttpProblem(415, f"the content encoding {encoding[:40]!r} is unknown: send gzip or none", close=True)
    return encoding


class _Decompression:
    """Decompresses a body step by step, until it breaks a limit."""

    def __init__(
        self, encoding: str, count: Callable[[int], None], settings: ServeSettings, *, whole: bool = True
    ) -> None:
        self._encoding = encoding
        self._count = count
        self._most = max(DECOMPRESSED_BYTES, settings.body_bytes) if whole else None
        self._stream = zlib.decompressobj(ZLIB if encoding == "deflate" else GZIP) if encoding else None
        self._sent = self._given = 0

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decompressed parts of a chunk, each of a limited size: a bomb is seen before memory is full."""
        self._sent += len(chunk)
        if self._stream is None:
            yield from (chunk[at : at + STEP_BYTES] for at in range(0, len(chunk), STEP_BYTES))
            return
        free = max(FREE_BYTES, DECOMPRESSED_RATIO * self._sent)
        try:
            while part := self._stream.decompress(chunk, STEP_BYTES):
                self._given += len(part)
                self._count(len(part))
                if self._most is not None and self._given > self._most:
                    raise too_large(f"the decompressed body has more than {self._most:,} bytes")
                if self._given > free:
                    ratio = DECOMPRESSED_RATIO
                    raise too_large(f"the decompressed body has more than {ratio} times the bytes that were sent")
                yield part
                chunk = self._stream.unconsumed_tail
        except zlib.error:
            raise self._broken() from None
        if self._stream.unused_data:
            raise self._broken()

    def end(self) -> None:
        """Check that the compression has its end."""
        if self._stream is not None and self._sent and not self._stream.eof:
            raise HttpProblem(400, f"the body ends in the middle of its {self._encoding}: send it again")

    def _broken(self) -> HttpProblem:
        return HttpProblem(400, f"the body is not valid {self._encoding}: send it again", close=True)
