"""The source of a replay: reads the selected entries of a recording in order, in tables or one by one."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import Feedback, MetricEvent, from_milliseconds

from .selection import Selection, first_entry

AT_ONCE: Final = 500
"""Most single entries of a batch."""

TABLE_ROWS: Final = 20_000
"""Most metric events of a table."""


class ReplayPosition(NamedTuple):
    """The entry ids of the last metric event and of the last feedback."""

    metrics: str = START
    feedback: str = START


class RecordedBatch(NamedTuple):
    """Entries of one partition in the order of the stream."""

    partition: int
    entries: Sequence[RecordedEntry]
    """Metric events and feedback; with a table only the feedback before its last event."""
    table: Any = None
    """At least one metric event, as rows; None if all events are in `entries`."""

    @property
    def at(self) -> datetime | None:
        """Time of the last interaction; None for feedback alone."""
        if self.table is not None:
            return self.table["occurred_at"][-1].as_py()  # type: ignore[no-any-return]
        events = (entry.model for entry in reversed(self.entries) if isinstance(entry.model, MetricEvent))
        return next((event.occurred_at for event in events), None)


class RecordedEntries:
    """The selected metric events of a recording, and the feedback about their pipelines.

    Args:
        selection: the part to read.
    """

    def __init__(self, recording: Recording, selection: Selection) -> None:
        self._recording = recording
        self._selection = selection
        self.in_tables = find_spec("pyarrow") is not None
        """Whether metric events are read in tables."""

    def expected(self, partition: int, position: str) -> Counter[str]:
        """Return for each interaction the number of feedback entries after a position."""
        return Counter(
            interaction_digest(entry.model.pipeline, entry.model.interaction_id)
            for entry in self._entries(EntryKind.FEEDBACK, partition, position)
            if isinstance(entry.model, Feedback)
        )

    def read_after(
        self,
        positions: Mapping[int, ReplayPosition],
        *,
        cut: Mapping[int, Callable[[Any], Iterable[Any]]] | None = None,
    ) -> Iterator[RecordedBatch]:
        """Yield the entries after the positions of partitions, one partition after the other, in large batches.

        Args:
            cut: by partition, a function that returns the parts of a table, in order, of at least one row each.

        Raises:
            UnreadableRecordingError: a file of the recording is missing or damaged.
        """
        for partition, at in positions.items():
            if self.in_tables:
                yield from self._tables_and_feedback(partition, at, (cut or {}).get(partition, lambda table: (table,)))
            else:
                yield from _batches(partition, self._in_order(partition, at))

    def read_one_by_one(self, positions: Mapping[int, ReplayPosition]) -> Iterator[RecordedBatch]:
        """Yield each entry after the positions of partitions alone, by its entry id over all partitions."""
        partitions = [self._in_order(partition, at) for partition, at in positions.items()]
        for entry in heapq.merge(*partitions, key=lambda entry: entry.order):
            yield RecordedBatch(entry.partition, [entry])

    def _in_order(self, partition: int, at: ReplayPosition) -> Iterator[RecordedEntry]:
        metrics = self._entries(EntryKind.METRICS, partition, at.metrics)
        feedback = self._entries(EntryKind.FEEDBACK, partition, at.feedback)
        return heapq.merge(metrics, feedback, key=lambda entry: (entry.order, isinstance(entry.model, Feedback)))

    def _tables_and_feedback(
        self, partition: int, at: ReplayPosition, cut: Callable[[Any], Iterable[Any]]
    ) -> Iterator[RecordedBatch]:
        feedback = list(islice(rest := self._entries(EntryKind.FEEDBACK, partition, at.feedback), 1))
        for whole in self._tables(partition, at.metrics):
            for table in cut(whole):
                last = table["entry_ms"][-1].as_py(), table["entry_number"][-1].as_py()
                # An event is applied before feedback with the same entry id.
                before = []
                while feedback and feedback[0].order < last:
                    before += feedback
                    feedback = list(islice(rest, 1))
                yield RecordedBatch(partition, before, table)
        yield from _batches(partition, chain(feedback, rest))

    def _entries(self, kind: EntryKind, partition: int, position: str) -> Iterator[RecordedEntry]:
        last = order(position)
        entries: Iterable[RecordedEntry] = self._recording.entries(
            kind, since=self._since(position), pipelines=self._selection.pipelines, partitions=[partition]
        )
        for entry in entries:
            if entry.order > last and (not isinstance(entry.model, MetricEvent) or self._selection.takes(entry.model)):
                yield entry

    def _tables(self, partition: int, position: str) -> Iterator[Any]:
        from .tables import after, selected_rows  # noqa: PLC0415 - pyarrow is an extra

        tables = self._recording.tables(
            EntryKind.METRICS,
            since=self._since(position),
            pipelines=self._selection.pipelines,
            partitions=[partition],
        )
        for whole in tables:
            table = after(selected_rows(whole, self._selection), order(position))
            for start in range(0, table.num_rows, TABLE_ROWS):
                yield table.slice(start, TABLE_ROWS)

    def _since(self, position: str) -> datetime | None:
        since = first_entry(self._selection)
        if position == START:
            return since
        reached = from_milliseconds(order(position)[0])
        return reached if since is None else max(since, reached)


def _batches(partition: int, entries: Iterator[RecordedEntry]) -> Iterator[RecordedBatch]:
    while batch := list(islice(entries, AT_ONCE)):
        yield RecordedBatch(partition, batch)
