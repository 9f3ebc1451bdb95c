"""Summarizes a recording from its manifests: counts by day and pipeline, and the state of each partition."""

from collections import Counter
from datetime import date
from typing import Any, Final

from .entry_kinds import EntryKind
from .recording import Recording

COUNTS: Final = (*(kind.value for kind in EntryKind), "unreadable", "files", "bytes")
"""Names of the counts of a day and pipeline."""


def counts_by_day(recording: Recording) -> list[dict[str, Any]]:
    """Return the counts of entries, files and bytes by day and pipeline; a partly void file counts as a whole."""
    counts: dict[tuple[date, str | None], Counter[str]] = {}
    for partition in recording.partitions.values():
        for file in partition.files:
            if file.void:
                continue
            found = counts.setdefault((file.day, file.pipeline), Counter())
            found["unreadable" if file.unreadable else file.kind.value] += file.count
            found["files"] += 1
            found["bytes"] += file.bytes
    return [
        {"day": str(day), "pipeline": pipeline, **{name: found[name] for name in COUNTS}}
        for (day, pipeline), found in sorted(counts.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]


def partitions_of(recording: Recording) -> list[dict[str, Any]]:
    """Return the last manifest, the positions in the streams, and the redaction of each partition."""
    return [
        {
            "partition": one.partition,
            "manifest": one.number,
            "written_at": None if one.written_at is None else one.written_at.isoformat(),
            "positions": {kind.value: position for kind, position in one.positions.items()},
            "redaction": list(one.redaction),
        }
        for one in recording.partitions.values()
    ]
