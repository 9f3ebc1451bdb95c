"""Reads the bodies of requests, within limits of bytes and time."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from ragtide_runtime.settings.serve import ServeSettings

from .access import Client
from .problems import HttpProblem

GZIP: Final = 16 + zlib.MAX_WBITS
ZLIB: Final = 32 + zlib.MAX_WBITS
"""Window bits with which zlib reads gzip, and gzip or zlib."""
STEP_BYTES: Final = 65_536
"""Bytes that are decompressed at once."""


async def read_body(request: Request, client: Client, settings: ServeSettings) -> bytes:
    """Return the decompressed body of a request.

    Raises:
        HttpProblem: 400 for a broken compression, 408 for a slow body, 413 above a limit, 415 for an unknown encoding.
    """
    parts = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_s):
            async for part in _parts(request, client, settings):
                size += len(part)
                parts.append(part)
    except TimeoutError:
        raise _slow(settings) from None
    return b"".join(parts)


async def read_lines(request: Request, client: Client, settings: ServeSettings) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they come, without empty lines. The body as a whole has no limit.

    Raises:
        HttpProblem: as `read_body`; 413 for a line above the limit of a body.
    """
    parts = _parts(request, client, settings, whole=False)
    rest = b""
    while True:
        try:
            async with asyncio.timeout(settings.body_s):
                part = await anext(parts, None)
        except TimeoutError:
            raise _slow(settings) from None
        if part is None:
            break
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > settings.body_bytes:
            raise _too_large(f"a line has more than {settings.body_bytes:,} bytes")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


async def _parts(
    request: Request, client: Client, settings: ServeSettings, *, whole: bool = True
) -> AsyncIterator[bytes]:
    """Yield the decompressed parts of a body; with `whole` their sum is limited."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise HttpProblem(415, f"the content encoding {encoding[:40]!r} is unknown: send gzip or none", close=True)
    announced = request.headers.get("content-length", "")
    if whole and announced.isdigit() and int(announced[:20]) > settings.body_bytes:
        raise _too_large(f"the body has {int(announced[:20]):,} bytes, more than {settings.body_bytes:,}")
    decompressor = None
    if encoding in ("gzip", "x-gzip", "deflate"):
        decompressor = zlib.decompressobj(GZIP if encoding != "deflate" else ZLIB)
    sent = given = 0
    try:
        async for chunk in request.stream():
            sent += len(chunk)
            client.bytes.take(len(chunk))
            if whole and sent > settings.body_bytes:
                raise _too_large(f"the body has more than {settings.body_bytes:,} bytes")
            for part in _decompressed(decompressor, chunk):
                given += len(part)
                if whole and given > settings.decompressed_bytes:
                    raise _too_large(f"the decompressed body has more than {settings.decompressed_bytes:,} bytes")
                yield part
    except zlib.error:
        raise HttpProblem(400, f"the body is not valid {encoding}: send it again", close=True) from None
    except ClientDisconnect:
        raise HttpProblem(400, "the connection ended before the body: send it again", close=True) from None
    if decompressor is not None and sent and not decompressor.eof:
        raise HttpProblem(400, f"the body ends in the middle of its {encoding}: send it again")


def _decompressed(decompressor: "zlib._Decompress | None", chunk: bytes) -> Iterator[bytes]:
    """Yield the decompressed parts of a chunk, each of a limited size, so that a bomb is seen before memory is full."""
    if decompressor is None:
        yield chunk
        return
    while part := decompressor.decompress(chunk, STEP_BYTES):
        yield part
        chunk = decompressor.unconsumed_tail
    if decompressor.unused_data:
        raise zlib.error("data after the end")


def _too_large(detail: str) -> HttpProblem:
    return HttpProblem(413, f"{detail}: send less at once", close=True)


def _slow(settings: ServeSettings) -> HttpProblem:
    return HttpProblem(408, f"the body did not come within {settings.body_s:g} s: send it faster", close=True)
