"""Applies one partition of a recording to a state in tables, with the feedback in between."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final

from ragtide_runtime.recordings import EntryKind

from .partition_replay import PartitionReplay
from .recorded_entries import RecordedEntries

AT_ONCE: Final = 500
"""Entries that are applied one by one between two looks at a clock or a signal."""


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
