"""Reads the selected entries of a recording in the order of a replay, one by one or as tables, which it applies."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final

from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import Feedback, MetricEvent, from_milliseconds

from .counting import first_entry
from .partition_replay import PartitionReplay, ReplayPosition
from .selection import Selection

AT_ONCE: Final = 500
"""Entries that are applied one by one between two looks at a clock or a signal."""

TABLE_ROWS: Final = 20_000
"""Most metric events that are applied at once."""


class RecordedEntries:
    """The selected metric events of a recording, and the feedback about their pipelines.

    Args:
        recording: with the entries.
        selection: the part to read.
    """

    def __init__(self, recording: Recording, selection: Selection) -> None:
        self._recording = recording
        self._selection = selection

    def expected(self, partition: int, position: str) -> Counter[str]:
        """Return for each interaction the number of feedback entries after a position."""
        return Counter(
            interaction_digest(entry.model.pipeline, entry.model.interaction_id)
            for entry in self.entries(EntryKind.FEEDBACK, partition, position)
            if isinstance(entry.model, Feedback)
        )

    def in_time(self, partition: int, at: ReplayPosition) -> Iterator[RecordedEntry]:
        """Yield metric events and feedback of a partition by entry id; of two with one id the event is first."""
        metrics = self.entries(EntryKind.METRICS, partition, at.metrics)
        feedback = self.entries(EntryKind.FEEDBACK, partition, at.feedback)
        return heapq.merge(metrics, feedback, key=lambda entry: (entry.order, isinstance(entry.model, Feedback)))

    def entries(self, kind: EntryKind, partition: int, position: str) -> Iterator[RecordedEntry]:
        """Yield the entries of a kind after a position: selected metric events, or all feedback about the pipelines."""
        last = order(position)
        entries: Iterable[RecordedEntry] = self._recording.entries(
            kind, since=self._since(position), pipelines=self._selection.pipelines, partitions=[partition]
        )
        for entry in entries:
            if entry.order > last and (not isinstance(entry.model, MetricEvent) or self._selection.takes(entry.model)):
                yield entry

    def tables(self, partition: int, position: str) -> Iterator[Any]:
        """Yield the selected metric events after a position as tables of 1 to `TABLE_ROWS` rows."""
        from .tables import after, selected  # noqa: PLC0415 - pyarrow is an extra

        tables = self._recording.tables(
            EntryKind.METRICS,
            since=self._since(position),
            pipelines=self._selection.pipelines,
            partitions=[partition],
        )
        for whole in tables:
            table = after(selected(whole, self._selection), order(position))
            for start in range(0, table.num_rows, TABLE_ROWS):
                yield table.slice(start, TABLE_ROWS)

    def _since(self, position: str) -> datetime | None:
        since = first_entry(self._selection)
        if position == START:
            return since
        reached = from_milliseconds(order(position)[0])
        return reached if since is None else max(since, reached)


def applied_tables(
    reader: RecordedEntries,
    partition: int,
    part: PartitionReplay,
    *,
    cut: Callable[[Any], Iterable[Any]] = lambda table: (table,),
) -> Iterator[datetime | None]:
    """Apply the entries of a partition after its position; the caller may commit at every value that this yields.

    Args:
        reader: of the recording.
        partition: number.
        part: to which the entries are applied.
        cut: returns the parts of a table, in order, of at least one row each; the result does not depend on them.

    Yields:
        The time of the last applied interaction; None after feedback that no metric event follows.

    Raises:
        StepFailedError: the state cannot take an entry.
        UnreadableRecordingError: a file of the recording is missing or damaged.
    """
    feedback = list(islice(rest := reader.entries(EntryKind.FEEDBACK, partition, part.at.feedback), 1))
    for whole in reader.tables(partition, part.at.metrics):
        for table in cut(whole):
            last = table["entry_ms"][-1].as_py(), table["entry_number"][-1].as_py()
            # An event is applied before feedback with the same entry id.
            before = []
            while feedback and feedback[0].order < last:
                before += feedback
                feedback = list(islice(rest, 1))
            part.apply_table(table, before)
            yield table["occurred_at"][-1].as_py()
    for number, entry in enumerate(chain(feedback, rest)):
        part.apply_entry(entry)
        if number % AT_ONCE == AT_ONCE - 1:
            yield None
