"""Commits results: one script acknowledges an entry and adds its metric event, so that no event is added twice.

For each entry the script does the following in this order:

1. The interaction id must be free or belong to this entry. If another entry has it, the script does nothing, and the
   worker rejects this entry as a duplicate.
2. `XACK`. If another worker acknowledged the entry first (it reclaimed the entry from a slow worker), the script ends.
3. The id belongs to this entry for the dedupe window, and the metric event is added. The entry id of the event is
   stored for the feedback window, so that later gold scores find the event.

A script that is sent again after a lost reply changes nothing: the second time `XACK` returns 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_schemas import DeadLetter, MetricEvent, Reason

from .entries import StreamEntry

DELIVER: Final = Lua("deliver_event")
REJECT: Final = Lua("reject_entry")


class CommitOutcome(StrEnum):
    """The outcome of committing a result."""

    EMITTED = "emitted"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    """Not acknowledged: another entry owns the interaction id."""
    FINISHED_BEFORE = "finished_before"
    """The entry was acknowledged before, by another worker or by an earlier try of the same commit."""


@dataclass(frozen=True, slots=True)
class LabeledEntry:
    """An entry with its metric event."""

    entry_id: str
    event: MetricEvent
    traceparent: str = ""
    """Trace context of the event; empty without tracing."""
    target: str = ""
    """Traceparent of the span that the result is about, for `otel.results`; empty if there is none."""


@dataclass(frozen=True, slots=True)
class RejectedEntry:
    """An entry that becomes a dead letter."""

    entry_id: str
    dead_letter: DeadLetter
    interaction_id: str | None = None
    """Id of the interaction in the entry, if there is one."""
    pending: bool = True
    """Whether the entry must still be acknowledged."""


Result = LabeledEntry | RejectedEntry
"""The result of an entry."""


class ResultCommitter:
    """Commits the results of one partition by script, and makes dead letters.

    Args:
        redis: client.
        streams: keys of the partition.
        consumer: name of the worker, for dead letters.
        dedupe_window_s: seconds for which an interaction id belongs to its entry.
        feedback_window_s: seconds for which the entry id of an event is stored.
    """

    def __init__(
        self, redis: Redis, streams: Streams, *, consumer: str, dedupe_window_s: float, feedback_window_s: float
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._consumer = consumer
        self._window_ms = int(dedupe_window_s * 1000)
        self._feedback_ms = int(feedback_window_s * 1000)

    def rejected(
        self, entry: StreamEntry, reason: Reason, detail: str, interaction_id: str | None = None
    ) -> RejectedEntry:
        """Return the result that makes an entry a dead letter."""
        dead_letter = DeadLetter.of(
            entry.raw(),
            stream=self._streams.interactions,
            entry_id=entry.entry_id,
            reason=reason,
            detail=detail,
            deliveries=entry.deliveries,
            component=self._consumer,
        )
        return RejectedEntry(entry.entry_id, dead_letter, interaction_id, pending=entry.pending)

    async def commit(self, results: Sequence[Result]) -> list[CommitOutcome]:
        """Commit results in one round trip and return the outcome of each, in order.

        Raises:
            redis.RedisError: some or all may not have been committed; commit all of them again.
        """
        return await run_scripts(self._redis, [self._call(result) for result in results])

    def _call(self, result: Result) -> ScriptCall[CommitOutcome]:
        if isinstance(result, RejectedEntry):
            return reject_entry(self._streams, result)
        return deliver_event(self._streams, result, dedupe_ms=self._window_ms, feedback_ms=self._feedback_ms)


def deliver_event(
    streams: Streams, result: LabeledEntry, *, dedupe_ms: int, feedback_ms: int
) -> ScriptCall[CommitOutcome]:
    """Return the call that acknowledges an entry and adds its metric event."""
    event = result.event
    identity = event.pipeline, event.interaction_id
    keys = (streams.interactions, streams.metrics, *streams.owner_keys(*identity), *streams.event_keys(*identity))
    digest = known_digest(*identity)
    arguments = (LABEL_GROUP, result.entry_id, event.encode(), dedupe_ms, feedback_ms, result.traceparent, digest)
    return ScriptCall(DELIVER, keys, arguments, _outcome)


def reject_entry(streams: Streams, result: RejectedEntry) -> ScriptCall[CommitOutcome]:
    """Return the call that acknowledges an entry and adds a dead letter about it."""
    keys = (streams.interactions, streams.dead_letters)
    arguments = (LABEL_GROUP, result.entry_id, result.dead_letter.encode(), int(result.pending))
    return ScriptCall(REJECT, keys, arguments, _outcome)


def _outcome(reply: bytes) -> CommitOutcome:
    return CommitOutcome(reply.decode())
