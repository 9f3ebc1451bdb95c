"""A record of a file, before its content is interpreted."""

from dataclasses import dataclass
from typing import Any, Final

_TABLES: Final = ("covariates", "gold_scores", "usage", "segments", "metadata")
"""Fields with names and values; Arrow returns its maps as lists of pairs."""


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


class RecordError(ValueError):
    """A file has another format than expected; the message names the remedy."""


def present(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of an Arrow table without missing values."""
    fields = {name: _clean(value) for name, value in row.items() if not _is_missing(value)}
    for name in _TABLES:
        if isinstance(fields.get(name), list):
            fields[name] = dict(fields[name])
    return fields


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _clean(part) for name, part in value.items() if not _is_missing(part)}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN, as pandas writes it
