"""Reads the metrics and feedback streams of a partition, and applies their entries to its state."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import NamedTuple

import structlog
from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Entry, order, payload_of, raw_of
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.log import ReadSize, read_after
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.tracing import attributes_of, traceparent_of
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, Reason
from ragtide_schemas.dead_letter import without_values

from ..checkpoint.halving import Halving, TakenEntries
from ..checkpoint.loading import Checkpoint
from .feedback_reader import FeedbackReader
from .pace import StepPace
from .seen_ids import SeenIds
from .telemetry import EventTrace

SLICE_S = 0.05
"""Seconds of applying after which other tasks of the event loop may run."""

EVENTS_AT_ONCE = 64
"""Most events that are applied before the clock and the size of the step are looked at."""

log = structlog.get_logger("ragtide.aggregator")


class Positions(NamedTuple):
    """The last entries that were taken from the two streams of a partition."""

    metrics: str
    feedback: str


@dataclass(slots=True)
class Uncommitted:
    """The content of the next step that is not in the state."""

    dead_letters: list[DeadLetter] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """Last metric event of every read."""
    feedback_read: list[str] = field(default_factory=list)
    """Last feedback of every read."""
    rows: dict[str, bytes] = field(default_factory=dict)
    metrics: int = 0
    """Number of metric events that were taken."""
    feedback: int = 0
    """Number of entries of feedback that were taken."""
    applied: int = 0
    """Number of metric events that were taken and count in the state."""
    traces: list[EventTrace] = field(default_factory=list)
    last: str = ""
    """Id of the last metric event that was taken or, without one, of the last feedback."""

    @property
    def any(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.metrics or self.feedback or self.rows)


class EventApplier:
    """Applies metric events and feedback to the state of a partition, and collects the next step.

    Args:
        redis: client.
        streams: keys of the partition.
        checkpoint: the state and the positions to continue from.
        feedback_window_s: seconds for which feedback waits for its metric event.
        pace: most events and changed keys of a step.
        halving: the entries that a step may take, while it searches for an entry that the state cannot take.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        checkpoint: Checkpoint,
        *,
        feedback_window_s: float,
        pace: StepPace,
        halving: Halving,
    ) -> None:
        self._redis = redis
        self._streams = streams
        self._pace = pace
        self._halving = halving
        self._read_size = ReadSize(redis)
        self._log_limit = LogLimit()
        self.state = checkpoint.state
        self.feedback = FeedbackReader(redis, streams, self.state, checkpoint.pending, window_s=feedback_window_s)
        self.seen_ids = SeenIds.from_fields(checkpoint.fields)
        self.positions = Positions(checkpoint.position, checkpoint.feedback_position)
        self.uncommitted = Uncommitted()
        self.guarded = CheckpointField.STREAM_ROLLBACK in checkpoint.fields
        """Whether a stream was rolled back once, so that an event may come a second time."""
        self.events_applied = 0

    @property
    def full(self) -> bool:
        """Whether the next step has as many changed keys as a commit may take."""
        return self.state.has_changed(self._pace.keys)

    @property
    def taken(self) -> TakenEntries:
        """The entries of the next step."""
        step = self.uncommitted
        return TakenEntries(step.metrics, step.feedback, step.last, tuple(self.feedback.joiner.waited))

    async def take(self, wait_s: float) -> bool:
        """Read and apply metric events and feedback after the positions, and return whether there may be more."""
        part = self._halving.part
        # BLOCK 0 waits for ever, so a wait below a millisecond does not block.
        block_ms = None if part is not None else int(wait_s * 1000) or None
        positions = {self._streams.metrics: self.positions.metrics, self._streams.feedback: self.positions.feedback}
        if part is None:
            count = await self._read_size.next(positions, self._pace.batch)
        else:
            read = self._streams.metrics if part.source == "metrics" else self._streams.feedback
            positions, count = {read: positions[read]}, part.count
            self.feedback.joiner.culprits = dict.fromkeys(part.refused, self._blame())
        entries = dict(await read_after(self._redis, positions, count=count, block_ms=block_ms))
        events, feedback = (entries.get(stream, []) for stream in (self._streams.metrics, self._streams.feedback))
        if events:
            last = await self.apply_events(events)
            self.positions = self.positions._replace(metrics=last)
            self.uncommitted.read.append(last)
        if feedback:
            last = feedback[-1].entry_id
            self.uncommitted.feedback += len(feedback)
            if not self.uncommitted.metrics:
                self.uncommitted.last = last
            await self.feedback.take(feedback, self.positions.metrics)
            self.positions = self.positions._replace(feedback=last)
            self.uncommitted.feedback_read.append(last)
        return part is not None or max(len(events), len(feedback)) == count

    async def apply_events(self, events: Sequence[Entry]) -> str:
        """Apply at least one event, until the step is full, and return the id of the last event that was applied.

        The remaining events are read again after the commit. Other tasks of the event loop run in between.
        """
        begun = turned = monotonic()
        # Few events at once may change too many keys, if there is only room for few keys.
        at_once = min(max(self._pace.keys // EVENTS_AT_ONCE, 1), EVENTS_AT_ONCE)
        for start in range(0, len(events), at_once):
            some = events[start : start + at_once]
            self._apply(some)
            now = monotonic()
            if self.full or now - begun > self._pace.step_s:
                return some[-1].entry_id
            if now - turned > SLICE_S:
                await asyncio.sleep(0)
                turned = monotonic()
        return events[-1].entry_id

    def _apply(self, entries: Sequence[Entry]) -> None:
        """Apply events, and make those that cannot be counted dead letters."""
        step, part, applied = self.uncommitted, self._halving.part, 0
        step.metrics, step.last = step.metrics + len(entries), entries[-1].entry_id
        for entry in entries:
            try:
                event = MetricEvent.decode(payload_of(entry.fields, "metric event"))
                if part is not None and entry.entry_id in part.refused:
                    raise InvalidEntryError(Reason.NOT_AGGREGATABLE, self._blame())  # noqa: TRY301 - rejected like others
                if self.guarded and (event.pipeline, event.interaction_id) in self.seen_ids:
                    log.warning(
                        "an interaction that was counted before the stream rollback is not counted again",
                        interaction_id=event.interaction_id,
                        entry_id=entry.entry_id,
                    )
                    continue
                # The entry id holds the time of scoring.
                self.state.apply(event, order(entry.entry_id)[0])
            except InvalidEntryError as error:
                self._reject(entry, error)
                continue
            if event.is_tick:  # it is of no interaction
                continue
            applied += 1
            self.seen_ids.add(event.pipeline, event.interaction_id)
            self.feedback.joiner.applied(entry.entry_id, event)
            if traceparent := traceparent_of(entry.fields):
                step.traces.append((traceparent, attributes_of(event), time_ns()))
        self.events_applied += applied
        step.applied += applied

    def _blame(self) -> str:
        return (
            f"the aggregator cannot count it ({self._halving.reason}), so no estimate includes it: correct it and "
            "publish it again"
        )

    def _reject(self, entry: Entry, error: InvalidEntryError) -> None:
        self.uncommitted.dead_letters.append(
            DeadLetter.of(
                raw_of(entry.fields),
                stream=self._streams.metrics,
                entry_id=entry.entry_id,
                reason=error.reason,
                detail=error.detail,
                component="aggregator",
            )
        )
        self._log_limit.warning(
            log,
            error.reason,
            "metric event rejected: it is a dead letter now, see ragtide dead-letters",
            entry_id=entry.entry_id,
            reason=error.reason,
            detail=without_values(error.detail),
        )
