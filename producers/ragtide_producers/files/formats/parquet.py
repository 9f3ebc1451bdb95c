"""Parquet: a column per field, and nested columns for nested fields; a few hundred rows are read at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .record import Record, RecordError, present

AT_ONCE: Final = 256
"""Rows in memory at once."""


def records(path: Path) -> Iterator[Record]:
    """Yield every row.

    Raises:
        RecordError: pyarrow is not installed, or the file is not Parquet.
    """
    number = 0
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                fields = present(row)
                yield Record(number, fields, json.dumps(fields, sort_keys=True, default=str).encode())


def count(path: Path) -> int:
    """Return the number of rows."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def _opened(path: Path) -> Any:
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 - an extra; only this format needs it
    except ModuleNotFoundError:
        raise RecordError("reading Parquet needs pyarrow: pip install 'ragtide[parquet]'") from None
    try:
        return parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise RecordError(f"it is not Parquet ({str(error)[:100]}): correct the path or give --format") from None
