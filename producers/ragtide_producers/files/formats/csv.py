"""CSV with a header: a column per field, such as `segments.lang` for a nested field; empty cells are missing values.

`documents` is a list of texts as JSON, Python or NumPy writes it, or one text; `documents.0`, `documents.1`, ... are
one text each. Commas, semicolons, tabs or bars separate columns: the separator is that with which the header has the
most known names, or that of a first line such as `sep=;`, which Excel writes.
"""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from ragtide_schemas.limits import ENTRY_MAX_BYTES

from ...shapes.literals import literal_of
from ..cells import MAY_BE_TEXT, MISSING
from ..columns import is_known, keeps_words
from .record import Record, RecordError
from .text import text_of

_NUMBERS: Final = ("covariates", "gold_scores", "usage")
"""Fields whose values are all numbers."""

_WHOLE: Final = ("population_size", "schema_version", "turn")
"""Columns of whole numbers."""

_OBJECTS: Final = ("covariates", "gold_scores", "usage", "segments", "metadata")
"""Columns that may contain an object, as JSON or Python writes it."""

_SEPARATORS: Final = (",", ";", "\t", "|")


def records(path: Path, named: Collection[str] = ()) -> Iterator[Record]:
    """Yield every row.

    Args:
        path: of the file.
        named: columns that the user named, which are known besides.

    Raises:
        RecordError: no header, two columns of one name, or text that is not CSV in UTF-8 or in its mark's encoding.
    """
    csv.field_size_limit(ENTRY_MAX_BYTES)
    usual = "\t" if ".tsv" in path.suffixes[-2:] else ","
    with text_of(path) as file:
        before = 0
        try:
            first = file.readline(ENTRY_MAX_BYTES)
            if first.strip().lower()[:4] == "sep=" and len(first.strip()) == 5:
                usual, first, before = first.strip()[4], file.readline(ENTRY_MAX_BYTES), 1
            else:
                usual, _ = separator_of(first, usual, named)
            reader = csv.reader(
                chain([first], file), delimiter=usual, strict=True, skipinitialspace=f'{usual} "' in first
            )
            header = _header(next(reader, []))
            for cells in reader:
                if cells:
                    yield _record(reader.line_num + before, header, cells, usual)
        except (csv.Error, UnicodeError) as error:
            number = reader.line_num + before + 1 if "reader" in locals() else 1
            raise RecordError(f"line {number} is not UTF-8 CSV ({error}): save it as UTF-8 CSV") from None


def separator_of(header: str, usual: str = ",", named: Collection[str] = ()) -> tuple[str, int]:
    """Return the separator with which a header has the most known names, and their number; the usual one wins a tie."""
    counts: dict[str, int] = {}
    for separator in (usual, *_SEPARATORS):
        try:
            names = next(csv.reader([header], delimiter=separator, skipinitialspace=True), [])
        except csv.Error:
            names = []
        counts.setdefault(separator, sum(is_known(name) or name.strip() in named for name in names))
    return max(counts.items(), key=lambda count: count[1])


def _header(cells: Sequence[str]) -> list[str]:
    header = [cell.strip() for cell in cells]
    if not any(header):
        raise RecordError("the file has no header: add a line with the names of the columns")
    twice = dict.fromkeys(name for name in header if name and header.count(name) > 1) if len(header) < 1000 else ()
    if twice:
        raise RecordError(f"two columns are named {', '.join(twice)[:100]}: rename or remove one of them")
    return header


def _record(number: int, header: Sequence[str], cells: Sequence[str], separator: str) -> Record:
    if len(cells) > len(header):
        shown = {"\t": "tabs", ",": "commas", ";": "semicolons"}.get(separator, repr(separator))
        return Record(number, problem=f"the row has more cells than the header has columns: quote cells with {shown}")
    fields: dict[str, Any] = {}
    blank: dict[str, Any] = {}
    for column, cell in zip(header, cells, strict=False):
        name, _, part = column.partition(".")
        if not _is_missing(column, cell):
            try:
                _put(fields, column, cell)
            except ValueError as error:
                return Record(number, problem=f"{column} is {cell[:60]!r}: {error}")
        elif not part or name == "documents":
            blank[name] = {} if part else None
    content = json.dumps(fields, sort_keys=True).encode()
    return Record(number, {**blank, **fields}, content, cells=True)


def _is_missing(column: str, cell: str) -> bool:
    """Whether a cell has no value: it is blank, or has a word of pandas for a missing value, such as `nan`."""
    text = cell.strip()
    if not text or text not in MISSING:
        return not text
    name = column.partition(".")[0]
    if not is_known(name) or keeps_words(name, "question") or keeps_words(name, "response"):
        return False
    return text not in MAY_BE_TEXT or name in (*_NUMBERS, *_WHOLE) or keeps_words(name, "documents")


def _put(fields: dict[str, Any], column: str, cell: str) -> None:
    name, _, part = column.partition(".")
    if part:
        inner = fields.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"the row has {name}, too: leave one of the columns out")
        inner[part] = _number(cell) if name in _NUMBERS else cell
    elif name == "response_sentences" or (name in _OBJECTS and cell.lstrip().startswith("{")):
        fields[name] = _literal(cell, "texts" if name == "response_sentences" else "an object")
    else:
        fields[name] = _whole(cell) if name in _WHOLE else cell


def _literal(cell: str, kind: str) -> Any:
    if kind == "texts" and not cell.lstrip().startswith("["):
        return [cell]
    try:
        return literal_of(cell)
    except ValueError:
        raise ValueError("write a JSON list of texts" if kind == "texts" else "write a JSON object") from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ValueError("must be a number") from None


def _whole(cell: str) -> int:
    try:
        number = float(cell)  # pandas writes whole numbers beside missing ones with .0
        if number.is_integer():
            return int(cell) if "." not in cell and "e" not in cell.lower() else int(number)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a whole number")
