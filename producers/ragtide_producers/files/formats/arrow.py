"""Rows of Arrow batches as records; a few hundred rows are Python objects at once. Needs pyarrow."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ragtide_schemas.printable import shortened

from .record import Record, present

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
                yield Record(number, problem=_TWICE.format(twice[0])) if row is None else _record(number, row)
                number += 1


def _rows(part: Any) -> list[dict[str, Any] | Exception]:
    try:
        return list(part.to_pylist())
    except (ValueError, OverflowError, TypeError, NotImplementedError) as error:
        if part.num_rows == 1:
            return [error]
        return [row for place in range(part.num_rows) for row in _rows(part.slice(place, 1))]


def _record(number: int, row: dict[str, Any] | Exception) -> Record:
    if isinstance(row, Exception):
        return Record(number, problem=f"a value cannot be read ({shortened(str(row))}): give it another type")
    return Record.of(number, present(row, maps=True))
