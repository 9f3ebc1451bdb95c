"""Opens files of text: compressed or not, in UTF-8, or in UTF-16 or UTF-32."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from .record import RecordError

LINE_MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one line that are kept; the rest of a longer line is skipped."""
UNPACKED_MAX: Final = 256 * 1024 * 1024
"""Bytes that any compressed file may have when it is decompressed."""
RATIO_MAX: Final = 250
"""A compressed file may be this many times as large as on disk; texts of answers are rarely 50 times as large."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, with the encoding of each; that of UTF-32 begins as that of UTF-16."""
_OTHER_FILES: Final = {
    b"PAR1": "Parquet: name it .parquet, or give --format parquet",
    b"SQLi": "a database of SQLite: export the table as CSV",
    b"ARRO": "a file of Arrow or Feather: save it as Parquet",
    b"Obj\x01": "Avro: save it as Parquet or JSON Lines",
    b"%PDF": "a PDF: give a file with rows of questions, documents and responses",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"Rar!": "a rar archive: unpack it",
    b"\x1f\x9d": "compressed with compress (.Z): decompress it, or use gz",
    b"\xff\x06\x00\x00sNaP": "compressed with snappy: decompress it, or use zst",
    b"\x04\x22\x4d\x18": "compressed with lz4: decompress it, or use zst",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file: save it as CSV",
}


_OTHER_ENDINGS: Final = {
    ".br": "brotli", ".snappy": "snappy", ".sz": "snappy", ".z": "compress", ".lz4": "lz4", ".lzo": "lzo", ".7z": "7z",
    ".rar": "rar", ".tar": "tar", ".tgz": "tar",
}  # fmt: skip
"""Compressions and archives that are not read, of which some have no first bytes of their own, by a name's ending."""


def _zip(raw: BinaryIO) -> Any:
    try:
        archive = zipfile.ZipFile(raw)
        members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) == 1:
            return archive.open(members[0])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise RecordError(f"it is a zip that cannot be read ({error}): unpack it") from None
    raise RecordError("it is a zip of several files, or an Excel file: unpack it, or save it as CSV")


def _zstd(raw: BinaryIO) -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra; only this compression needs it
    except ModuleNotFoundError:
        raise RecordError("reading zstd needs pyarrow: pip install 'ragtide[parquet]', or decompress it") from None
    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")


PACKED: Final[dict[str, tuple[bytes, Callable[[BinaryIO], Any]]]] = {
    ".gz": (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    ".bz2": (b"BZh", bz2.BZ2File),
    ".xz": (b"\xfd7zXZ\x00", lzma.LZMAFile),
    ".lzma": (b"\x5d\x00\x00", lzma.LZMAFile),
    ".zst": (b"\x28\xb5\x2f\xfd", _zstd),
    ".zip": (b"PK\x03\x04", _zip),
}
"""First bytes and decompression by the ending of a file's name."""


def bare_suffixes(path: Path) -> list[str]:
    """Return the endings of a file's name in lower case, without those of compressions.

    >>> bare_suffixes(Path("answers.v2.CSV.zst"))
    ['.v2', '.csv']
    """
    return [suffix for suffix in map(str.lower, path.suffixes) if suffix not in PACKED]


class _Unpacked(io.RawIOBase):
    """The decompressed bytes of a file, as many as text may have."""

    def __init__(self, stream: Any, most: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._stream.read(len(buffer))
        self._left -= len(chunk)
        if self._left < 0:
            raise RecordError(f"it decompresses to more than {RATIO_MAX} times its size: decompress it and look at it")
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the bytes of a file after its byte order mark, and their encoding.

    Raises:
        RecordError: the file is compressed and broken, or no text.
        OSError: the file cannot be read.
    """
    with path.open("rb") as raw:
        start, suffix = raw.peek(8)[:8], path.suffix.lower()
        packed = _packed(start) or (suffix if suffix in PACKED else None)
        try:
            stream: Any = raw
            if packed:
                most = max(UNPACKED_MAX, RATIO_MAX * os.fstat(raw.fileno()).st_size)
                stream = io.BufferedReader(_Unpacked(PACKED[packed][1](raw), most))
                start = stream.peek(8)[:8]
                if twice := _packed(start):
                    raise RecordError(f"it is compressed twice ({twice[1:]} in {packed[1:]}): decompress it once")
            known = next((_OTHER_FILES[mark] for mark in _OTHER_FILES if start.startswith(mark)), None)
            if known:
                raise RecordError(f"it is {known}")
            if other := next((_OTHER_ENDINGS.get(ending) for ending in bare_suffixes(path)[-1:]), None):
                raise RecordError(f"its name is that of a file of {other}, which is not read: unpack it, or rename it")
            mark, encoding = next((pair for pair in _MARKS if start.startswith(pair[0])), (b"", "utf-8"))
            if not mark and 0 in start[:2]:
                encoding = _utf16_without_mark(start)
            if encoding == "utf-8":
                stream.read(len(mark))
            yield cast("BinaryIO", stream), encoding
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError) as error:
            if not packed or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise RecordError(
                f"it cannot be decompressed ({error}): give a whole file of {packed[1:]}, or text"
            ) from None


def _packed(start: bytes) -> str | None:
    return next((ending for ending, (mark, _) in PACKED.items() if start.startswith(mark)), None)


def _utf16_without_mark(start: bytes) -> str:
    for encoding, zeros in (("utf-16-le", start[1::2]), ("utf-16-be", start[::2])):
        if not any(zeros) and start.count(0) == len(zeros):
            return encoding
    raise RecordError("it has zero bytes, so it is no text: save it as UTF-8")


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
    """Yield the lines of a file in UTF-8; only a line feed ends a line. At most `LINE_MAX_BYTES` are of one line.

    Raises:
        RecordError: as `opened`, or text that is not in its encoding.
        OSError: the file cannot be read.
    """
    with opened(path) as (stream, encoding):
        if encoding == "utf-8":
            yield from _lines(stream, b"\n")
            return
        try:
            with io.TextIOWrapper(stream, encoding=encoding, newline="\n") as text:
                yield from (line.encode("utf-8", "surrogatepass") for line in _lines(text, "\n"))
        except UnicodeError as error:
            raise RecordError(f"it is not {encoding.upper()} ({error}): save it as UTF-8") from None


def _lines(stream: Any, end: Any) -> Iterator[Any]:
    while line := stream.readline(LINE_MAX_BYTES):
        yield line
        while len(line) == LINE_MAX_BYTES and not line.endswith(end):
            line = stream.readline(LINE_MAX_BYTES)
