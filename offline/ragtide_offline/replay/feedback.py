"""Joining recorded feedback with recorded metric events. No I/O.

Live, the metric event that feedback is about is found in the stream. A replay keeps the events that feedback is still
to come for, by a pass over the feedback beforehand; they are part of the checkpoint.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping

from ragtide_aggregator.state.feedback import Held, PendingFeedback, judge_feedback
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.redis.keys import CheckpointField, interaction_digest
from ragtide_runtime.redis.log import order
from ragtide_schemas import InvalidEntryError, MetricEvent, Reason


class RecordedJoiner:
    """Joins feedback with events in the order in which both are given to it.

    Args:
        state: what gold scores are added to.
        pending: feedback that waits for its event.
        window_ms: for how long an event is found by feedback, and feedback waits for its event.
        expected: for each interaction (its digest) how much feedback is still to come.
    """

    def __init__(
        self, state: AggregatorState, pending: PendingFeedback, *, window_ms: int, expected: Counter[str]
    ) -> None:
        self._state = state
        self._pending = pending
        self._window_ms = window_ms
        self._expected = expected
        self._scored: dict[str, tuple[str, MetricEvent]] = {}
        self._graded: dict[str, tuple[str, frozenset[str]]] = {}
        self._rows: dict[str, bytes] = {}
        self._gone: list[str] = []
        self.waited: list[str] = []
        """Entry ids of feedback that had waited for an interaction, and was joined since the last commit."""
        self.culprits: Collection[str] = ()
        """Entry ids of feedback that the state cannot take."""
        self.refused: Counter[str] = Counter()
        """Gold scores that do not count, by why."""

    def load(self, fields: Mapping[str, bytes]) -> None:
        """Take on what the fields of a checkpoint hold."""
        for name, data in fields.items():
            entry_id, _, content = data.partition(b" ")
            digest = name.partition(":")[2]
            if name.startswith(CheckpointField.REPLAY_SCORED):
                self._scored[digest] = entry_id.decode(), MetricEvent.decode(content)
            elif name.startswith(CheckpointField.REPLAY_GRADED):
                self._graded[digest] = entry_id.decode(), frozenset(json.loads(content))

    def concerns(self, pipeline: str, interaction_id: str) -> bool:
        """Return whether there is, or will be, feedback for an interaction."""
        digest = interaction_digest(pipeline, interaction_id)
        return digest in self._expected or self._pending.waits_for(digest)

    @property
    def idle(self) -> bool:
        """Whether there is no feedback, and none will come."""
        return not self._expected and not self._pending

    def scored(self, entry_id: str, event: MetricEvent) -> None:
        """Keep an event if feedback for it is still to come; before it is applied, whether that succeeds or not."""
        digest = interaction_digest(event.pipeline, event.interaction_id)
        if self._expected.get(digest):
            self._scored[digest] = entry_id, event
            self._rows[CheckpointField.REPLAY_SCORED + digest] = f"{entry_id} ".encode() + event.encode()

    def applied(self, entry_id: str, event: MetricEvent) -> None:
        """Join the feedback that waited for an event which has just been applied."""
        waited = self._pending.take(event)
        now_ms = order(entry_id)[0]
        for one in waited:
            if order(one.entry_id)[0] < now_ms - self._window_ms:
                self.refused[Reason.UNKNOWN_INTERACTION] += 1
            else:
                self.waited.append(one.entry_id)
                self._join(one, event, entry_id)
        if waited:
            self._forget(interaction_digest(event.pipeline, event.interaction_id))

    def take(self, one: Held) -> None:
        """Join feedback with its event if that has been applied, and hold it if not."""
        digest = interaction_digest(one.feedback.pipeline, one.feedback.interaction_id)
        self._expected[digest] -= 1
        entry_id, event = self._scored.get(digest, ("", None))
        if event is None or order(one.entry_id)[0] - order(entry_id)[0] > self._window_ms:
            self._pending.hold(one)
        else:
            self._join(one, event, one.entry_id)
        self._forget(digest)

    def expire(self, now_ms: int) -> None:
        """Give up on feedback whose interaction was not scored within the window."""
        self.refused[Reason.UNKNOWN_INTERACTION] += len(self._pending.expired(now_ms - self._window_ms))

    def _join(self, one: Held, event: MetricEvent, at: str) -> None:
        if one.entry_id in self.culprits:
            self.refused[Reason.NOT_AGGREGATABLE] += 1
            return
        digest = interaction_digest(event.pipeline, event.interaction_id)
        last, graded = self._graded.get(digest, (at, frozenset()))
        if order(at)[0] - order(last)[0] > self._window_ms:
            graded = frozenset()
        verdict = judge_feedback(one.feedback, event, graded)
        if verdict.accepted:
            try:
                self._state.apply_gold(event, verdict.accepted)
            except InvalidEntryError as error:
                self.refused[error.reason] += 1
                return
            graded = graded | set(verdict.accepted)
            self._graded[digest] = at, graded
            self._rows[CheckpointField.REPLAY_GRADED + digest] = f"{at} {json.dumps(sorted(graded))}".encode()
        if verdict.reason is not None:
            self.refused[verdict.reason] += 1

    def _forget(self, digest: str) -> None:
        """Let go of an interaction for which no more feedback will come."""
        if self._expected[digest] > 0:
            return
        del self._expected[digest]
        if self._scored.pop(digest, None) is not None:
            self._drop(CheckpointField.REPLAY_SCORED + digest)
        # What waits may still be joined: until then it must be known what was graded.
        if not self._pending.waits_for(digest) and self._graded.pop(digest, None) is not None:
            self._drop(CheckpointField.REPLAY_GRADED + digest)

    def _drop(self, name: str) -> None:
        self._rows.pop(name, None)
        self._gone.append(name)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        held, let_go = self._pending.take_changes()
        changes = {**self._rows, **held}, [*self._gone, *let_go]
        self._rows, self._gone, self.waited = {}, [], []
        return changes
