"""The rows of a data set as they stand in its file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import starmap
from pathlib import Path
from typing import Any, Final

from ragtide_producers.files.chunk_rows import whole_rows
from ragtide_producers.files.formats import Record
from ragtide_producers.files.interactions import FileOptions, read_records, row_of
from ragtide_producers.files.items import Item, items_of, read_items, record_of
from ragtide_schemas import RagInteraction
from ragtide_schemas.drawn import PROVENANCE

NO_OPTIONS: Final = FileOptions(unnamed="unnamed")


@dataclass(frozen=True, slots=True)
class SetRow:
    """A row of a data set."""

    item: Item
    """Its question, by which an experiment knows the row."""
    record: Record
    """All that stands in the file."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the file."""
        return self.record.fields or {}

    @property
    def content(self) -> str:
        """16 hexadecimal digits that change whenever a field of the row changes, and not with their order."""
        return blake2b(json.dumps(self.fields, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Where the row comes from; empty for a row that no command of ragtide wrote."""
        metadata = self.fields.get("metadata")
        own = metadata.get(PROVENANCE) if isinstance(metadata, Mapping) else None
        return own if isinstance(own, Mapping) else {}

    @property
    def labelings(self) -> Iterator[Mapping[str, Any]]:
        """The labelings that the row had when it was kept."""
        return (each for each in _list(self.provenance.get("labelings")) if isinstance(each, Mapping))

    @property
    def annotators(self) -> set[str]:
        """The people for whose answers the row was chosen."""
        reasons = (each for each in _list(self.provenance.get("chosen")) if isinstance(each, Mapping))
        return {each["annotator"] for each in reasons if isinstance(each.get("annotator"), str)}

    @property
    def interaction(self) -> RagInteraction | None:
        """The interaction of the row; None for a question without documents or a response."""
        return row_of(self.record, NO_OPTIONS).interaction

    @property
    def probability(self) -> float | None:
        """Probability with which an interaction of the traffic is a row of the set; None if it is not known."""
        given = self.fields.get("sampling_probability")
        if isinstance(given, bool) or not isinstance(given, int | float):
            return None
        return float(given) if 0 < given <= 1 else None


def read_set(path: str | Path) -> list[SetRow]:
    """Return the rows of a data set, in its order.

    Raises:
        UnreadableFileError: it cannot be read, has no question, a row has none, or two rows have one id.
    """
    records = whole_rows(read_records(path, FileOptions()), {})
    return [SetRow(item, record) for item, record in zip(read_items(path), records, strict=True)]


def rows_to_set(rows: Sequence[Mapping[str, Any]]) -> list[SetRow]:
    """Return the rows that `read_set` reads once these rows are written.

    Raises:
        ValueError: a row has no question, or two rows have one id.
    """
    records = whole_rows(starmap(record_of, enumerate(rows, start=1)), {})
    return [SetRow(item, record) for item, record in zip(items_of(rows), records, strict=True)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
