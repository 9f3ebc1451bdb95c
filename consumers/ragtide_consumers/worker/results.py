"""Entries and their results: one script acknowledges an entry and adds its metric event, so none is added twice.

For each entry the script does the following in this order:

1. The interaction id must be free or belong to this entry. If another entry has it, the script does nothing, and the
   worker rejects this entry as a duplicate.
2. `XACK`, and the entry joins the set of finished entries. If it is in the set, the script ends: another worker
   finished it first (it reclaimed the entry from a slow worker), or the consumer group was lost or set back. The script
   also ends if the entry has a metric event or a dead letter: the stream may have come back from an older copy.
3. The id belongs to this entry for the dedupe window, and the metric event is added. The entry id of the event is
   stored for the feedback window, so that later gold scores find the event.
4. A specimen of the interaction is kept, if there is one and a list takes it.

Many results are committed in one round trip, and again until Redis answers. A script that is sent again after a lost
reply changes nothing: the second time the entry is finished. An entry that was taken out of the consumer group
meanwhile (`XACK`, `XGROUP DELCONSUMER`) is not finished, so its result counts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.entries import payload_of, raw_of
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_schemas import DeadLetter, MetricEvent, Reason

from ..specimens.keeping import ProposedSpecimen, specimen_arguments, specimen_keys
from .telemetry import WorkerTelemetry


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One delivery of an entry."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    """Number of deliveries of the entry, including this delivery."""
    pending: bool = True
    """Whether the entry must still be acknowledged; since 7.0 Redis acknowledges a deleted entry when it is claimed."""
    awaiting: bool = False
    """Whether it waited for the labeler of a sample, and is held by the consumer of those that wait."""

    def payload(self) -> bytes:
        """Return the JSON in the entry.

        Raises:
            InvalidEntryError: the entry has no JSON.
        """
        return payload_of(self.fields)

    def raw(self) -> bytes:
        """Return the content of the entry, for a dead letter."""
        return raw_of(self.fields)


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


MOST: Final = 200
"""Most results in one round trip."""

FAILED: Final = "failed"
"""Outcome of a try in which the labeler failed, besides the outcomes of entries."""

log = structlog.get_logger("ragtide.worker")

Finished = tuple[StreamEntry, Result]
"""An entry and its result."""


class CommitLoop:
    """Commits results in the order in which they were added.

    Args:
        committer: of the partition.
        release: called with each entry when its result has been committed.
        attempt: logs an outage of Redis once.
        telemetry: of the workers of the process.
        labeler: its name, for the counters.
        heartbeat: of the loop.
        emitted: called with each entry whose metric event was added.
    """

    def __init__(
        self,
        committer: ResultCommitter,
        *,
        release: Callable[[StreamEntry], None],
        attempt: Attempt,
        telemetry: WorkerTelemetry,
        labeler: str,
        heartbeat: Heartbeat,
        emitted: Callable[[LabeledEntry], None],
    ) -> None:
        self._committer = committer
        self._release = release
        self._attempt = attempt
        self._telemetry = telemetry
        self._outcomes = telemetry.outcomes(labeler, [*CommitOutcome, FAILED])
        self._heartbeat = heartbeat
        self._emitted = emitted
        self._log_limit = LogLimit()
        self._backoff = Backoff()
        self._queue: asyncio.Queue[Finished] = asyncio.Queue()
        self.counts: Counter[str] = Counter()
        """Number of results by outcome."""

    def add(self, entry: StreamEntry, result: Result) -> None:
        """Add the result of an entry to be committed."""
        self._queue.put_nowait((entry, result))

    async def wait_empty(self) -> None:
        """Wait until every result that was added has been committed."""
        await self._queue.join()

    def labeling_failed(self) -> None:
        """Count a try in which the labeler failed."""
        self._outcomes[FAILED].inc()

    async def run(self) -> None:
        """Commit results until cancelled."""
        while True:
            with self._heartbeat.idle("waiting for results"):
                batch = [await self._queue.get()]
            while len(batch) < MOST and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                duplicates = await self._commit(batch)
                if duplicates:
                    await self._commit(duplicates)
            finally:
                for entry, _ in batch:
                    self._release(entry)
                    self._queue.task_done()

    async def _commit(self, batch: Sequence[Finished]) -> list[Finished]:
        """Commit results and return the duplicates among them, as rejected entries that are still to be committed."""
        while True:
            try:
                outcomes = await self._committer.commit([result for _, result in batch])
            except RedisError as error:
                # Safe to repeat: an entry that was acknowledged the first time is not emitted again.
                self._heartbeat.failed(f"committing results fails: {error}")
                self._attempt.failed(error, results=len(batch))
                await asyncio.sleep(self._backoff.pause_s())
                continue
            self._backoff.succeeded()
            self._attempt.succeeded()
            break
        duplicates: list[Finished] = []
        for (entry, result), outcome in zip(batch, outcomes, strict=True):
            self._count(result, outcome)
            if outcome is CommitOutcome.EMITTED and isinstance(result, LabeledEntry):
                self._emitted(result)
            if outcome is CommitOutcome.DUPLICATE and isinstance(result, LabeledEntry):
                duplicates.append((entry, self._duplicate(entry, result)))
            elif outcome is CommitOutcome.REJECTED and isinstance(result, RejectedEntry):
                self._log_rejected(result)
        return duplicates

    def _duplicate(self, entry: StreamEntry, result: LabeledEntry) -> RejectedEntry:
        detail = (
            f"another entry of pipeline {result.event.pipeline} already has interaction_id "
            f"{result.event.interaction_id}: give every interaction an id of its own"
        )
        return self._committer.rejected(entry, Reason.DUPLICATE, detail, result.event.interaction_id)

    def _log_rejected(self, result: RejectedEntry) -> None:
        self._log_limit.warning(
            log,
            result.dead_letter.reason,
            "entry rejected: it is a dead letter now, see ragtide dead-letters",
            entry_id=result.entry_id,
            interaction_id=result.interaction_id,
            reason=result.dead_letter.reason,
            detail=result.dead_letter.detail,
        )

    def _count(self, result: Result, outcome: CommitOutcome) -> None:
        self.counts[outcome] += 1
        reason = result.dead_letter.reason if isinstance(result, RejectedEntry) else None
        if outcome is CommitOutcome.REJECTED:
            self._telemetry.dead_letters.labels(str(reason)).inc()
        # A duplicate is committed twice, the second time as a dead letter, and counted once.
        if reason is not Reason.DUPLICATE:
            self._outcomes[outcome].inc()
