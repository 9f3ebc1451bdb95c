"""CSV with a header: a column per field, such as `segments.lang` for a nested field; empty cells are missing values.

`documents` is a JSON list of texts, or one text; `documents.0`, `documents.1`, ... are one text each. If a file has the
columns `documents` and `response`, an empty cell means that nothing was retrieved or answered.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ragtide_schemas.limits import ENTRY_MAX_BYTES

from .record import Record, RecordError

_NUMBERS: Final = ("covariates", "gold_scores")
"""Fields whose values are all numbers."""

_WHOLE: Final = ("population_size", "schema_version", "turn")
"""Columns of whole numbers."""

_LISTS: Final = ("documents", "response_sentences")
"""Columns that may contain a JSON list."""


def records(path: Path) -> Iterator[Record]:
    """Yield every row.

    Raises:
        RecordError: no header, or text that is not UTF-8 CSV.
    """
    csv.field_size_limit(ENTRY_MAX_BYTES)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
        try:
            if not reader.fieldnames:
                raise RecordError("the file has no header: add a line with the names of the columns")
            for row in reader:
                yield _record(reader.line_num, row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise RecordError(f"line {reader.line_num + 1} is not UTF-8 CSV ({error}): save it as UTF-8 CSV") from None


def _record(number: int, row: dict[str | None, Any]) -> Record:
    if None in row:
        return Record(number, problem="the row has more cells than the header has columns: quote cells with commas")
    fields: dict[str, Any] = {}
    texts: dict[int, str] = {}
    if "response" in row and any(column is not None and column.partition(".")[0] == "documents" for column in row):
        fields |= {"documents": [], "response": ""}
    for column, cell in row.items():
        if column is None or cell is None or not cell.strip():
            continue
        try:
            _put(fields, texts, column, cell)
        except ValueError as error:
            return Record(number, problem=f"{column} is {cell[:60]!r}: {error}")
    if texts:
        fields["documents"] = [texts[index] for index in sorted(texts)]
    return Record(number, fields, json.dumps(fields, sort_keys=True).encode())


def _put(fields: dict[str, Any], texts: dict[int, str], column: str, cell: str) -> None:
    name, _, part = column.partition(".")
    if name == "documents" and part:
        if not part.isdigit():
            raise ValueError("name the column documents.0, documents.1, and so on")
        texts[int(part)] = cell
    elif part:
        fields.setdefault(name, {})[part] = _number(cell) if name in _NUMBERS else cell
    elif name in _LISTS:
        fields[name] = _texts(cell)
    else:
        fields[name] = _whole(cell) if name in _WHOLE else cell


def _texts(cell: str) -> Any:
    if not cell.lstrip().startswith("["):
        return [cell]
    try:
        return json.loads(cell)
    except ValueError:
        raise ValueError("write a JSON list of texts") from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ValueError("must be a number") from None


def _whole(cell: str) -> int:
    try:
        return int(cell)
    except ValueError:
        raise ValueError("must be a whole number") from None
