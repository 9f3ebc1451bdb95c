"""Joins feedback with its metric event, in a live aggregator and in a replay. No clock, no I/O."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ragtide_runtime.redis.entry_ids import order
from ragtide_schemas import InvalidEntryError, MetricEvent, Reason

from .feedback import FeedbackEntry, PendingFeedback, judge_feedback

AddGold = Callable[[MetricEvent, Mapping[str, float], float], None]
"""Adds gold scores to an applied event, with the probability with which it was chosen for them.

It raises InvalidEntryError if they cannot be counted."""


class FeedbackRecord(Protocol):
    """Stores which metrics of which interactions have a gold score, and takes rejected feedback."""

    def graded(self, entry: FeedbackEntry, at: str) -> Collection[str]:
        """Return the metrics that earlier feedback graded, for an entry that is joined at a position."""
        ...

    def accept(self, entry: FeedbackEntry, metrics: Collection[str], at: str) -> None:
        """Store the metrics that an entry graded at a position."""
        ...

    def reject(self, entry: FeedbackEntry, reason: Reason, detail: str) -> None:
        """Take rejected feedback."""
        ...


class FeedbackJoiner:
    """Joins feedback with events, whichever comes first.

    Args:
        add_gold: adds gold scores to the state.
        pending: feedback that waits for its event.
        record: graded metrics and rejected feedback.
        window_ms: milliseconds for which feedback waits for its event.
    """

    def __init__(self, add_gold: AddGold, pending: PendingFeedback, record: FeedbackRecord, *, window_ms: int) -> None:
        self._add_gold = add_gold
        self._pending = pending
        self._record = record
        self._window_ms = window_ms
        self.joined = 0
        """Number of gold scores that count, since the last `take_counts`."""
        self.uncompared = 0
        """Number of those that nothing is compared with, because their metric has no value."""
        self.waited: list[str] = []
        """Entry ids of feedback that had waited and was joined since the last commit."""
        self.culprits: Mapping[str, str] = {}
        """Entry ids of feedback that the state cannot take, with the reasons."""

    def applied(self, entry_id: str, event: MetricEvent) -> list[FeedbackEntry]:
        """Join the feedback that waited for an event, and return it. Call this after the event is applied."""
        waited = self._pending.take(event)
        for entry in waited:
            if order(entry.entry_id)[0] < order(entry_id)[0] - self._window_ms:
                self._reject_unknown(entry)
            else:
                self.waited.append(entry.entry_id)
                self._join(entry, event, entry_id)
        return waited

    def take(self, entry: FeedbackEntry, event: MetricEvent | None) -> None:
        """Join feedback with its event; without an event the feedback waits."""
        if event is None:
            self._pending.hold(entry)
        else:
            self._join(entry, event, entry.entry_id)

    def take_counts(self) -> tuple[int, int]:
        """Return `joined` and `uncompared`, and count anew."""
        counts = self.joined, self.uncompared
        self.joined = self.uncompared = 0
        return counts

    def expire(self, now_ms: int) -> None:
        """Reject feedback whose interaction was not scored within the window."""
        for entry in self._pending.expired(now_ms - self._window_ms):
            self._reject_unknown(entry)

    def _reject_unknown(self, entry: FeedbackEntry) -> None:
        feedback = entry.feedback
        self._record.reject(
            entry,
            Reason.UNKNOWN_INTERACTION,
            f"no interaction {feedback.interaction_id} of pipeline {feedback.pipeline} was scored within the "
            "feedback window: correct the id or the pipeline, then publish the feedback again",
        )

    def _join(self, entry: FeedbackEntry, event: MetricEvent, at: str) -> None:
        if entry.entry_id in self.culprits:
            self._record.reject(entry, Reason.NOT_AGGREGATABLE, self.culprits[entry.entry_id])
            return
        verdict = judge_feedback(entry.feedback, event, self._record.graded(entry, at))
        if verdict.accepted:
            try:
                self._add_gold(event, verdict.accepted, entry.feedback.inclusion_probability or 1.0)
            except InvalidEntryError as error:
                self._record.reject(entry, error.reason, error.detail)
                return
            self._record.accept(entry, verdict.accepted.keys(), at)
            self.joined += len(verdict.accepted)
            self.uncompared += verdict.uncompared
        if verdict.reason is not None:
            rest = entry.feedback.model_copy(update={"gold_scores": verdict.rejected})
            self._record.reject(FeedbackEntry(entry.entry_id, rest), verdict.reason, verdict.detail)
