"""JSON Lines: one object per line."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import read_json_object

from .json import BETWEEN, keys_given_twice
from .record import Record
from .text import lines_of


def pending(path: Path) -> Iterator[Callable[[], Record]]:
    """Yield for every line that is not blank a function that decodes it; its number counts blank lines, too.

    Raises:
        RecordError: the file is no text, or compressed and broken.
    """
    for number, line in enumerate(lines_of(path), start=1):
        content = line.strip(BETWEEN)
        if content:
            yield partial(_record, number, content)


def _record(number: int, content: bytes) -> Record:
    try:
        fields: dict[str, Any] = read_json_object(content)
    except InvalidEntryError as error:
        return Record(number, problem=error.detail)
    # A count of the bytes is enough for nearly all lines; only the others are read again.
    if any(content.count(b'"%s"' % name.encode("utf-8", "replace")) > 1 for name in fields):
        twice = keys_given_twice(content)
        if twice:
            return Record(number, problem=f"{twice} is given twice: leave one out")
    return Record(number, fields, content)


def count(path: Path) -> int:
    """Return the number of lines that are not blank, without decoding them."""
    return sum(1 for line in lines_of(path) if line.strip(BETWEEN))
