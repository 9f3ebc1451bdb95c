"""A server that answers everything in a way that costs its clients: bytes, values, depth or time."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

Attack = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
JUNK: Final = b"[" + b"{}," * 5_000_000 + b"{}]"
"""Five million elements: 15 MB, and gigabytes of errors."""
SMALL_JUNK: Final = b"[" + b"{}," * 1_000_000 + b"{}]"
"""A million elements, below every limit of bytes."""
DEEP: Final = b"[" * 400_000
NUMBERS: Final = b"[" + b"1," * 3_000_000 + b"1]"


def body(content: bytes, *headers: bytes, length: int | None = None) -> Attack:
    """Return an answer with a body; its Content-Length may lie."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        size = len(content) if length is None else length
        writer.write(HEAD + b"".join(headers) + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % size)
        writer.write(content)
        await writer.drain()

    return answer


async def _dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def _endless_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    while True:
        writer.write(b"X-More: " + b"a" * 1000 + b"\r\n")
        await writer.drain()


async def _endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Connection: close\r\n\r\n[")
    while True:
        writer.write(b"{}," * 20_000)
        await writer.drain()


PACKED: Final = gzip.compress(JUNK, 1)
GZIP: Final = b"Content-Encoding: gzip\r\n"

ATTACKS: Final[Mapping[str, Attack]] = {
    "gzip of five million elements": body(PACKED, GZIP),
    "gzip in gzip": body(gzip.compress(PACKED), b"Content-Encoding: gzip, gzip\r\n"),
    "a thousand packings": body(b"{}", b"Content-Encoding: " + b"gzip, " * 1000 + b"gzip\r\n"),
    "five million elements": body(JUNK),
    "a million elements": body(SMALL_JUNK),
    "three million numbers": body(NUMBERS),
    "deep nesting": body(DEEP),
    "no gzip": body(b"{}", GZIP),
    "a body that is shorter than it says": body(b"{", length=1000),
    "a body that is longer than it says": body(b"{}" * 1000, length=1),
    "dripping bytes": _dripping,
    "endless headers": _endless_headers,
    "an endless body": _endless_body,
}


@asynccontextmanager
async def hostile(attack: Attack) -> AsyncIterator[str]:
    """Give the address of a server that answers each request so."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await attack(writer)
        connections.discard(task)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
