"""Requests of traces in files: bodies as an exporter sends them, and lines as the Collector's file exporter writes."""

import codecs
import gzip
import zlib
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
        return list(spans_of(decode_request(body, "json" if _is_json(body) else "protobuf")))
    except InvalidTracesError as error:
        raise UnreadableFileError(f"{path}: {error}") from None


def _is_json(body: bytes) -> bool:
    return body.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")
