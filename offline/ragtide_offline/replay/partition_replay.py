"""Replays one partition of a recording into a state, which is written with the position in the recording.

Every partition of the recording has a state of its own, as in a live deployment. Rules of a partition share its budget
and the windows of its baselines. Readers merge the states of a split pipeline.
"""

import heapq
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np

from ragtide_aggregator.checkpoint.commit import Step
from ragtide_aggregator.checkpoint.halving import Halving, StepFailedError, TakenEntries, countable
from ragtide_aggregator.checkpoint.loading import Checkpoint
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.values import EventPart, check, gold_parts
from ragtide_aggregator.state.feedback_joiner import FeedbackEntry
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Feedback, InvalidEntryError, MetricEvent, Reason

from .recorded_entries import RecordedBatch, ReplayPosition
from .recorded_feedback import RecordedFeedback

_EVENT: Final = "event "
"""Prefix of the name of a metric event; the name of feedback is its entry id alone."""

SizeOf = Callable[[EstimateKey], int]
"""Population size of a key; 0 if it is not known."""

Write = Callable[[Step], Awaitable[None]]
"""Writes a step: all of it, or an error is raised."""


@dataclass(slots=True)
class ReplayCounts:
    """The counts of a partition's entries so far."""

    events: int = 0
    """Metric events, including rejected ones."""
    refused: int = 0
    """Rejected metric events."""
    feedback: int = 0
    feedback_refused: Counter[str] = field(default_factory=Counter)

    def encode(self) -> bytes:
        """Return the counts as stored."""
        return json.dumps([self.events, self.refused, self.feedback, self.feedback_refused]).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> "ReplayCounts":
        """Return stored counts; zeros for None, before the first commit."""
        if data is None:
            return cls()
        events, refused, feedback, feedback_refused = json.loads(data)
        return cls(events, refused, feedback, Counter(feedback_refused))

    @classmethod
    def of_fields(cls, fields: Mapping[str, bytes]) -> "ReplayCounts":
        """Return the counts in the fields of a checkpoint."""
        return cls.decode(fields.get(CheckpointField.REPLAY_COUNTS))


