"""Entries as compressed JSON Lines and back: one entry a line, with its id and partition before the model's fields."""

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from pydantic_core import from_json, to_json

from ragtide_schemas import MetricEvent
from ragtide_schemas.limits import ENTRY_MAX_BYTES

from .entries import EntryKind, RecordedEntry, UnreadableRecordingError

SUFFIX: Final = ".jsonl.gz"

SOURCE_ENTRY: Final = "interaction_entry_id"
"""Name in a line of a metric event's field `entry_id` (the interaction's entry); `entry_id` is the event's entry."""

ENTRY_LINE_BYTES: Final = 2 * ENTRY_MAX_BYTES
"""Most bytes of an entry's line: a model with its defaults as JSON is hardly longer than the entry."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bounds of a file from its manifest, because a small compressed file can unpack to a huge file."""

    lines: int
    bytes: int
    line_bytes: int


def lines_of(rows: Iterable[dict[str, Any]]) -> bytes:
    """Return objects as lines."""
    return b"".join(to_json(row) + b"\n" for row in rows)


def pack(lines: bytes) -> bytes:
    """Return lines compressed; equal lines give equal bytes."""
    return gzip.compress(lines, compresslevel=6, mtime=0)


def decode_lines(data: bytes, sizes: Sizes) -> list[dict[str, Any]]:
    """Return the objects in compressed lines.

    Raises:
        UnreadableRecordingError: the data are no such lines, or unpack to more than the sizes allow; unpacking stops
            there.
    """
    rows: list[dict[str, Any]] = []
    unpacked = 0
    try:
        with gzip.open(BytesIO(data)) as file:
            while line := file.readline(min(sizes.line_bytes, sizes.bytes - unpacked) + 1):
                unpacked += len(line)
                if len(line) > sizes.line_bytes or unpacked > sizes.bytes or len(rows) == sizes.lines:
                    raise UnreadableRecordingError("it unpacks to more than its manifest states")
                rows.append(_decode_line(line))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UnreadableRecordingError(f"it is not compressed JSON Lines ({error})") from None
    if len(rows) != sizes.lines:
        raise UnreadableRecordingError(f"it has {len(rows)} lines, and its manifest states {sizes.lines}")
    return rows


def _decode_line(line: bytes) -> dict[str, Any]:
    row = from_json(line)
    if not isinstance(row, dict):
        raise ValueError("a line is not a JSON object")  # noqa: TRY004 - reported like any other broken line
    return row


def rows_of(entries: Iterable[RecordedEntry]) -> Iterable[dict[str, Any]]:
    """Return entries as objects, without fields that have no value."""
    return map(_row, entries)


def _row(entry: RecordedEntry) -> dict[str, Any]:
    fields = entry.model.model_dump(mode="json", exclude_none=True)
    if isinstance(entry.model, MetricEvent) and "entry_id" in fields:
        fields[SOURCE_ENTRY] = fields.pop("entry_id")
    return {"entry_id": entry.entry_id, "partition": entry.partition, **fields}


def decode_entries(kind: EntryKind, data: bytes, sizes: Sizes) -> list[RecordedEntry]:
    """Return the entries in compressed lines of `rows_of`.

    Raises:
        InvalidEntryError: this release does not know the model in a line.
        UnreadableRecordingError: as for `decode_lines`.
    """
    entries = []
    for fields in decode_lines(data, sizes):
        entry_id, partition = fields.pop("entry_id", None), fields.pop("partition", None)
        if not isinstance(entry_id, str) or not isinstance(partition, int):
            raise UnreadableRecordingError("a line has no entry_id or no partition")
        if SOURCE_ENTRY in fields:
            fields["entry_id"] = fields.pop(SOURCE_ENTRY)
        entries.append(RecordedEntry(partition, entry_id, kind.model.from_fields(fields)))
    return entries
