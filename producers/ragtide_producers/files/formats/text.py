"""Opens files of text: compressed or not, in UTF-8, or in UTF-16 or UTF-32 with their mark."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from .record import RecordError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, with the encoding of each; that of UTF-32 begins as that of UTF-16."""
_OTHER_FILES: Final = {
    b"PK\x03\x04": "a zip or Excel file: save it as CSV",
    b"PAR1": "Parquet: name it .parquet, or give --format parquet",
    b"SQLi": "a database of SQLite: export the table as CSV",
}


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the bytes of a file after its byte order mark, and their encoding.

    Raises:
        RecordError: the file is broken gzip, or no text.
        OSError: the file cannot be read.
    """
    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b" or path.suffix.lower() == ".gz"
        try:
            stream = io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=raw))) if packed else raw
            start = stream.peek(4)[:4]
            if start in _OTHER_FILES:
                raise RecordError(f"it is {_OTHER_FILES[start]}")
            mark, encoding = next((found for found in _MARKS if start.startswith(found[0])), (b"", "utf-8"))
            if not mark and 0 in start[:2]:
                raise RecordError("it has zero bytes, as UTF-16 without a byte order mark: save it as UTF-8")
            if encoding == "utf-8":
                stream.read(len(mark))
            yield stream, encoding
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise RecordError(f"it cannot be decompressed ({error}): give a whole gzip file, or text") from None


@contextmanager
def text_of(path: Path) -> Iterator[io.TextIOWrapper]:
    """Yield a file as text, with its line ends as they are.

    Raises:
        RecordError: as `opened`.
        OSError: the file cannot be read.
    """
    with opened(path) as (stream, encoding), io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        yield text


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file in UTF-8; only a line feed ends a line.

    Raises:
        RecordError: as `opened`, or text that is not in the encoding of its mark.
        OSError: the file cannot be read.
    """
    with opened(path) as (stream, encoding):
        if encoding == "utf-8":
            yield from stream
            return
        try:
            with io.TextIOWrapper(stream, encoding=encoding, newline="\n") as text:
                for line in text:
                    yield line.encode("utf-8", "surrogatepass")
        except UnicodeError as error:
            raise RecordError(f"it is not {encoding.upper()} ({error}): save it as UTF-8") from None
