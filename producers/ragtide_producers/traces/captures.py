"""Requests of traces in files: bodies as an exporter sends them, and lines as the Collector's file exporter writes."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import InvalidTracesError, UnreadableFileError
from .otlp import decode_request, spans_of
from .span import Span

CAPTURE_MAX_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a file, and of its decompressed content."""
_GZIP: Final = b"\x1f\x8b"


def read_capture(path: Path) -> list[Span]:
    """Return the spans in a file: protobuf, JSON, or a JSON object a line; compressed with gzip or not.

    Raises:
        UnreadableFileError: the file cannot be read, is too large, or has another content.
    """
    try:
        with path.open("rb") as file:
            body = file.read(CAPTURE_MAX_BYTES + 1)
        if body.startswith(_GZIP):
            with gzip.open(path) as compressed:
                body = compressed.read(CAPTURE_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFileError(f"{path} cannot be read: {error}") from None
    if len(body) > CAPTURE_MAX_BYTES:
        raise UnreadableFileError(f"{path} has more than {CAPTURE_MAX_BYTES} bytes: split it")
    try:
        return list(_spans(body))
    except InvalidTracesError as error:
        raise UnreadableFileError(f"{path}: {error}") from None


def _spans(body: bytes) -> Iterator[Span]:
    if body.lstrip()[:1] != b"{":
        yield from spans_of(decode_request(body, "protobuf"))
        return
    try:
        yield from spans_of(decode_request(body, "json"))
    except InvalidTracesError:
        lines = [line for line in body.splitlines() if line.strip()]
        if len(lines) == 1:
            raise
        for line in lines:
            yield from spans_of(decode_request(line, "json"))
