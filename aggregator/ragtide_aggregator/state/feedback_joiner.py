"""Joins feedback with the metric event it is about, for a live aggregator and for a replay alike. No clock, no I/O."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from ragtide_runtime.redis.log import order
from ragtide_schemas import InvalidEntryError, MetricEvent, Reason

from .feedback import FeedbackEntry, PendingFeedback, judge_feedback

AddGold = Callable[[MetricEvent, Mapping[str, float]], None]
"""Adds gold scores to an event that has been applied; raises InvalidEntryError if they cannot be counted."""


class FeedbackRecord(Protocol):
    """Remembers which metrics of which interactions have a gold score, and takes the feedback that does not count."""

    def graded(self, entry: FeedbackEntry, at: str) -> Collection[str]:
        """Return the metrics that earlier feedback graded, for an entry that is joined at a position."""
        ...

    def accept(self, entry: FeedbackEntry, metrics: Collection[str], at: str) -> None:
        """Remember the metrics that an entry graded at a position."""
        ...

    def reject(self, entry: FeedbackEntry, reason: Reason, detail: str) -> None:
        """Take feedback that does not count."""
        ...


class FeedbackJoiner:
    """Joins feedback with events, whichever comes first.

    Args:
        add_gold: of the state.
        pending: feedback that waits for its event.
        record: of what is graded and of what is rejected.
        window_ms: for how long feedback waits for its event.
    """

    def __init__(self, add_gold: AddGold, pending: PendingFeedback, record: FeedbackRecord, *, window_ms: int) -> None:
        self._add_gold = add_gold
        self._pending = pending
        self._record = record
        self._window_ms = window_ms
        self.joined = 0
        """Gold scores that were joined."""
        self.waited: list[str] = []
        """Entry ids of feedback that had waited for its event, and was joined since the last commit."""
        self.culprits: Mapping[str, str] = {}
        """Entry ids of feedback that the state cannot take, each with the reason."""

    def applied(self, entry_id: str, event: MetricEvent) -> list[FeedbackEntry]:
        """Join the feedback that waited for an event which has just been applied, and return it."""
        waited = self._pending.take(event)
        for entry in waited:
            if order(entry.entry_id)[0] < order(entry_id)[0] - self._window_ms:
                self._reject_unknown(entry)
            else:
                self.waited.append(entry.entry_id)
                self._join(entry, event, entry_id)
        return waited

    def take(self, entry: FeedbackEntry, event: MetricEvent | None) -> None:
        """Join feedback with its event, or let it wait if the event has not been applied."""
        if event is None:
            self._pending.hold(entry)
        else:
            self._join(entry, event, entry.entry_id)

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
            "feedback window: correct the id or the pipeline, then retry it",
        )

    def _join(self, entry: FeedbackEntry, event: MetricEvent, at: str) -> None:
        if entry.entry_id in self.culprits:
            self._record.reject(entry, Reason.NOT_AGGREGATABLE, self.culprits[entry.entry_id])
            return
        verdict = judge_feedback(entry.feedback, event, self._record.graded(entry, at))
        if verdict.accepted:
            try:
                self._add_gold(event, verdict.accepted)
            except InvalidEntryError as error:
                self._record.reject(entry, error.reason, error.detail)
                return
            self._record.accept(entry, verdict.accepted.keys(), at)
            self.joined += len(verdict.accepted)
        if verdict.reason is not None:
            rest = entry.feedback.model_copy(update={"gold_scores": verdict.rejected})
            self._record.reject(FeedbackEntry(entry.entry_id, rest), verdict.reason, verdict.detail)
