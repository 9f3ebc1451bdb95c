"""Parquet: a column per field, and nested columns for nested fields; a few hundred rows are read at once."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from .arrow import AT_ONCE, records_of
from .record import Record, RecordError


def records(path: str | Path, start: int = 0) -> Iterator[Record]:
    """Yield every row from a place, from 0; only the row groups with these rows are read.

    Raises:
        RecordError: pyarrow is not installed, or the file is not Parquet.
    """
    with _opened(path) as file:
        ends = list(accumulate(file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)))
        group = bisect_right(ends, start)
        place = ends[group - 1] if group else 0
        for batch in file.iter_batches(batch_size=AT_ONCE, row_groups=list(range(group, len(ends)))):
            skipped = min(max(start - place, 0), batch.num_rows)
            yield from records_of([batch.slice(skipped)], first=place + skipped + 1)
            place += batch.num_rows


def count(path: str | Path) -> int:
    """Return the number of rows."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def digest(path: str | Path) -> str:
    """Return a digest of the sizes, places and ranges of all columns: of the end of the file, so that it costs little.

    Raises:
        RecordError: as `records`.
    """
    with _content(path) as content:
        content.seek(-8, 2)
        length = int.from_bytes(content.read(4), "little")
        size = content.seek(0, 2)
        content.seek(max(size - 8 - length, 0))
        return blake2b(b"%d:" % size + content.read(length), digest_size=8).hexdigest()


def is_url(source: str | Path) -> bool:
    """Return whether a source is a URL of an object store."""
    return "://" in str(source)


@contextmanager
def filesystem(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, and the place in it.

    Raises:
        RecordError: fsspec, or the package that it needs for the URL, is not installed.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra; only URLs need it

        found = url_to_fs(url)
    except ModuleNotFoundError:
        raise RecordError("reading a URL needs fsspec: pip install 'ragtide[recorder]'") from None
    except (ImportError, ValueError) as error:
        raise RecordError(f"the URL cannot be used ({error}): give a URL that fsspec knows") from None
    yield found


@contextmanager
def _content(path: str | Path) -> Iterator[IO[bytes]]:
    if is_url(path):
        with filesystem(str(path)) as (files, place), files.open(place, "rb") as content:
            yield content
    else:
        with Path(path).open("rb") as content:
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
