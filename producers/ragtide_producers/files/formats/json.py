"""JSON Lines, and files of JSON values: lists of rows, RAGChecker's results, exports of other tools, tables of pandas.

A table may be an object of columns, of rows by their index, or have its names in `columns` (`to_json` of pandas with
`orient` = columns, index, split, table or records).

Source: amazon-science/RAGChecker, `ragchecker/container.py`; pandas, `DataFrame.to_json`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.base import read_json_object
from ragtide_schemas.printable import shortened

from ..columns import is_known
from .csv import separator_of
from .record import Format, Record, RecordError
from .text import lines_of, text_of

LISTS: Final = ("results", "testCases", "test_cases", "test_results", "records", "examples", "data", "rows", "samples")
"""Names of the list of rows in one JSON object: of RAGChecker, and of exports of other tools."""


class Json(Format):
    """A file of JSON values. The whole file is in memory at once."""

    suffixes = (".json",)

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place."""
        del named
        for number, row in enumerate(_content(Path(place))[start:], start=start + 1):
            is_row = isinstance(row, dict)
            problem = f"it is {str(row)[:60]!r}: give an object"
            yield Record.of(number, row) if is_row else Record(number, problem=problem)

    def count(self, place: str | Path) -> int:
        """Return the number of rows."""
        return len(_content(Path(place)))


class JsonLines(Format):
    """A JSON object a line; blank lines count as lines, and are no rows."""

    suffixes = (".jsonl",)

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place."""
        return (make() for make in self.pending(place, start, named))

    def pending(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Callable[[], Record]]:
        """Yield a function for every line that is not blank, which decodes it."""
        del named
        lines = ((number, line.strip(BETWEEN)) for number, line in enumerate(lines_of(Path(place)), start=1))
        return (partial(_line, number, line) for number, line in islice((row for row in lines if row[1]), start, None))

    def count(self, place: str | Path) -> int:
        """Return the number of rows."""
        return sum(1 for line in lines_of(Path(place)) if line.strip(BETWEEN))


def detect_format(path: Path, name: str) -> str:
    """Return `json`, `jsonl` or `csv` for a file whose name says one of the first two: some name another so.

    Args:
        name: the format that its name says.

    Raises:
        RecordError: the file has neither objects of JSON nor known columns, or is no text.
        OSError: the file cannot be read.
    """
    lines = [line.strip(BETWEEN) for line in islice(lines_of(path), LOOKED_AT)]
    starts = [line for line in lines if line]
    first, second = [*starts[:2], b"", b""][:2]
    if first.startswith(b"["):
        return "json"
    if first.startswith(b"{"):
        whole = _is_object(first)
        if whole is None:
            return "jsonl" if second.startswith(b"{") else "json" if second else name
        return "jsonl" if whole and (second.startswith(b"{") or name == "jsonl") else "json"
    if second and not any(line.startswith(b"{") for line in starts):
        beginning = shortened(first[:200].decode("utf-8", "replace"))
        if separator_of(beginning)[1] > 1:
            return "csv"
        raise RecordError(
            f"it has no objects of JSON, it begins with {beginning!r}: give --format if it has another one"
        )
    return name


LOOKED_AT: Final = 20
"""Lines of a file that are looked at to find its format."""
BETWEEN: Final = b" \t\r\n\x1e"
"""What may stand between two values; the last is the mark of JSON text sequences (RFC 7464)."""


def _is_object(line: bytes) -> bool | None:
    try:
        text = line.decode()
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    rest = text[end:].lstrip("\r\x1e \t")
    return not rest if not rest or rest[0] == "{" else None


def _line(number: int, content: bytes) -> Record:
    try:
        fields: dict[str, Any] = read_json_object(content)
    except InvalidEntryError as error:
        return Record(number, problem=error.detail)
    # A count of the bytes is enough for nearly all lines; only the others are read again.
    names = (b'"%s"' % name.encode("utf-8", "replace") for name in fields)
    twice = (len(fields) > COUNTED_MAX or any(content.count(name) > 1 for name in names)) and _repeated_names(content)
    if twice:
        return Record(number, problem=f"{twice} is given twice: leave one out")
    return Record(number, fields, content)


COUNTED_MAX: Final = 50
"""More names of an object are not counted in its bytes, because that takes the square of its length."""


def _repeated_names(content: bytes) -> str:
    """Return the names that an object of JSON has twice, with commas; a reader would keep the last of each."""
    names: list[str] = []

    def twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        names[:] = (name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return dict(pairs)

    try:
        json.loads(content, object_pairs_hook=twice)  # the outermost object comes last
    except (ValueError, RecursionError):
        return ""
    return shortened(", ".join(names))


def _content(path: Path) -> Sequence[Any]:
    try:
        with text_of(path) as file:
            values = list(_values(file.read()))
    except RecordError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the file is not JSON ({error}): correct it, or name a file of JSON Lines .jsonl") from None
    if not values:
        raise RecordError("the file is empty: it is not JSON")
    return [row for value in values for row in _rows(value)]


def _values(text: str) -> Iterator[Any]:
    decoder, blanks = json.JSONDecoder(), re.compile(r"[\s\x1e\ufeff]*")
    place = blanks.match(text).end()  # type: ignore[union-attr]
    while place < len(text):
        value, place = decoder.raw_decode(text, place)
        yield value
        place = blanks.match(text, place).end()  # type: ignore[union-attr]


def _rows(content: Any) -> Sequence[Any]:
    if isinstance(content, list):
        return content
    if not isinstance(content, dict):
        raise RecordError(_NO_ROWS)
    names: Any = content.get("columns")
    data: Any = content.get("data")
    if _are_lists([names, data]) and all(isinstance(name, str) for name in names) and _are_lists(data):
        if any(len(row) != len(names) for row in data) or len(set(names)) < len(names):
            raise RecordError(
                "its rows do not fit its columns: write it with one value for each column of another name"
            )
        return [dict(zip(names, row, strict=True)) for row in data]
    lists = (content[name] for name in LISTS if isinstance(content.get(name), list))
    for rows in lists:
        if not rows or any(isinstance(row, dict) for row in rows):
            return list(rows)
    known = [name for name in content if is_known(name)]
    if not known:
        by_index = list(content.values())
        if by_index and all(isinstance(row, dict) and any(is_known(name) for name in row) for row in by_index):
            return by_index
        raise RecordError(_NO_ROWS)
    if any(isinstance(content[name], str | int | float) for name in known):
        return [content]
    return _rows_of_columns(content)


def _rows_of_columns(table: Mapping[str, Any]) -> Sequence[Any]:
    if any(isinstance(column, str) for column in table.values()):
        raise RecordError(_NO_ROWS)
    columns = {name: column.values() if isinstance(column, dict) else column for name, column in table.items()}
    indices = [list(column) for column in table.values() if isinstance(column, dict)]
    sizes = {name: len(column) for name, column in columns.items() if column is not None and hasattr(column, "__len__")}
    if len(sizes) < len(columns) or len(set(sizes.values())) > 1 or any(index != indices[0] for index in indices):
        lengths = ", ".join(f"{name} {size}" for name, size in sizes.items())[:200]
        raise RecordError(
            f"it is an object of columns that are not as long as each other ({lengths}): write a list of rows"
        )
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _are_lists(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, list) for value in values)


_NO_ROWS: Final = (
    "the file has no rows: give a JSON list of objects, RAGChecker's results, a table by columns, "
    "or JSON Lines as .jsonl"
)
