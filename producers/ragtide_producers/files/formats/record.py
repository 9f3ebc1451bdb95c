"""A record of a file, before its content is interpreted."""

from dataclasses import dataclass
from typing import Any, Final

_TABLES: Final = ("gold_scores", "segments", "metadata")
"""Fields that are tables of names and values; Arrow gives its maps as lists of pairs."""


@dataclass(frozen=True, slots=True)
class Record:
    """Fields of a line, row or result; or its mistake."""

    number: int
    """Line, row or result, from 1."""
    fields: dict[str, Any] | None = None
    content: bytes = b""
    """Content from which an id is made if the record has none."""
    problem: str | None = None


class RecordError(ValueError):
    """A file has another format than it was read as; the message names the remedy."""


def present(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of an Arrow table, which has every column in every row, without the values that are missing."""
    fields = {name: _clean(value) for name, value in row.items() if value is not None}
    for name in _TABLES:
        if isinstance(fields.get(name), list):
            fields[name] = dict(fields[name])
    return fields


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _clean(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    return value
