"""Entries and their results: one script acknowledges entries and adds their metric events, so none is added twice.

For each entry the script does the following in this order:

1. The interaction id must be free or belong to this entry. If another entry has it, the script does nothing, and the
   worker rejects this entry as a duplicate.
2. `XACK`, and the entry joins the set of finished entries. If it is in the set, the script ends: another worker
   finished it first (it reclaimed the entry from a slow worker), or the consumer group was lost or set back. The script
   also ends if the entry has a metric event or a dead letter: the stream may have come back from an older copy.
3. The id belongs to this entry for the dedupe window, and the metric event is added. The entry id of the event is
   stored for the feedback window, so that later gold scores find the event.
4. The interaction becomes a turn of its session, if a judge may be asked about that session.
5. A specimen of the interaction is kept, if there is one and a list takes it.

One call of the script commits all results that wait, and it is sent again until Redis answers. It has an outcome for
each entry: an entry that another worker finished changes nothing for the others. A call that is sent again after a lost
reply changes nothing: the second time the entries are finished. An entry that was taken out of the consumer group
meanwhile (`XACK`, `XGROUP DELCONSUMER`) is not finished, so its result counts. Redis runs a script as a whole, and
writes its changes to the append-only file and to replicas as a transaction: a crash keeps all of them or none. Rejected
entries have a script of their own, in the same round trip.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, TypeVar

import structlog
from prometheus_client import Counter as Counted
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.entries import payload_of, raw_of
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, identity_digest
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_scripts
from ragtide_runtime.redis.session_turns import limits_of_turns
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.outages import Attempt
from ragtide_schemas import DeadLetter, MetricEvent, Reason
from ragtide_schemas.dead_letter import without_values

from ..specimens.keeping import ProposedSpecimen, specimen_arguments, specimen_keys
from .result_target import ResultTarget
from .telemetry import WorkerTelemetry


class StreamEntry(NamedTuple):
    """One delivery of an entry."""

    entry_id: str
    fields: Mapping[bytes, bytes]
    deliveries: int = 1
    """Number of deliveries of the entry, including this delivery."""
    pending: bool = True
    """Whether the entry must still be acknowledged; since 7.0 Redis acknowledges a deleted entry when it is claimed."""
    awaiting: str = ""
    """Consumer that holds it because it waited for an unavailable labeler; empty for an entry of a worker."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the fields."""
        return sum(map(len, self.fields.values()))  # an entry of a producer has one or two

    def payload(self) -> bytes:
        """Return the JSON in the entry.

        Raises:
            InvalidEntryError: the entry has no JSON.
        """
        return payload_of(self.fields)

    def raw(self) -> bytes:
        """Return the content of the entry, for a dead letter."""
        return raw_of(self.fields)


DELIVER: Final = Lua("deliver_events")
FORM: Final = ord("0")
"""Form of an entry without further parts in a call of `DELIVER`; each part adds a number of its own."""
TRACED, TURN, WHOLE, KEPT = 1, 2, 4, 8
KEPT_AS: Final = b":"
"""Stands before the outcome of a specimen."""
REJECT: Final = Lua("reject_entry")


class CommitOutcome(StrEnum):
    """The outcome of committing a result."""

    EMITTED = "emitted"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    """Not acknowledged: another entry owns the interaction id."""
    FINISHED_BEFORE = "finished_before"
    """The entry was acknowledged before, by another worker or by an earlier try of the same commit."""


OUTCOMES: Final = {outcome.encode(): outcome for outcome in CommitOutcome}
"""Outcome by the word of the scripts."""


class SessionTurn(NamedTuple):
    """A turn of a session that has not ended."""

    session: str
    """Key of the session."""
    text: bytes
    """The turn as it is stored."""


class LabeledEntry(NamedTuple):
    """An entry with its metric event."""

    entry_id: str
    event: MetricEvent
    traceparent: str = ""
    """Trace context of the event; empty without tracing."""
    target: ResultTarget | None = None
    """What the result is about, for `otel.results`; None if no backend has a span of it."""
    specimen: ProposedSpecimen | None = None
    """The specimen to keep of the interaction."""
    turn: SessionTurn | None = None
    """The interaction as a turn of its session, if a judge may be asked about the session."""


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

R = TypeVar("R", LabeledEntry, RejectedEntry)


