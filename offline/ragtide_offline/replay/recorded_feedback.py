"""Joins recorded feedback with recorded metric events. No I/O.

A live aggregator finds the metric event of feedback in the stream. A replay reads all recorded feedback first, so it
knows the events with feedback still to come, and stores them in its checkpoint.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping

from ragtide_aggregator.state.feedback_joiner import AddGold, FeedbackEntry, FeedbackJoiner, PendingFeedback
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import CheckpointField, interaction_digest
from ragtide_schemas import MetricEvent, Reason


class RecordedFeedback:
    """Joins recorded feedback with recorded events, in the order in which both are given to it.

    Args:
        add_gold: adds gold scores to the state.
        pending: feedback that waits for its event.
        window_ms: milliseconds for which feedback finds its event, and waits for it.
        expected: by digest of the interaction, the number of feedback entries still to come.
        rejected: counts rejected feedback by reason.
    """

    def __init__(
        self,
        add_gold: AddGold,
        pending: PendingFeedback,
        *,
        window_ms: int,
        expected: Counter[str],
        rejected: Counter[str],
        fields: Mapping[str, bytes],
    ) -> None:
        self.joiner = FeedbackJoiner(add_gold, pending, self, window_ms=window_ms)
        self._pending = pending
        self._window_ms = window_ms
        self._expected = expected
        self._rejected = rejected
        self._scored: dict[str, tuple[str, MetricEvent]] = {}
        self._graded: dict[str, tuple[str, frozenset[str]]] = {}
        self._rows: dict[str, bytes] = {}
        self._gone: list[str] = []
        for name, data in fields.items():
            entry_id, _, content = data.partition(b" ")
            digest = name.partition(":")[2]
            if name.startswith(CheckpointField.REPLAY_SCORED):
                self._scored[digest] = entry_id.decode(), MetricEvent.decode(content)
            elif name.startswith(CheckpointField.REPLAY_GRADED):
                self._graded[digest] = entry_id.decode(), frozenset(json.loads(content))

    def concerns(self, pipeline: str, interaction_id: str) -> bool:
        """Return whether feedback about an interaction waits, or is still to come."""
        digest = interaction_digest(pipeline, interaction_id)
        return digest in self._expected or self._pending.waits_for(digest)

    @property
    def idle(self) -> bool:
        """Whether no feedback waits, and none is still to come."""
        return not self._expected and not self._pending

    def store_event(self, entry_id: str, event: MetricEvent) -> None:
        """Store an event if feedback about it is still to come. Call this before each event is applied."""
        digest = interaction_digest(event.pipeline, event.interaction_id)
        if self._expected.get(digest):
            self._scored[digest] = entry_id, event
            self._rows[CheckpointField.REPLAY_SCORED + digest] = f"{entry_id} ".encode() + event.encode()

    def join_waiting(self, entry_id: str, event: MetricEvent) -> None:
        """Join the feedback that waited for an event. Call this after the event is applied."""
        if self.joiner.applied(entry_id, event):
            self._release(interaction_digest(event.pipeline, event.interaction_id))

    def take(self, entry: FeedbackEntry) -> None:
        """Join feedback with its event; feedback without an event waits."""
        digest = _digest(entry)
        self._expected[digest] -= 1
        entry_id, event = self._scored.get(digest, ("", None))
        known = event is not None and order(entry.entry_id)[0] - order(entry_id)[0] <= self._window_ms
        self.joiner.take(entry, event if known else None)
        self._release(digest)

    def graded(self, entry: FeedbackEntry, at: str) -> Collection[str]:
        """Return the metrics that earlier feedback graded within the window."""
        last, graded = self._graded.get(_digest(entry), (at, frozenset()))
        return frozenset() if order(at)[0] - order(last)[0] > self._window_ms else graded

    def accept(self, entry: FeedbackEntry, metrics: Collection[str], at: str) -> None:
        """Store the metrics that an entry graded."""
        digest = _digest(entry)
        graded = frozenset(metrics).union(self.graded(entry, at))
        self._graded[digest] = at, graded
        self._rows[CheckpointField.REPLAY_GRADED + digest] = f"{at} {json.dumps(sorted(graded))}".encode()

    def reject(self, entry: FeedbackEntry, reason: Reason, detail: str) -> None:
        """Count rejected feedback by reason."""
        del entry, detail
        self._rejected[reason] += 1

    def _release(self, digest: str) -> None:
        if self._expected[digest] > 0:
            return
        del self._expected[digest]
        if self._scored.pop(digest, None) is not None:
            self._drop(CheckpointField.REPLAY_SCORED + digest)
        # Feedback that waits may still be joined, and must not grade a metric twice.
        if not self._pending.waits_for(digest) and self._graded.pop(digest, None) is not None:
            self._drop(CheckpointField.REPLAY_GRADED + digest)

    def _drop(self, name: str) -> None:
        self._rows.pop(name, None)
        self._gone.append(name)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the fields of the checkpoint to write, and those to remove, since the last call."""
        waiting, released = self._pending.take_changes()
        changes = {**self._rows, **waiting}, [*self._gone, *released]
        self._rows, self._gone, self.joiner.waited = {}, [], []
        return changes


def _digest(entry: FeedbackEntry) -> str:
    return interaction_digest(entry.feedback.pipeline, entry.feedback.interaction_id)
