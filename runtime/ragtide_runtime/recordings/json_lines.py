"""Compressed JSON Lines: one entry a line, its id and partition before the model's own fields."""

import gzip
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

from ragtide_schemas import MetricEvent

from .entry import RecordedEntry
from .kinds import Kind

SUFFIX: Final = ".jsonl.gz"

SOURCE_ENTRY: Final = "interaction_entry_id"
"""What a metric event's own `entry_id`, the entry of its interaction, is called beside the id of the event's entry."""


def encode_lines(rows: Iterable[dict[str, Any]]) -> bytes:
    """Return objects as compressed lines; equal rows give equal bytes."""
    return gzip.compress(b"".join(to_json(row) + b"\n" for row in rows), compresslevel=6, mtime=0)


def decode_lines(data: bytes) -> list[dict[str, Any]]:
    """Return the objects in compressed lines."""
    return [from_json(line) for line in gzip.decompress(data).splitlines()]


def encode_entries(entries: Sequence[RecordedEntry]) -> bytes:
    """Return entries as compressed lines, fields without a value left out."""
    return encode_lines(_row(entry) for entry in entries)


def _row(entry: RecordedEntry) -> dict[str, Any]:
    fields = entry.model.model_dump(mode="json", exclude_none=True)
    if isinstance(entry.model, MetricEvent) and "entry_id" in fields:
        fields[SOURCE_ENTRY] = fields.pop("entry_id")
    return {"entry_id": entry.entry_id, "partition": entry.partition, **fields}


def decode_entries(kind: Kind, data: bytes) -> list[RecordedEntry]:
    """Return the entries that `encode_entries` wrote.

    Raises:
        InvalidEntryError: a line is not what this release knows.
    """
    entries = []
    for fields in decode_lines(data):
        entry_id, partition = fields.pop("entry_id"), fields.pop("partition")
        if SOURCE_ENTRY in fields:
            fields["entry_id"] = fields.pop(SOURCE_ENTRY)
        entries.append(RecordedEntry(partition, entry_id, kind.model.from_fields(fields)))
    return entries