class ResultCommitter:
    """Commits the results of one partition by script, and makes dead letters.

    Args:
        streams: keys of the partition.
        consumer: name of the worker, for dead letters.
        dedupe_window_s: seconds for which an interaction id belongs to its entry.
        feedback_window_s: seconds for which the entry id of an event is stored.
        quiet_s: seconds without a turn after which a session has ended.
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
        quiet_s: float = 600.0,
        specimen_outcome: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._consumer = consumer
        self._window_ms = int(dedupe_window_s * 1000)
        self._feedback_ms = int(feedback_window_s * 1000)
        self._quiet_s = quiet_s
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
        labeled = [result for result in results if isinstance(result, LabeledEntry)]
        calls: list[ScriptCall[list[CommitOutcome]]] = [
            reject_entry(self._streams, result) for result in results if isinstance(result, RejectedEntry)
        ]
        if labeled:
            call = deliver_events(
                self._streams,
                labeled,
                dedupe_ms=self._window_ms,
                feedback_ms=self._feedback_ms,
                quiet_s=self._quiet_s,
                specimen_outcome=self._specimen_outcome,
            )
            calls.append(call)
        replies = await run_scripts(self._redis, calls)
        delivered = iter(replies.pop() if labeled else ())
        rejected = (outcome for reply in replies for outcome in reply)
        return [next(delivered if isinstance(result, LabeledEntry) else rejected) for result in results]


def deliver_events(
    streams: Streams,
    results: Sequence[LabeledEntry],
    *,
    dedupe_ms: int,
    feedback_ms: int,
    quiet_s: float = 600.0,
    specimen_outcome: Callable[[str], None] = lambda _: None,
) -> ScriptCall[list[CommitOutcome]]:
    """Return the call that acknowledges entries, adds their metric events, and keeps their turns and specimens.

    Its reply is the outcome of each entry.
    """
    keys = [streams.interactions, streams.metrics, streams.finished, streams.deliveries, streams.rejected]
    keys += [streams.open_sessions, streams.session_sizes, streams.sentinels]
    # Few arguments, because a client takes longer to pack one than Redis to cut a text.
    forms, digests, parts = bytearray(), [], list[Argument]()
    for result in results:
        event = result.event
        digests.append(identity_digest(event.pipeline, event.interaction_id))
        forms.append(FORM + _add_parts(streams, result, keys, parts))
    arguments: list[Argument] = [LABEL_GROUP, dedupe_ms, feedback_ms, *streams.known_id_families]
    arguments += limits_of_turns(quiet_s)
    arguments += (" ".join([result.entry_id for result in results]), b"".join(digests), bytes(forms))
    arguments += [result.event.encode() for result in results]
    return ScriptCall(DELIVER, keys, arguments + parts, partial(_outcomes, specimen_outcome))


def _add_parts(streams: Streams, result: LabeledEntry, keys: list[str], parts: list[Argument]) -> int:
    """Add the keys and arguments that few entries have, and return the sum of their kinds."""
    event, specimen = result.event, result.specimen
    kinds = WHOLE if event.is_session else 0
    if result.traceparent:
        kinds += TRACED
        parts.append(result.traceparent)
    if result.turn is not None:
        kinds += TURN
        keys.append(result.turn.session)
        parts.append(result.turn.text)
    if specimen is not None:
        kinds += KEPT
        keys += specimen_keys(streams, event, specimen)
        parts += (len(specimen.places), *specimen_arguments(streams, event, specimen))
    return kinds


def reject_entry(streams: Streams, result: RejectedEntry) -> ScriptCall[list[CommitOutcome]]:
    """Return the call that acknowledges an entry and adds a dead letter about it."""
    keys = (streams.interactions, streams.dead_letters, streams.finished, streams.deliveries, streams.rejected)
    arguments = (LABEL_GROUP, result.entry_id, result.dead_letter.encode(), int(result.pending))
    return ScriptCall(REJECT, keys, arguments, lambda reply: [OUTCOMES[reply]])


def _outcomes(count: Callable[[str], None], reply: bytes) -> list[CommitOutcome]:
    if KEPT_AS not in reply:
        return [OUTCOMES[word] for word in reply.split(b" ")]
    outcomes = []
    for word in reply.split(b" "):
        outcome, _, specimen = word.partition(KEPT_AS)
        if specimen:
            count(specimen.decode())
        outcomes.append(OUTCOMES[outcome])
    return outcomes


MOST: Final = 200
"""Most results in one round trip, and most that wait for it before labeling pauses."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of interactions whose results wait, above which labeling pauses. An event has no text, so it is smaller."""

FAILED: Final = "failed"
"""Outcome of a try in which the labeler failed, besides the outcomes of entries."""

log = structlog.get_logger("ragtide.worker")

Finished = tuple[StreamEntry, Result]
"""An entry and its result."""


