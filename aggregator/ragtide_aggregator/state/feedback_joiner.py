"""Joins feedback with its metric event, in a live aggregator and in a replay. No I/O.

Feedback and its metric event are joined once both are there, in either order. Of several gold scores for a metric of an
interaction the first counts. The checkpoint contains the waiting feedback and the graded metrics of the same commit, so
a crash neither loses a gold score nor counts it twice.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import CheckpointField, interaction_digest
from ragtide_schemas import Feedback, InvalidEntryError, MetricEvent, Reason
from ragtide_schemas.metric_definitions import PEOPLES_METRICS

from ..errors import reading


class FeedbackEntry(NamedTuple):
    """Feedback with the id of its stream entry."""

    entry_id: str
    feedback: Feedback


class PendingFeedback:
    """Feedback for interactions that are not scored yet, with the changes since the last commit."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[FeedbackEntry]] = defaultdict(list)
        self._added: dict[str, bytes] = {}
        self._gone: list[str] = []

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def hold(self, entry: FeedbackEntry) -> None:
        """Store feedback until its interaction is scored."""
        self._waiting[_digest(entry.feedback)].append(entry)
        self._added[CheckpointField.PENDING_FEEDBACK + entry.entry_id] = entry.feedback.encode()

    def take(self, event: MetricEvent) -> list[FeedbackEntry]:
        """Remove and return the feedback that waits for an event's interaction, the oldest first."""
        if not self._waiting:
            return []
        return self._forget(self._waiting.pop(interaction_digest(event.pipeline, event.interaction_id), []))

    def waits_for(self, digest: str) -> bool:
        """Return whether feedback waits for the interaction with a digest."""
        return digest in self._waiting

    def expired(self, before_ms: int) -> list[FeedbackEntry]:
        """Remove and return the feedback from before a time."""
        old = [entry for waiting in self._waiting.values() for entry in waiting if order(entry.entry_id)[0] < before_ms]
        for entry in old:
            waiting = self._waiting[_digest(entry.feedback)]
            waiting.remove(entry)
            if not waiting:
                del self._waiting[_digest(entry.feedback)]
        return self._forget(sorted(old, key=lambda entry: order(entry.entry_id)))

    def _forget(self, taken: list[FeedbackEntry]) -> list[FeedbackEntry]:
        for entry in taken:
            name = CheckpointField.PENDING_FEEDBACK + entry.entry_id
            if self._added.pop(name, None) is None:
                self._gone.append(name)
        return taken

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the fields of the checkpoint to write, and those to remove, since the last call."""
        changes = self._added, self._gone
        self._added, self._gone = {}, []
        return changes

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> "PendingFeedback":
        """Return the waiting feedback in the fields of a checkpoint."""
        pending = cls()
        names = []
        for name in fields:
            if name.startswith(CheckpointField.PENDING_FEEDBACK):
                with reading(name):
                    names.append((order(name[len(CheckpointField.PENDING_FEEDBACK) :]), name))
        for _, name in sorted(names):
            with reading(name):
                pending.hold(
                    FeedbackEntry(name.removeprefix(CheckpointField.PENDING_FEEDBACK), Feedback.decode(fields[name]))
                )
        pending.take_changes()
        return pending


@dataclass(frozen=True, slots=True)
class Verdict:
    """The accepted and the rejected gold scores of one piece of feedback."""

    accepted: Mapping[str, float] = field(default_factory=dict)
    """Gold scores that count."""
    uncompared: int = 0
    """Number of accepted gold scores of metrics without a value in the event, which nothing is compared with."""
    rejected: Mapping[str, float] = field(default_factory=dict)
    """Gold scores that do not count."""
    reason: Reason | None = None
    """Reason of the rejection."""
    detail: str = ""


def judge_feedback(feedback: Feedback, event: MetricEvent, graded: Collection[str]) -> Verdict:
    """Return which gold scores of a piece of feedback count for an event.

    Args:
        event: metric event of the interaction.
        graded: metrics that earlier feedback has graded; gold scores in the event count as earlier, too.
    """
    parts = event.parts()
    scored = {metric for part in parts for metric in part.scores}
    doubled = {metric for metric in feedback.gold_scores if metric in graded or metric in event.gold_scores}
    # A metric without a value is known, so its gold score is right, and there is no score to compare it with.
    absent = {metric for part in parts for metric in part.absent}
    unscored = set(feedback.gold_scores) - scored - absent - PEOPLES_METRICS - doubled
    accepted = {m: score for m, score in feedback.gold_scores.items() if m not in doubled and m not in unscored}
    rejected = {m: score for m, score in feedback.gold_scores.items() if m not in accepted}
    subject = f"interaction {feedback.interaction_id} of pipeline {feedback.pipeline}"
    details = []
    if doubled:
        details.append(f"{subject} already has a gold score of {', '.join(sorted(doubled))}: the first one counts")
    if unscored:
        details.append(
            f"{subject} has no score of {', '.join(sorted(unscored))} to compare with: leave the gold score out, or "
            "use a labeler that scores the metric"
        )
    reason = Reason.DUPLICATE if doubled else Reason.INVALID if unscored else None
    uncompared = sum(metric not in scored and metric not in PEOPLES_METRICS for metric in accepted)
    return Verdict(accepted, uncompared, rejected, reason, "; ".join(details))


def _digest(feedback: Feedback) -> str:
    return interaction_digest(feedback.pipeline, feedback.interaction_id)


AddGold = Callable[[MetricEvent, Mapping[str, float], float, int], None]
"""Adds gold scores to an applied event, with the probability with which it was chosen for them, and the time in ms at
which both were there.

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
                probability = entry.feedback.inclusion_probability or 1.0
                self._add_gold(event, verdict.accepted, probability, order(at)[0])
            except InvalidEntryError as error:
                self._record.reject(entry, error.reason, error.detail)
                return
            self._record.accept(entry, verdict.accepted.keys(), at)
            self.joined += len(verdict.accepted)
            self.uncompared += verdict.uncompared
        if verdict.reason is not None:
            rest = entry.feedback.model_copy(update={"gold_scores": verdict.rejected})
            self._record.reject(FeedbackEntry(entry.entry_id, rest), verdict.reason, verdict.detail)