class PartitionReplay:
    """Applies the recorded entries of one partition, and commits them.

    Args:
        write: writes a step.
        checkpoint: the checkpoint to continue from.
        window_ms: milliseconds for which feedback finds its event, and waits for it.
        expected: by digest of the interaction, the number of feedback entries still to come.
        size_of: population sizes.
        halving: limits the entries of a commit while an entry that the state cannot take is searched for.
    """

    def __init__(
        self,
        write: Write,
        checkpoint: Checkpoint,
        *,
        window_ms: int,
        expected: Counter[str],
        size_of: SizeOf,
        halving: Halving,
    ) -> None:
        self._halving = halving
        self._taken = 0
        self._last = ""
        self.at = ReplayPosition(checkpoint.position, checkpoint.feedback_position)
        self.counts = ReplayCounts.of_fields(checkpoint.fields)
        self._state = checkpoint.state
        # While feedback is joined with a table: the current row, and gold scores with the row that they come before.
        self._row: int | None = None
        self._later_gold: list[tuple[int, EventPart]] = []
        self._feedback = RecordedFeedback(
            self._add_gold,
            checkpoint.pending,
            window_ms=window_ms,
            expected=expected,
            rejected=self.counts.feedback_refused,
            fields=checkpoint.fields,
        )
        self._write = write
        self._steps = checkpoint.steps
        self._size_of = size_of
        self._sizes: list[int] = []
        self._newest_ms = max(order(position)[0] for position in self.at)
        # An event and feedback may have the same entry id, so the names of events have a prefix.
        refused = () if self._halving.part is None else self._halving.part.refused
        self._refused = {name for name in refused if name.startswith(_EVENT)}
        culprits = {name: self._halving.reason for name in refused if not name.startswith(_EVENT)}
        self._feedback.joiner.culprits = culprits

    @property
    def state(self) -> AggregatorState:
        """The state to which the entries are applied."""
        return self._state

    @property
    def full(self) -> bool:
        """Whether the search for an entry that the state cannot take needs a commit now."""
        part = self._halving.part
        return part is not None and self._taken >= part.count

    @contextmanager
    def _countable(self) -> Iterator[None]:
        try:
            with countable(
                lambda: TakenEntries(metrics=self._taken, last=self._last, waited=tuple(self._feedback.joiner.waited))
            ):
                yield
        except StepFailedError as failed:
            self._halving.failed(failed.taken, failed.error)
            raise

    def _count(self, name: str, count: int = 1) -> None:
        self._taken, self._last = self._taken + count, name

    def apply(self, batch: RecordedBatch) -> None:
        """Apply a batch: metric events, with the feedback that waited for them, and feedback.

        The time in the id of a metric event is the time of scoring. Its population size is replaced by that of the
        selected part.

        Raises:
            StepFailedError: the state cannot take an entry: begin again from the checkpoint, in halves.
        """
        if batch.table is not None:
            self._apply_table(batch.table, batch.entries)
            return
        for entry in batch.entries:
            if isinstance(entry.model, MetricEvent):
                self._apply_event(entry.entry_id, entry.model)
            else:
                self._take(entry.entry_id, cast("Feedback", entry.model))

    def _apply_event(self, entry_id: str, event: MetricEvent) -> None:
        if event.population_size is not None:
            event = event.model_copy(update={"population_size": None})
        self.at = self.at._replace(metrics=entry_id)
        self._newest_ms = max(self._newest_ms, order(entry_id)[0])
        self.counts.events += not event.is_tick
        self._count(_EVENT + entry_id)
        with self._countable():
            if not event.is_tick:
                self._feedback.store_event(entry_id, event)
            try:
                if _EVENT + entry_id in self._refused:
                    raise InvalidEntryError(Reason.NOT_AGGREGATABLE, self._halving.reason)  # noqa: TRY301 - as others
                self._state.apply(event, order(entry_id)[0])
            except InvalidEntryError:
                self.counts.refused += 1
                return
            if not event.is_tick:
                self._feedback.join_waiting(entry_id, event)

    def _apply_table(self, table: Any, feedback: Sequence[RecordedEntry]) -> None:
        from .tables import columns_of, count_interactions  # noqa: PLC0415 - pyarrow is an extra

        # The population is the selected part, not the recorded one.
        table = table.drop_columns(["population_size"])
        self._later_gold = []
        for row, entry in self._merge_feedback(table, feedback):
            self._row = row
            if entry is None:
                self._join_row(table.slice(row, 1))
            else:
                self._take(entry.entry_id, cast("Feedback", entry.model))
        self._row = None
        last = table["entry_id"][table.num_rows - 1].as_py()
        processed_ms = table["entry_ms"].to_numpy().astype(np.int64)
        self.counts.events += count_interactions(table)
        self._count(_EVENT + last, table.num_rows)
        with self._countable():
            columns = replace(columns_of(table, processed_ms), gold=self._later_gold)
            self.counts.refused += len(self._state.apply_columns(columns))
        self.at = self.at._replace(metrics=last)
        self._newest_ms = max(self._newest_ms, order(last)[0])

    def _merge_feedback(
        self, table: Any, feedback: Sequence[RecordedEntry]
    ) -> Iterator[tuple[int, RecordedEntry | None]]:
        if self._feedback.idle:
            return iter(())
        rows = zip(table["pipeline"].to_pylist(), table["interaction_id"].to_pylist(), strict=True)
        concerned = [(row, None) for row, identity in enumerate(rows) if self._feedback.concerns(*identity)]
        orders = list(zip(table["entry_ms"].to_pylist(), table["entry_number"].to_pylist(), strict=True))
        placed = [(bisect_right(orders, entry.order), entry) for entry in feedback]
        return heapq.merge(placed, concerned, key=lambda row_and_entry: row_and_entry[0])

    def _join_row(self, row: Any) -> None:
        from ragtide_runtime.recordings.parquet import entries_of  # noqa: PLC0415 - pyarrow is an extra

        with self._countable():
            try:
                (entry,) = entries_of(EntryKind.METRICS, row)
                event = cast("MetricEvent", entry.model)
                if event.is_tick:
                    return
                self._feedback.store_event(entry.entry_id, event)
                check(event)
            except InvalidEntryError:
                return  # the columns reject it, too
            self._row = cast("int", self._row) + 1  # its gold scores come after it
            self._feedback.join_waiting(entry.entry_id, event)

    def _add_gold(
        self, event: MetricEvent, gold_scores: Mapping[str, float], probability: float, arrived_ms: int
    ) -> None:
        if self._row is None:
            self._state.apply_gold(event, gold_scores, probability, arrived_ms)
        else:
            parts = gold_parts(event, gold_scores, probability, self._state.targets, arrived_ms)
            self._later_gold += [(self._row, part) for part in parts]

    def _take(self, entry_id: str, feedback: Feedback) -> None:
        self.at = self.at._replace(feedback=entry_id)
        self._newest_ms = max(self._newest_ms, order(entry_id)[0])
        self.counts.feedback += 1
        self._count(entry_id)
        with self._countable():
            self._feedback.take(FeedbackEntry(entry_id, feedback))

    async def commit(self) -> None:
        """Write state, alerts and position at once.

        Raises:
            StepFailedError: the state cannot take an entry: begin again from the checkpoint, in halves.
            Exception: any error of `write`: begin again from the checkpoint.
        """
        self._feedback.joiner.expire(self._newest_ms)
        with self._countable():
            rows, new = self._state.rows, self._state.keys[len(self._sizes) :]
            self._sizes += [self._size_of(key) for key in new]
            rows.population[: len(self._sizes)] = self._sizes
            changes = self._state.take_changes()
        stored, gone = self._feedback.take_changes()
        step = Step(
            before=self._steps,
            position=self.at.metrics,
            feedback_position=self.at.feedback,
            rows={**changes.rows, **stored, CheckpointField.REPLAY_COUNTS: self.counts.encode()},
            gone=[*changes.gone, *gone],
            alerts=changes.alerts,
            closed=changes.closed,
        )
        await self._write(step)
        self._halving.passed(self._taken)
        self._steps += 1
        if self._taken:  # in a commit without entries the entry to reject is still to come
            self._refused, self._feedback.joiner.culprits = set(), {}
        self._taken = 0