class CommitLoop:
    """Commits results in the order in which they were added: all that wait, as soon as the last commit has ended.

    Args:
        release: called with the entries whose results have been committed.
        attempt: logs an outage of Redis once.
        labeler: returns its name, for the counters.
        emitted: called with the entries of a commit whose metric events were added.
    """

    def __init__(
        self,
        committer: ResultCommitter,
        *,
        release: Callable[[Sequence[StreamEntry]], None],
        attempt: Attempt,
        telemetry: WorkerTelemetry,
        labeler: Callable[[], str],
        heartbeat: Heartbeat,
        emitted: Callable[[Iterable[LabeledEntry]], None],
    ) -> None:
        self._committer = committer
        self._release = release
        self._attempt = attempt
        self._telemetry = telemetry
        self._labeler = labeler
        self._by_labeler: dict[str, dict[str, Counted]] = {}
        self._outcomes()
        self._heartbeat = heartbeat
        self._emitted = emitted
        self._log_limit = LogLimit()
        self._backoff = Backoff()
        self._waiting: list[Finished] = []
        self._waiting_bytes = 0
        self._added = asyncio.Event()
        self._taken = asyncio.Event()
        self._all_committed = asyncio.Event()
        self._all_committed.set()
        self.counts: Counter[str] = Counter()
        """Number of results by outcome."""

    @property
    def full(self) -> bool:
        """Whether so many results wait that no more should be made."""
        return len(self._waiting) >= MOST or self._waiting_bytes >= MOST_BYTES

    def add(self, entry: StreamEntry, result: Result) -> None:
        """Add the result of an entry to be committed."""
        self._waiting.append((entry, result))
        self._waiting_bytes += entry.size_bytes
        if len(self._waiting) == 1:
            self._added.set()
            self._all_committed.clear()

    def _outcomes(self) -> dict[str, Counted]:
        name = self._labeler()
        counters = self._by_labeler.get(name)
        if counters is None:
            counters = self._by_labeler[name] = self._telemetry.outcomes(name, [*CommitOutcome, FAILED])
        return counters

    async def wait_for_room(self) -> None:
        """Wait until fewer results wait."""
        while self.full:
            self._taken.clear()
            await self._taken.wait()

    async def wait_empty(self) -> None:
        """Wait until every result that was added has been committed."""
        await self._all_committed.wait()

    def labeling_failed(self) -> None:
        """Count a try in which the labeler failed."""
        self._outcomes()[FAILED].inc()

    async def run(self) -> None:
        """Commit results until cancelled."""
        while True:
            with self._heartbeat.idle("waiting for results"):
                await self._added.wait()
            batch = self._waiting[:MOST]
            del self._waiting[:MOST]
            if self._waiting:
                self._waiting_bytes -= sum(entry.size_bytes for entry, _ in batch)
            else:
                self._waiting_bytes = 0
                self._added.clear()
            self._taken.set()
            try:
                outcomes = await self._commit([result for _, result in batch])
                for outcome in CommitOutcome:
                    if number := outcomes.count(outcome):
                        self.counts[outcome] += number
                        self._outcomes()[outcome].inc(number)
                if duplicates := self._duplicates(batch, outcomes):
                    await self._commit(duplicates)  # as dead letters; they have been counted
            finally:
                self._release([entry for entry, _ in batch])
                if not self._waiting:
                    self._all_committed.set()

    async def _commit(self, results: Sequence[Result]) -> list[CommitOutcome]:
        while True:
            try:
                outcomes = await self._committer.commit(results)
            except RedisError as error:
                # Safe to repeat: an entry that was acknowledged the first time is not emitted again.
                self._heartbeat.failed(f"committing results fails: {error}")
                self._attempt.failed(error, results=len(results))
                await asyncio.sleep(self._backoff.pause_s())
                continue
            self._backoff.succeeded()
            self._attempt.succeeded()
            break
        self._emitted(_with_outcome(results, outcomes, CommitOutcome.EMITTED, LabeledEntry))
        for result in _with_outcome(results, outcomes, CommitOutcome.REJECTED, RejectedEntry):
            self._report_rejected(result)
        return outcomes

    def _duplicates(self, batch: Sequence[Finished], outcomes: Sequence[CommitOutcome]) -> list[RejectedEntry]:
        return [
            self._committer.rejected(
                entry,
                Reason.DUPLICATE,
                f"another entry of pipeline {result.event.pipeline} already has interaction_id "
                f"{result.event.interaction_id}: give every interaction an id of its own",
                result.event.interaction_id,
            )
            for (entry, result), outcome in zip(batch, outcomes, strict=True)
            if outcome is CommitOutcome.DUPLICATE and isinstance(result, LabeledEntry)
        ]

    def _report_rejected(self, result: RejectedEntry) -> None:
        self._telemetry.dead_letters.labels(str(result.dead_letter.reason)).inc()
        self._log_limit.warning(
            log,
            result.dead_letter.reason,
            "entry rejected: it is a dead letter now, see ragtide dead-letters",
            entry_id=result.entry_id,
            interaction_id=result.interaction_id,
            reason=result.dead_letter.reason,
            detail=without_values(result.dead_letter.detail),
        )


def _with_outcome(
    results: Sequence[Result], outcomes: Sequence[CommitOutcome], wanted: CommitOutcome, kind: type[R]
) -> Iterator[R]:
    if wanted in outcomes:
        for result, outcome in zip(results, outcomes, strict=True):
            if outcome is wanted and isinstance(result, kind):
                yield result
