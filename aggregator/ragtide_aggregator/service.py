"""The aggregator of one partition: reads metric events from its checkpoint on, applies them, commits."""

import asyncio
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import NamedTuple

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.stream_reads import Entry, order, read_after
from ragtide_schemas import (
    DATA_FIELD,
    DeadLetter,
    InvalidEntryError,
    MetricEvent,
    Reason,
    Streams,
    utc_now,
)

from .checkpoint import load_checkpoint
from .commit import Committer, Step
from .errors import LeaseLostError
from .estimates import estimates
from .joining import Joiner
from .lease import Lease
from .observer import Observer
from .state import AggregatorState, StateOptions

RETRY_S = 0.5
"""Seconds before a failed command is tried again."""

log = structlog.get_logger("ragtide.aggregator")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How one aggregator works: batch size, how often it commits, how long its lease is, what it keeps."""

    batch: int
    commit_interval_s: float
    lease_s: float
    estimates_cap: int
    confidence: float
    state: StateOptions
    feedback_window_s: float = 604_800.0


class Positions(NamedTuple):
    """The last entries that were taken of both streams."""

    metrics: str
    feedback: str


class PartitionAggregator:
    """Owns a partition while it holds the lease, and stands by while somebody else does."""

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        options: ServiceOptions,
        *,
        holder: str,
        observer: Observer | None = None,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._options = options
        self._observer = observer or Observer(streams.partition)
        self._lease = Lease(redis, streams, holder=holder, lease_s=options.lease_s)
        self._committer = Committer(
            redis,
            streams,
            lease_s=options.lease_s,
            estimates_cap=options.estimates_cap,
            feedback_window_s=options.feedback_window_s,
        )
        self.events_applied = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop: own the partition when it is free, stand by when it is not."""
        waiting = False
        while not stop.is_set():
            try:
                token = await self._lease.acquire()
                if token is None:
                    if not waiting:
                        log.info(
                            "standing by: another aggregator owns the partition", partition=self._streams.partition
                        )
                    waiting = True
                    self._observer.standing_by()
                    await _wait(stop, min(self._options.lease_s / 4, 1.0))
                    continue
                waiting = False
                try:
                    await self._own(token, stop)
                finally:
                    self._observer.released()
                    await self._lease.release(token)
            except LeaseLostError as error:
                self._observer.released(lost=True)
                log.warning("lease lost", partition=self._streams.partition, detail=str(error))
            except RedisError as error:
                # What was not committed is read again from the checkpoint.
                self._observer.failed(error)
                log.warning("Redis failed, starting again from the checkpoint", error=str(error))
                await _wait(stop, RETRY_S)

    async def _own(self, token: str, stop: asyncio.Event) -> None:
        checkpoint = await load_checkpoint(self._redis, self._streams, self._options.state)
        state = checkpoint.state
        joiner = Joiner(self._redis, self._streams, state, checkpoint.pending, window_s=self._options.feedback_window_s)
        at = Positions(checkpoint.position, checkpoint.feedback_position)
        log.info("owner of the partition", partition=self._streams.partition, position=at.metrics, keys=len(state))
        committed = at
        letters: list[DeadLetter] = []
        next_commit = monotonic() + self._options.commit_interval_s
        next_renewal = monotonic() + self._options.lease_s / 3
        while True:
            due_s = max(next_commit - monotonic(), 0.0) if at != committed else self._options.lease_s / 4
            events, feedback = ([], []) if stop.is_set() else await self._read(at, min(due_s, 0.5))
            self._observer.owning(len(state))
            for entry_id, fields in events:
                self._apply(state, joiner, entry_id, fields, letters)
                at = at._replace(metrics=entry_id)
            if feedback:
                await joiner.take(feedback, at.metrics)
                at = at._replace(feedback=feedback[-1].entry_id)
            now = monotonic()
            if at != committed and (now >= next_commit or stop.is_set()):
                joiner.expire(max(order(position)[0] for position in at))
                await self._commit(state, joiner, letters, token, before=committed, after=at)
                committed, letters = at, []
                next_commit = next_renewal = monotonic()
                next_commit += self._options.commit_interval_s
                next_renewal += self._options.lease_s / 3
            elif now >= next_renewal:
                if not await self._lease.renew(token):
                    raise LeaseLostError(
                        f"the lease of partition {self._streams.partition} ran out: another may own it"
                    )
                next_renewal = now + self._options.lease_s / 3
            if stop.is_set():
                return

    async def _read(self, at: Positions, wait_s: float) -> tuple[list[Entry], list[Entry]]:
        """Return metric events and feedback after the positions."""
        # BLOCK 0 would wait for ever; below a millisecond do not block at all.
        block_ms = int(wait_s * 1000) or None
        positions = {self._streams.metrics: at.metrics, self._streams.feedback: at.feedback}
        found = dict(await read_after(self._redis, positions, count=self._options.batch, block_ms=block_ms))
        return found.get(self._streams.metrics, []), found.get(self._streams.feedback, [])

    def _apply(
        self,
        state: AggregatorState,
        joiner: Joiner,
        entry_id: str,
        fields: dict[bytes, bytes],
        letters: list[DeadLetter],
    ) -> None:
        payload = fields.get(DATA_FIELD, b"")
        try:
            event = _event(fields)
            # The metrics stream's entry says when it was scored.
            state.apply(event, order(entry_id)[0])
        except InvalidEntryError as error:
            text, encoding = DeadLetter.encode_payload(payload)
            letters.append(
                DeadLetter(
                    stream=self._streams.metrics,
                    entry_id=entry_id,
                    reason=error.reason,
                    detail=error.detail,
                    payload=text,
                    payload_encoding=encoding,
                    failed_at=utc_now(),
                    component="aggregator",
                )
            )
            log.warning("metric event refused", entry_id=entry_id, reason=error.reason, detail=error.detail)
        else:
            self.events_applied += 1
            joiner.applied(event)
            self._observer.applied(fields, event)

    async def _commit(
        self,
        state: AggregatorState,
        joiner: Joiner,
        letters: list[DeadLetter],
        token: str,
        *,
        before: Positions,
        after: Positions,
    ) -> None:
        changes = state.take_changes()
        graded, refused = joiner.take_changes()
        held, let_go = joiner.pending.take_changes()
        full = Step(
            before=before.metrics,
            after=after.metrics,
            feedback_before=before.feedback,
            feedback_after=after.feedback,
            rows={**changes.rows, **held},
            gone=[*changes.gone, *let_go],
            graded=graded,
            estimates=estimates(state, keys=changes.keys, confidence=self._options.confidence),
            alerts=changes.alerts,
            dead_letters=[*letters, *refused],
        )
        while True:
            started = perf_counter()
            try:
                await self._committer.commit(full, token)
            except LeaseLostError:
                raise
            except RedisError as error:
                # Sent again as it is: the script finds out whether it had been written.
                self._observer.failed(error)
                log.warning("commit failed, trying again", error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                break
        self._observer.committed(full, perf_counter() - started)
        for alert in changes.alerts:
            log.warning("alert", alert_id=alert.alert_id, status=alert.status, detail=alert.message)


def _event(fields: dict[bytes, bytes]) -> MetricEvent:
    payload = fields.get(DATA_FIELD)
    if payload is None:
        raise InvalidEntryError(
            Reason.MISSING_DATA_FIELD, "the entry has no field data: put the JSON of one metric event into data"
        )
    return MetricEvent.decode(payload)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
