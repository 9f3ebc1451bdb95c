"""Parquet and Arrow: a column per field, and nested columns for nested fields. Needs pyarrow."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Final

from ragtide_schemas.printable import shortened

from .record import Format, Record, RecordError, present

AT_ONCE: Final = 256
"""Rows that are Python objects at once."""


_TWICE: Final = "several columns have the name {!r}, and only one of them would count: rename or remove the others"


def records_of(batches: Iterable[Any], *, first: int = 1) -> Iterator[Record]:
    """Yield every row of batches; a value that Python cannot represent is a problem of its row alone.

    Args:
        batches: record batches of pyarrow.
        first: number of the first row.
    """
    number = first
    for batch in batches:
        twice = [name for name, count in Counter(batch.schema.names).items() if count > 1]
        for start in range(0, batch.num_rows, AT_ONCE):
            part = batch.slice(start, AT_ONCE)
            for row in [None] * part.num_rows if twice else _rows(part):
                if row is None:
                    yield Record(number, problem=_TWICE.format(twice[0]))
                elif isinstance(row, Exception):
                    problem = f"a value cannot be read ({shortened(str(row))}): give it another type"
                    yield Record(number, problem=problem)
                else:
                    yield Record.of(number, present(row))
                number += 1


def _rows(part: Any) -> list[dict[str, Any] | Exception]:
    try:
        return list(part.to_pylist())
    except (ValueError, OverflowError, TypeError, NotImplementedError) as error:
        if part.num_rows == 1:
            return [error]
        return [row for place in range(part.num_rows) for row in _rows(part.slice(place, 1))]


class Parquet(Format):
    """Parquet, in files or at URLs. Only the row groups with the wanted rows are read."""

    suffixes = (".parquet", ".pq")
    skips_rows = True

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place."""
        del named
        with _opened(place) as file:
            ends = list(accumulate(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)))
            group = bisect_right(ends, start)
            first = ends[group - 1] if group else 0
            for batch in file.iter_batches(batch_size=AT_ONCE, row_groups=list(range(group, len(ends)))):
                skipped = min(max(start - first, 0), batch.num_rows)
                yield from records_of([batch.slice(skipped)], first=first + skipped + 1)
                first += batch.num_rows

    def count(self, place: str | Path) -> int:
        """Return the number of rows."""
        with _opened(place) as file:
            return int(file.metadata.num_rows)

    def digest(self, place: str | Path) -> str:
        """Return one of sizes, places and ranges of all columns: of the end of the file, so that it costs little."""
        with _content(place) as content:
            content.seek(-8, 2)
            length = int.from_bytes(content.read(4), "little")
            size = content.seek(0, 2)
            content.seek(max(size - 8 - length, 0))
            return blake2b(b"%d:" % size + content.read(length), digest_size=8).hexdigest()


def is_url(source: str | Path) -> bool:
    """Return whether a source is a URL of an object store."""
    return "://" in str(source)


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the place in it.

    Raises:
        RecordError: fsspec, or the package that it needs for the URL, is not installed.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra; only URLs need it

        files, place = url_to_fs(url)
    except ModuleNotFoundError:
        raise RecordError("reading a URL needs fsspec: pip install 'ragtide[recorder]'") from None
    except (ImportError, ValueError) as error:
        raise RecordError(f"the URL cannot be used ({error}): give a URL that fsspec knows") from None
    return files, str(place)


@contextmanager
def _content(path: str | Path) -> Iterator[IO[bytes]]:
    if is_url(path):
        files, place = filesystem(str(path))
    with files.open(place, "rb") if is_url(path) else Path(path).open("rb") as content:
        yield content


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException, ArrowInvalid, parquet  # noqa: PLC0415 - an extra; only this format needs it
    except ModuleNotFoundError:
        raise RecordError("reading Parquet needs pyarrow: pip install 'ragtide[parquet]'") from None
    try:
        if is_url(path):
            with _content(path) as content:
                yield parquet.ParquetFile(content)
        else:
            with parquet.ParquetFile(path) as file:
                yield file
    except ArrowInvalid as error:
        raise RecordError(f"it is not Parquet ({str(error)[:100]}): correct the path or give --format") from None
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # pyarrow has errors of its own for a damaged file, and OSErrors without a number.
        text = " ".join(str(error).split())[:100]
        raise RecordError(f"it cannot be read ({text}): check whether the file is complete") from None
