"""CSV with a header: a column per field, such as `segments.lang` for a nested field; empty cells are missing values.

`documents` is a list of texts as JSON, Python or NumPy writes it, or one text; `documents.0`, `documents.1`, ... are
one text each. Commas, semicolons, tabs or bars separate columns: the separator is that with which the header has the
most known names, or that of a first line such as `sep=;`, which Excel writes.
"""

import csv
import json
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

from ragtide_schemas.limits import ENTRY_MAX_BYTES

from ..columns import COLUMNS, is_known
from ..places import plain_name
from ..values import MAY_BE_TEXT, MISSING, WHOLE
from .record import Format, Record, RecordError
from .text import text_of

_NUMBERS: Final = ("covariates", "gold_scores", "usage")
"""Fields whose values are all numbers."""

_WORDS: Final = frozenset(("question", "response", *COLUMNS["question"], *COLUMNS["response"]))
"""Columns in which a word such as `None` may be the text, so that nobody guesses."""
_SEPARATORS: Final = (",", ";", "\t", "|")


class Csv(Format):
    """CSV: an error in its header, or in its text, ends the reading."""

    suffixes = (".csv", ".tsv")

    def records(self, place: str | Path, start: int, named: Collection[str]) -> Iterator[Record]:
        """Yield every row from a place."""
        return islice(_records(Path(place), named), start, None)


def _records(path: Path, named: Collection[str]) -> Iterator[Record]:
    csv.field_size_limit(ENTRY_MAX_BYTES)
    usual = "\t" if ".tsv" in path.suffixes[-2:] else ","
    with text_of(path) as file:
        before, reader = 0, None
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
            number = 1 if reader is None else reader.line_num + before + 1
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
        separators = {"\t": "tabs", ",": "commas", ";": "semicolons"}.get(separator, repr(separator))
        return Record(
            number, problem=f"the row has more cells than the header has columns: quote cells with {separators}"
        )
    row = {name: None if _is_missing(name, cell) else cell for name, cell in zip(header, cells, strict=False)}
    present = {name: cell for name, cell in row.items() if cell is not None}
    return Record(number, row, json.dumps(present, sort_keys=True).encode(), cells=True)


def _is_missing(column: str, cell: str) -> bool:
    text = cell.strip()
    if not text or text not in MISSING:
        return not text
    name = plain_name(column.partition(".")[0])
    if not is_known(name) or name in _WORDS:
        return False
    return text not in MAY_BE_TEXT or name in (*_NUMBERS, *WHOLE, "documents", *COLUMNS["documents"])
