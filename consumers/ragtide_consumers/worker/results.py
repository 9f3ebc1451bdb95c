"""Commits results: one script acknowledges an entry and adds its metric event, so that no event is added twice.

For each entry the script does the following in this order:

1. The interaction id must be free or belong to this entry. If another entry has it, the script does nothing, and the
   worker rejects this entry as a duplicate.
2. `XACK`, and the entry joins the set of finished entries. If it is in the set, the script ends: another worker
   finished it first (it reclaimed the entry from a slow worker), or the consumer group was lost or set back. The script
   also ends if the entry has a metric event or a dead letter: the stream may have come back from an older copy.
3. The id belongs to this entry for the dedupe window, and the metric event is added. The entry id of the event is
   stored for the feedback window, so that later gold scores find the event.
4. A specimen of the interaction is kept, if there is one and a list takes it.

A script that is sent again after a lost reply changes nothing: the second time the entry is finished. An entry that
somebody took from the consumer group meanwhile (`XACK`, `XGROUP DELCONSUMER`) is not finished, so its result counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_schemas import DeadLetter, MetricEvent, Reason

from ..specimens.keeping import ProposedSpecimen, specimen_arguments, specimen_keys
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
    specimen: ProposedSpecimen | None = None
    """The specimen to keep of the interaction."""


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
        specimen_outcome: called with the outcome of each specimen.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        *,
        consumer: str,
        dedupe_window_s: float,
        feedback_window_s: float,
        specimen_outcome: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._consumer = consumer
        self._window_ms = int(dedupe_window_s * 1000)
        self._feedback_ms = int(feedback_window_s * 1000)
        self._specimen_outcome = specimen_outcome

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
        return deliver_event(
            self._streams,
            result,
            dedupe_ms=self._window_ms,
            feedback_ms=self._feedback_ms,
            specimen_outcome=self._specimen_outcome,
        )


def deliver_event(
    streams: Streams,
    result: LabeledEntry,
    *,
    dedupe_ms: int,
    feedback_ms: int,
    specimen_outcome: Callable[[str], None] = lambda _: None,
) -> ScriptCall[CommitOutcome]:
    """Return the call that acknowledges an entry and adds its metric event, and keeps its specimen if it has one."""
    event = result.event
    identity = event.pipeline, event.interaction_id
    keys = (
        streams.interactions,
        streams.metrics,
        streams.finished,
        streams.deliveries,
        streams.rejected,
        *streams.owner_keys(*identity),
        *streams.event_keys(*identity),
    )
    digest = known_digest(*identity)
    arguments = (LABEL_GROUP, result.entry_id, event.encode(), dedupe_ms, feedback_ms, result.traceparent, digest)
    if result.specimen is None:
        return ScriptCall(DELIVER, keys, arguments, _outcome)
    return ScriptCall(
        DELIVER,
        (*keys, *specimen_keys(streams, event, result.specimen)),
        (*arguments, *specimen_arguments(streams, event, result.specimen)),
        partial(_outcome_with_specimen, specimen_outcome),
    )


def reject_entry(streams: Streams, result: RejectedEntry) -> ScriptCall[CommitOutcome]:
    """Return the call that acknowledges an entry and adds a dead letter about it."""
    keys = (streams.interactions, streams.dead_letters, streams.finished, streams.deliveries, streams.rejected)
    arguments = (LABEL_GROUP, result.entry_id, result.dead_letter.encode(), int(result.pending))
    return ScriptCall(REJECT, keys, arguments, _outcome)


def _outcome(reply: bytes) -> CommitOutcome:
    return CommitOutcome(reply.decode())


def _outcome_with_specimen(count: Callable[[str], None], reply: Any) -> CommitOutcome:
    if not isinstance(reply, list):
        return _outcome(reply)
    outcome, kept = reply
    count(kept.decode())
    return _outcome(outcome)
