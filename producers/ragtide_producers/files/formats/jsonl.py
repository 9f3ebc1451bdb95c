"""JSON Lines: one object per line. A file whose name ends in `.gz` is decompressed while it is read."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import read_json_object

from .record import Record, RecordError


def records(path: Path) -> Iterator[Record]:
    """Yield every line that is not blank; its number counts blank lines, too."""
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            content = line.strip()
            if content:
                try:
                    yield Record(number, read_json_object(content.removeprefix(b"\xef\xbb\xbf")), content)
                except InvalidEntryError as error:
                    yield Record(number, problem=error.detail)


def count(path: Path) -> int:
    """Return the number of lines that are not blank, without decoding them."""
    with _opened(path) as file:
        return sum(1 for line in file if line.strip())


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    if path.suffix.lower() != ".gz":
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordError(f"it cannot be decompressed ({error}): give a whole gzip file, or JSON Lines") from None
