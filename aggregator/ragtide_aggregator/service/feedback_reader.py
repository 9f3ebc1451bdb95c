"""Reads live feedback, and finds the metric event of each entry for the joiner of the state."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Entry, order, payload_of, raw_of
from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import DeadLetter, Feedback, InvalidEntryError, MetricEvent, Reason
from ragtide_schemas.dead_letter import without_values

from ..state.feedback_joiner import FeedbackEntry, FeedbackJoiner, PendingFeedback
from ..state.state import AggregatorState

log = structlog.get_logger("ragtide.aggregator")


class FeedbackReader:
    """Joins live feedback with metric events, and collects graded metrics and dead letters for the next commit.

    Args:
        redis: client.
        streams: keys of the partition.
        state: to which gold scores are applied.
        pending: feedback that waits for its event.
        window_s: seconds for which feedback waits.
    """

    def __init__(
        self, redis: Redis, streams: Streams, state: AggregatorState, pending: PendingFeedback, *, window_s: float
    ) -> None:
        self._redis = redis
        self._log_limit = LogLimit()
        self._streams = streams
        self.pending = pending
        self.joiner = FeedbackJoiner(state.apply_gold, pending, self, window_ms=int(window_s * 1000))
        self._stored: dict[str, set[str]] = {}
        self._graded: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._letters: list[DeadLetter] = []

    async def take(self, entries: Sequence[Entry], position: str) -> None:
        """Join feedback with the events up to a position of the metrics stream; other feedback waits for its event."""
        read = [decoded for entry in entries if (decoded := self._decoded(entry)) is not None]
        if not read:
            return
        identities = [(entry.feedback.pipeline, entry.feedback.interaction_id) for entry in read]
        calls = [find_id(self._streams.event_keys(*identity), known_digest(*identity)) for identity in identities]
        places = await run_scripts(self._redis, calls)
        async with self._redis.pipeline(transaction=False) as pipe:
            for entry in read:
                pipe.smembers(self._key(entry))
            replies: list[Any] = await pipe.execute()
        for entry, at, graded in zip(read, places, replies, strict=True):
            if at is None or order(at) > order(position):
                self.joiner.take(entry, None)
                continue
            try:
                stored = await read_range(self._redis, self._streams.metrics, first=at, last=at, count=1)
                event = MetricEvent.decode(payload_of(stored[0].fields, "metric event")) if stored else None
            except InvalidEntryError as error:
                self.reject(entry, error.reason, f"its metric event cannot be read: {error.detail}")
                continue
            if event is None:
                self.reject(entry, Reason.UNKNOWN_INTERACTION, "its metric event was trimmed: give feedback earlier")
            else:
                # Only metrics that other entries graded: after a rollback this entry may come again and count again.
                pairs = (member.decode().split(" ") for member in graded)
                self._stored = {entry.entry_id: {metric for metric, entry_id in pairs if entry_id != entry.entry_id}}
                self.joiner.take(entry, event)

    def take_changes(self) -> tuple[list[tuple[str, str]], list[DeadLetter]]:
        """Return the graded metrics and the dead letters since the last call.

        A graded metric is a pair: the key of its interaction, and the metric with the id of the entry that graded it.
        """
        graded = [(key, f"{metric} {at}") for key, metrics in self._graded.items() for metric, at in metrics.items()]
        letters = self._letters
        self._graded, self._letters, self.joiner.waited = defaultdict(dict), [], []
        return graded, letters

    def graded(self, entry: FeedbackEntry, at: str) -> Collection[str]:
        """Return the metrics that earlier feedback graded: as stored, and since the last commit."""
        del at  # Redis forgets them after the window
        return self._stored.get(entry.entry_id, set()) | self._graded.get(self._key(entry), {}).keys()

    def accept(self, entry: FeedbackEntry, metrics: Collection[str], at: str) -> None:
        """Remember the metrics that an entry graded, for the next commit."""
        del at
        self._graded[self._key(entry)] |= dict.fromkeys(metrics, entry.entry_id)

    def reject(self, entry: FeedbackEntry, reason: Reason, detail: str) -> None:
        """Make feedback a dead letter of the next commit."""
        self._letter(entry.entry_id, entry.feedback.encode(), reason, detail)

    def _key(self, entry: FeedbackEntry) -> str:
        return self._streams.graded(interaction_digest(entry.feedback.pipeline, entry.feedback.interaction_id))

    def _decoded(self, entry: Entry) -> FeedbackEntry | None:
        try:
            return FeedbackEntry(entry.entry_id, Feedback.decode(payload_of(entry.fields, "feedback")))
        except InvalidEntryError as error:
            self._letter(entry.entry_id, raw_of(entry.fields), error.reason, error.detail)
            return None

    def _letter(self, entry_id: str, payload: bytes, reason: Reason, detail: str) -> None:
        self._letters.append(
            DeadLetter.of(
                payload,
                stream=self._streams.feedback,
                entry_id=entry_id,
                reason=reason,
                detail=detail,
                component="aggregator",
            )
        )
        self._log_limit.warning(
            log,
            reason,
            "feedback rejected: it is a dead letter now, see ragtide dead-letters",
            entry_id=entry_id,
            reason=reason,
            detail=without_values(detail),
        )
