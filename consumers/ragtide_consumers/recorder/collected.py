"""The entries that a recorder has read and not written yet."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.redis.entries import Entry


@dataclass(slots=True)
class UnwrittenEntries:
    """Entries that were read and are not written yet, by kind."""

    entries: defaultdict[EntryKind, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    ends: defaultdict[EntryKind, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Last entry of every read."""
    count: int = 0
    bytes: int = 0
    since: float = 0.0
    """Monotonic time at which the first entry was read."""

    def add(self, kind: EntryKind, entries: Sequence[Entry]) -> None:
        """Add the entries of a read."""
        if not self.count:
            self.since = monotonic()
        self.entries[kind] += entries
        self.ends[kind].append(entries[-1].entry_id)
        self.count += len(entries)
        self.bytes += sum(len(value) for entry in entries for value in entry.fields.values())
