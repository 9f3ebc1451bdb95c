"""Builds the next step of a partition from all changes, and writes it again and again until Redis answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from time import monotonic, perf_counter
from typing import NamedTuple, Protocol, TypeVar

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import CheckpointField, Streams, workspace_of
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.outages import redis_outage

from ..checkpoint.change_log import ChangeLog
from ..checkpoint.commit import Committer, Step
from ..checkpoint.loading import Checkpoint
from ..state.state import Changes
from .applying import EventApplier, Uncommitted
from .estimates_stream import EstimatesStream
from .pins import SpecimenPins
from .suspected import SuspicionWriter
from .telemetry import AggregatorTelemetry

log = structlog.get_logger("ragtide.aggregator")


T = TypeVar("T")


class WrittenStep(NamedTuple):
    """The size and the duration of a step that was written."""

    keys: int
    """Number of changed keys."""
    seconds: float
    """Seconds to build and write the step, without its estimates and without outages of Redis."""
    write_s: float
    """Seconds of the script alone."""


class CheckpointPart(Protocol):
    """A part of the aggregator that has fields of its own in the checkpoint."""

    def take_changes(self) -> tuple[Mapping[str, bytes], Sequence[str]]:
        """Return fields to write and fields to remove since the last call."""


class Stopping(Protocol):
    """An object that may be asked to stop."""

    def is_set(self) -> bool:
        """Return whether it is to stop."""


class StepWriter:
    """Writes the steps of one partition.

    Args:
        redis: client.
        streams: keys of the partition.
        token: fencing token of the lease.
        checkpoint: the checkpoint to continue from.
        applier: collects the content of a step.
        parts: more parts with fields in the checkpoint.
        telemetry: counts every commit.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        settings: Settings,
        *,
        token: str,
        checkpoint: Checkpoint,
        applier: EventApplier,
        parts: Sequence[CheckpointPart],
        telemetry: AggregatorTelemetry,
    ) -> None:
        self._token = token
        self._confidence = settings.confidence
        self._applier = applier
        self._telemetry = telemetry
        self._partition = streams.partition
        self.pins: SpecimenPins | None = None
        """Pins the specimens that alerts name; None if none are kept."""
        if settings.keeps_specimens:
            self.pins = SpecimenPins(redis, streams, keep_ms=int(settings.specimens.keep_s * 1000))
        self._suspicions: SuspicionWriter | None = None
        if workspace_of(streams.prefix) is None:
            self._suspicions = SuspicionWriter(redis, streams, settings.cascade.reference)
        self._outage = redis_outage(redis).attempt(f"committing partition {streams.partition}")
        self._committer = Committer(
            redis, streams, estimates_cap=settings.estimates_cap, feedback_window_s=settings.feedback_window_s
        )
        # A thread of its own, because labeling in the same process may occupy the threads of the event loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ragtide estimates")
        owed = checkpoint.state.keys if CheckpointField.ESTIMATES_OWED in checkpoint.fields else ()
        self.estimates = EstimatesStream(settings.estimates_interval_s, monotonic(), owed)
        self._parts: tuple[CheckpointPart, ...] = (applier.feedback.pending, applier.seen_ids, self.estimates, *parts)
        self._log = ChangeLog()
        self._names = checkpoint.names
        self._told_history = False
        self.steps = checkpoint.steps
        """Number of steps in the checkpoint."""

    def close(self) -> None:
        """End the thread that builds steps."""
        self._thread.shutdown(wait=False)

    async def compute(self, call: Callable[[], T]) -> T:
        """Return the result of a call that reads the state, made in the thread that builds steps."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def commit(self, stop: Stopping) -> WrittenStep:
        """Write the next step.

        Args:
            stop: while it is set, a failure of Redis is raised; otherwise the step is written again.

        Raises:
            LeaseLostError: another aggregator owns the partition.
            StreamRollbackError: entries that were read are no longer in the stream.
            redis.RedisError: Redis failed while `stop` was set.
        """
        started = perf_counter()
        step, changes, estimates_s = await self._step()
        build_s = perf_counter() - started - estimates_s
        if self.pins is not None and step.alerts:
            pins, raised = self.pins, step.alerts
            step = replace(step, alerts=await self._answered(lambda: pins.naming(raised), stop))
        write_s = await self._write(step, stop)
        self._applier.uncommitted = Uncommitted()
        self._names = None
        self.steps += 1
        if self.pins is not None and step.alerts:
            with suppress(RedisError):  # later rounds release them
                await self.pins.release(step.alerts)
        if self._suspicions is not None:
            await self._suspicions.write()
        if changes.without_history and not self._told_history:
            self._told_history = True
            log.warning(
                "keys have no history: raise history.series_max, or choose fewer history.segments",
                partition=self._partition,
                keys=changes.without_history,
            )
        for alert in changes.alerts:
            log.warning("alert", alert_id=alert.alert_id, status=alert.status, detail=alert.message)
        return WrittenStep(len(changes.keys), build_s + write_s, write_s)

    async def _step(self) -> tuple[Step, Changes, float]:
        feedback, positions, uncommitted = self._applier.feedback, self._applier.positions, self._applier.uncommitted
        feedback.joiner.expire(max(order(position)[0] for position in positions))
        # With many keys this takes seconds, in which the event loop renews the lease and runs other tasks.
        changes, published, estimates_s = await self.compute(self._changes)
        graded, rejected = feedback.take_changes()
        rows, gone = {**changes.rows, **uncommitted.rows}, [*changes.gone]
        for part in self._parts:
            written, removed = part.take_changes()
            rows |= written
            gone += removed
        rows |= self._log.fields(self.steps + 1, positions, changes)
        step = Step(
            before=self.steps,
            position=positions.metrics,
            feedback_position=positions.feedback,
            read=uncommitted.read,
            feedback_read=uncommitted.feedback_read,
            rows=rows,
            gone=gone,
            graded=graded,
            estimates=published,
            alerts=changes.alerts,
            capped=changes.capped,
            closed=changes.closed,
            dead_letters=[*uncommitted.dead_letters, *rejected],
            adds=self._log.adds,
            names=self._names,
        )
        return step, changes, estimates_s

    def _changes(self) -> tuple[Changes, list[bytes], float]:
        state = self._applier.state
        changes = state.take_changes()
        if self._suspicions is not None:
            self._suspicions.look(state, changes.keys)
        self.estimates.changed(changes.keys)
        started = perf_counter()
        published = self.estimates.take(state, confidence=self._confidence)
        return changes, published, perf_counter() - started

    async def _write(self, step: Step, stop: Stopping) -> float:
        async def write() -> float:
            started = perf_counter()
            await self._committer.commit(step, self._token)
            return perf_counter() - started

        # The same step is sent again: the script recognizes a step that is written already.
        took_s = await self._answered(write, stop)
        uncommitted = self._applier.uncommitted
        self._telemetry.committed(
            self._partition, step, seconds=took_s, applied=uncommitted.applied, traces=uncommitted.traces,
            gold=self._applier.feedback.joiner.take_counts(),
        )  # fmt: skip
        return took_s

    async def _answered(self, call: Callable[[], Awaitable[T]], stop: Stopping) -> T:
        backoff = Backoff()
        while True:
            try:
                reply = await call()
            except RedisError as error:
                if stop.is_set():  # the next owner reads the uncommitted entries again
                    raise
                self._telemetry.partition_failed(self._partition, error)
                self._outage.failed(error)
                await asyncio.sleep(backoff.pause_s())
            else:
                self._outage.succeeded()
                return reply
