"""A record of a file, before its content is interpreted."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, file_digest
from math import isnan
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from ragtide_schemas.plain_values import LeftOut, UnfitError, plain_value

_TABLES: Final = ("covariates", "gold_scores", "usage", "segments", "metadata")
"""Fields with names and values, of which Arrow has an empty one as a list."""
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_DEPTH_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a line, row or result, or its problem."""

    number: int
    """Number of the line, row or result, from 1."""
    fields: dict[str, Any] | None = None
    content: bytes = b""
    """Content from which an id is made for a record without one."""
    problem: str | None = None
    cells: bool = False
    """Whether the values are texts of cells, which do not separate a missing value from a word such as `None`."""

    @classmethod
    def of(cls, number: int, fields: dict[str, Any]) -> "Record":
        """Return the record of a row that has no bytes of its own."""
        try:
            return cls(number, fields, json.dumps(fields, sort_keys=True, default=str).encode())
        except (ValueError, RecursionError):
            return cls(number, problem="a value of the row contains itself: give plain values")


class RecordError(ValueError):
    """A file has another format than expected; the message names the remedy."""


class Format:
    """A format of files: the endings of their names, and how their rows are read. Each has a class."""

    suffixes: tuple[str, ...] = ()
    """Endings of the names of its files, in lower case."""
    skips_rows = False
    """Whether reading from a place does not read the rows before it."""

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place, from 0.

        Args:
            start: number of rows before the first one.
            named: columns that the user named, which are known besides.

        Raises:
            RecordError: the file has another format, or cannot be read.
        """
        raise NotImplementedError

    def pending(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Callable[[], Record]]:
        """Yield a function for every row that returns it, so that rows may be skipped undecoded; see `records`."""
        yield from (lambda record=record: record for record in self.records(place, start, named))

    def count(self, place: str | Path) -> int | None:
        """Return the number of rows; None if that takes reading the whole file.

        Raises:
            RecordError: as `records`.
        """
        del place
        return None

    def digest(self, place: str | Path) -> str:
        """Return a digest that changes with the content; empty if there is none.

        Raises:
            RecordError: as `records`.
        """
        with Path(place).open("rb") as content:
            return file_digest(content, partial(blake2b, digest_size=8)).hexdigest()


def present(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table without missing values, with plain ones; lists of pairs are maps, as Arrow has them."""
    cleaned = {name: _clean(value, 0) for name, value in row.items()}
    fields = {name: value for name, value in plain_fields(cleaned).items() if not _is_missing(value)}
    return fields | {name: {} for name in _TABLES if fields.get(name) == []}


def plain_fields(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row with the values of JSON that arrays, times, numbers and bytes of Python stand for.

    A value of which a part has no plain meaning stays as it is, so that the reader of its field may name it.
    """
    return {str(name): _plain(str(name), value) for name, value in row.items()}


def _plain(name: str, value: Any) -> Any:
    kinds = set(map(type, value)) if type(value) is list else {type(value)}
    if kinds <= _PLAIN or isinstance(value, set | frozenset):
        return value
    if isinstance(value, bytes) and len(value) == 16 and name.lower().endswith(("id", "uuid")):
        text = value.decode("ascii", "replace")
        return text if text.isascii() and text.isprintable() else str(UUID(bytes=value))
    left_out = LeftOut()
    with suppress(UnfitError):
        plain = plain_value(value, name, left_out)
        parts = zip(plain, value, strict=True) if isinstance(plain, list) else [(None, plain)]
        return plain if not left_out or all(new is not None or _is_missing(old) for new, old in parts) else value
    return value


def _clean(value: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        return value
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        table = {str(name): part for name, part in value}
        value = table if len(table) == len(value) else list(map(list, value))
    if isinstance(value, dict):
        return {name: _clean(part, depth + 1) for name, part in value.items() if not _is_missing(part)}
    if isinstance(value, list) and not _PLAIN.issuperset(map(type, value)):
        return [_clean(part, depth + 1) for part in value]
    return value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))  # NaN, as pandas writes it
