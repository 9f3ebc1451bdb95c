"""Finding the metric event that feedback is about, and joining the two: the edge of `feedback.py`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams, interaction_digest, known_digest
from ragtide_runtime.redis.known_ids import find_id
from ragtide_runtime.redis.log import Entry, order, read_range
from ragtide_runtime.redis.payloads import payload_of, raw_of
from ragtide_runtime.redis.scripts import run_scripts
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import DeadLetter, Feedback, InvalidEntryError, MetricEvent, Reason

from ..state.feedback import Held, PendingFeedback, judge_feedback
from ..state.state import AggregatorState

log = structlog.get_logger("ragtide.aggregator")


class Joiner:
    """Joins feedback with events, and collects for the next commit what was graded and what was refused."""

    def __init__(
        self, redis: Redis, streams: Streams, state: AggregatorState, pending: PendingFeedback, *, window_s: float
    ) -> None:
        self._redis = redis
        self._log_limit = LogLimit()
        self._streams = streams
        self._state = state
        self.pending = pending
        self._window_ms = int(window_s * 1000)
        self._graded: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._letters: list[DeadLetter] = []
        self.joined = 0
        """Gold scores that were joined."""
        self.waited: list[str] = []
        """Entry ids of feedback that had waited for an interaction, and was joined since the last commit."""
        self.culprits: Mapping[str, str] = {}
        """Entry ids of feedback that the state cannot take, each with the reason."""

    async def take(self, entries: Sequence[Entry], position: str) -> None:
        """Join feedback with events up to a position of the metrics stream, and hold what is about later ones."""
        held = [one for entry in entries if (one := self._read(entry)) is not None]
        if not held:
            return
        identities = [(one.feedback.pipeline, one.feedback.interaction_id) for one in held]
        calls = [find_id(self._streams.event_keys(*identity), known_digest(*identity)) for identity in identities]
        places = await run_scripts(self._redis, calls)
        async with self._redis.pipeline(transaction=False) as pipe:
            for one in held:
                pipe.smembers(self._graded_key(one))
            replies: list[Any] = await pipe.execute()
        for one, at, graded in zip(held, places, replies, strict=True):
            if at is None or order(at) > order(position):
                self.pending.hold(one)
                continue
            try:
                event = await self._event(at)
            except InvalidEntryError as error:
                self._refuse(one, error.reason, f"its metric event cannot be read: {error.detail}")
                continue
            if event is None:
                self._refuse(one, Reason.UNKNOWN_INTERACTION, "its metric event was trimmed: give feedback earlier")
            else:
                # By other entries: the state may have been thrown away to count the streams again from their start.
                pairs = (member.decode().split(" ") for member in graded)
                self._join(one, event, {metric for metric, entry_id in pairs if entry_id != one.entry_id})

    def applied(self, event: MetricEvent) -> None:
        """Join the feedback that waited for an event which has just been applied."""
        for one in self.pending.take(event):
            self.waited.append(one.entry_id)
            self._join(one, event, set())

    def expire(self, now_ms: int) -> None:
        """Give up on feedback whose interaction was not scored within the window."""
        for one in self.pending.expired(now_ms - self._window_ms):
            feedback = one.feedback
            self._refuse(
                one,
                Reason.UNKNOWN_INTERACTION,
                f"no interaction {feedback.interaction_id} of pipeline {feedback.pipeline} was scored within the "
                "feedback window: correct the id or the pipeline, then retry it",
            )

    def take_changes(self) -> tuple[list[tuple[str, str]], list[DeadLetter]]:
        """Return what was graded and what was refused since the last call.

        What was graded are pairs of a key and of the metric with the entry that graded it.
        """
        graded = [(key, f"{metric} {at}") for key, metrics in self._graded.items() for metric, at in metrics.items()]
        letters = self._letters
        self._graded, self._letters, self.waited = defaultdict(dict), [], []
        return graded, letters

    def _read(self, entry: Entry) -> Held | None:
        try:
            return Held(entry.entry_id, Feedback.decode(payload_of(entry.fields, "feedback")))
        except InvalidEntryError as error:
            self._letter(entry.entry_id, raw_of(entry.fields), error.reason, error.detail)
            return None

    def _graded_key(self, one: Held) -> str:
        return self._streams.graded(interaction_digest(one.feedback.pipeline, one.feedback.interaction_id))

    async def _event(self, entry_id: str) -> MetricEvent | None:
        found = await read_range(self._redis, self._streams.metrics, first=entry_id, last=entry_id, count=1)
        return MetricEvent.decode(payload_of(found[0].fields, "metric event")) if found else None

    def _join(self, one: Held, event: MetricEvent, graded: set[str]) -> None:
        if one.entry_id in self.culprits:
            self._refuse(one, Reason.NOT_AGGREGATABLE, self.culprits[one.entry_id])
            return
        key = self._graded_key(one)
        verdict = judge_feedback(one.feedback, event, graded | set(self._graded.get(key, {})))
        if verdict.accepted:
            try:
                self._state.apply_gold(event, verdict.accepted)
            except InvalidEntryError as error:
                self._refuse(one, error.reason, error.detail)
                return
            self._graded[key] |= dict.fromkeys(verdict.accepted, one.entry_id)
            self.joined += len(verdict.accepted)
        if verdict.reason is not None:
            rest = one.feedback.model_copy(update={"gold_scores": verdict.rejected})
            self._refuse(Held(one.entry_id, rest), verdict.reason, verdict.detail)

    def _refuse(self, one: Held, reason: Reason, detail: str) -> None:
        self._letter(one.entry_id, one.feedback.encode(), reason, detail)

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
            "feedback refused: it is a dead letter now, see ragtide dead-letters",
            entry_id=entry_id,
            reason=reason,
            detail=detail,
        )
