"""One ownership session of an aggregator: its work on a partition, from the checkpoint until the ownership ends."""

import asyncio
import json
from collections.abc import Mapping
from time import monotonic
from typing import Final

import structlog
from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import over_budget
from ragtide_runtime.errors import LeaseLostError, StreamRollbackError
from ragtide_runtime.ownership.ownership import Ownership
from ragtide_runtime.redis.eviction import read_evictions
from ragtide_runtime.redis.keys import CheckpointField, DeliveriesField, Streams, workspace_of
from ragtide_runtime.redis.log import end_at
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now

from ..checkpoint.halving import Halving, StepFailedError, countable
from ..checkpoint.loading import Checkpoint, damaged, load_checkpoint
from ..errors import DamagedFieldError
from ..state.options import StateOptions
from .absent_share import AbsentShares
from .applying import EventApplier, Positions
from .low_traffic import LowTraffic
from .pace import CommitTiming, StepPace
from .pipeline_health import PipelineHealth
from .quality import PartitionQuality, QualityExport, SpendAlerts
from .step_writer import StepWriter
from .telemetry import AggregatorTelemetry
from .ticks import TickedScopes, TickWriter
from .trimming import trim_streams

MAINTENANCE_S = 1.0
"""Seconds between two rounds of trimming streams and checking pipeline health."""

EVICTIONS_S = 10.0
"""Seconds between two counts of the keys that Redis evicted."""

RELEASE_S = 600.0
"""Seconds between two rounds of releasing the specimens of alerts that do not fire."""

LONGEST_WAIT_S = 0.5
"""Most seconds that a read waits for entries."""

CHANGED: Final[Mapping[str, str]] = {
    DeliveriesField.SET_BACK: "another client set the group of the workers back or removed it: nothing counts twice",
    DeliveriesField.RESCUED: "entries had left the group of the workers unfinished: they are delivered again",
    DeliveriesField.DELETED: "another client deleted interactions from their stream",
    DeliveriesField.REPLACED: "the stream of interactions was deleted or replaced by an older copy",
}
"""The log line for each change that another client made to the stream of interactions."""

log = structlog.get_logger("ragtide.aggregator")


class SessionStop:
    """Ends a session: because its ownership ends, or because another session is to continue."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self.ends = False
        """Whether the session alone ends."""

    def is_set(self) -> bool:
        """Return whether the session is to end."""
        return self.ends or self._ownership.stop.is_set()


class PartitionSession:
    """Reads, applies and commits the entries of a partition, and trims its streams.

    Args:
        redis: client.
        settings: when the session begins.
        checkpoint: the state and the positions to continue from.
        pace: of the partition, which outlives a session.
        halving: the entries that its steps may take.
        ticked: scopes for which ticks were appended.
    """

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        ownership: Ownership,
        checkpoint: Checkpoint,
        *,
        telemetry: AggregatorTelemetry,
        pace: StepPace,
        halving: Halving,
        ticked: TickedScopes,
    ) -> None:
        (streams,) = ownership.streams
        self._redis = redis
        self._streams: Streams = streams
        self.settings = settings
        self._ownership = ownership
        self._telemetry = telemetry
        self._pace = pace
        self._halving = halving
        self._applier = EventApplier(
            redis,
            streams,
            checkpoint,
            feedback_window_s=settings.feedback_window_s,
            pace=pace,
            halving=halving,
        )
        self._health = PipelineHealth.from_fields(settings.stall, streams.partition, checkpoint.fields)
        self._absences = AbsentShares.from_fields(settings.stall.absent_share, streams.partition, checkpoint.fields)
        self._traffic = LowTraffic.from_fields(
            settings.stall.low_traffic, streams.partition, checkpoint.fields, split=settings.splits
        )
        self._writer = StepWriter(
            redis,
            streams,
            settings,
            token=ownership.tokens[streams.partition],
            checkpoint=checkpoint,
            applier=self._applier,
            parts=(self._health, self._absences, self._traffic),
            telemetry=telemetry,
        )
        self._ticks = TickWriter(redis, streams, ownership.tokens[streams.partition], ticked)
        self._quality = None
        if settings.is_scraped:
            self._quality = QualityExport(
                streams.partition, settings.prometheus, confidence=settings.confidence, now_s=monotonic()
            )
        self._spend = SpendAlerts(redis, streams, settings.accounts if settings.is_scraped else ())
        self._committed = self._applier.positions
        self._stop = SessionStop(ownership)
        self._release_at = self._evictions_at = monotonic()

    @property
    def events_applied(self) -> int:
        """Metric events that were applied."""
        return self._applier.events_applied

    def end(self) -> None:
        """Make `run` end soon, as at a stop; the ownership continues."""
        self._stop.ends = True

    @classmethod
    async def begin(
        cls,
        redis: Redis,
        settings: Settings,
        state: StateOptions,
        ownership: Ownership,
        *,
        telemetry: AggregatorTelemetry,
        pace: StepPace,
        halving: Halving,
        ticked: TickedScopes,
    ) -> "PartitionSession":
        """Return a session that continues from the checkpoint.

        Raises:
            CheckpointError: another version of ragtide wrote the checkpoint.
        """
        (streams,) = ownership.streams
        options = state.of_partition(streams.partition, split=bool(settings.splits))
        checkpoint = await load_checkpoint(redis, streams, options, owned=True)
        try:
            session = cls(
                redis, settings, ownership, checkpoint, telemetry=telemetry, pace=pace, halving=halving, ticked=ticked
            )
        except DamagedFieldError as error:
            raise damaged(streams, error) from None
        if pace.begins(checkpoint.steps):
            log.warning(
                "a step took longer than the lease: the next steps are smaller",
                partition=streams.partition,
                batch=pace.batch,
            )
        await session._continue_from(checkpoint)
        return session

    async def _continue_from(self, checkpoint: Checkpoint) -> None:
        applier = self._applier
        ends = await self._ends()
        if ends != applier.positions:
            earlier = json.loads(checkpoint.fields.get(CheckpointField.STREAM_ROLLBACK, b"{}"))
            record = {
                "times": earlier.get("times", 0) + 1,
                "at": utc_now().isoformat(),
                "from": list(applier.positions),
                "to": list(ends),
            }
            log.error(
                "a stream ends before the checkpoint: Redis lost its end; continuing from the last entry",
                partition=self._streams.partition,
                **record,
            )
            applier.uncommitted.rows[CheckpointField.STREAM_ROLLBACK] = json.dumps(record).encode()
            # Events that were counted before the rollback are not counted again.
            applier.positions, applier.guarded = ends, True
        if self._halving.part is None:
            log.info(
                "aggregating a partition",
                partition=self._streams.partition,
                position=applier.positions.metrics,
                keys=len(applier.state),
            )

    async def run(self) -> None:
        """Serve until the session is to end, then commit everything that was applied.

        Raises:
            LeaseLostError: another aggregator owns the partition.
            StreamRollbackError: Redis lost entries that were read; begin again from the checkpoint.
            StepFailedError: an entry cannot be counted; begin again from the checkpoint, in halves.
            redis.RedisError: Redis failed; begin again from the checkpoint.
        """
        try:
            # Any access to the state may fail because of an entry, because queued events are applied late.
            with countable(lambda: self._applier.taken):
                await self._serve(self._stop)
        except StepFailedError:
            self._applier.events_applied -= self._applier.uncommitted.applied
            raise
        except LeaseLostError:
            self._pace.fenced(self._writer.steps)
            raise
        finally:
            self._writer.close()

    async def _serve(self, stop: "SessionStop") -> None:
        settings, applier = self.settings, self._applier
        timing = CommitTiming(settings.commit_interval_s, now=monotonic())
        behind = False
        if not stop.is_set():
            await self._maintain()
        maintenance_at = monotonic() + MAINTENANCE_S
        while True:
            self._ownership.check()
            if self._dirty and not stop.is_set():
                await asyncio.sleep(timing.gather_s(monotonic(), behind=behind))
            behind = False
            if not stop.is_set():
                wait_s = timing.wait_s(monotonic()) if self._uncommitted(stop) else self._longest_wait_s
                part = self._halving.part
                behind = await applier.take(min(wait_s, LONGEST_WAIT_S))
                if part is not None and not self._dirty:
                    self._halving.passed(part.count)
                self._telemetry.serving(self._streams.partition, applier.state.n_applied_keys)
            now = monotonic()
            due = timing.is_due(now, behind=behind)
            if self._uncommitted(stop) and (due or applier.full or self._halving.part or stop.is_set()):
                await self._commit(stop)
                took_s = monotonic() - now
                timing.committed(monotonic(), took_s=took_s, longest_pause_s=self._pace.step_s, behind=behind)
            if now >= maintenance_at and not stop.is_set():  # after the commit, which the estimates wait for
                await self._maintain()
                maintenance_at = now + MAINTENANCE_S
            if stop.is_set() and not self._uncommitted(stop):
                return
            if not self._dirty:
                await self._publish_quality()

    @property
    def _longest_wait_s(self) -> float:
        """Seconds that a read may wait while nothing is to be committed."""
        return 0.0 if self._quality is not None and self._quality.has_begun else self.settings.lease_s / 4

    @property
    def _dirty(self) -> bool:
        return self._applier.uncommitted.any or self._applier.state.book.changed

    def _uncommitted(self, stop: "SessionStop") -> bool:
        return self._writer.estimates.is_due(monotonic(), last=stop.is_set()) or self._dirty

    async def _maintain(self) -> None:
        if await self._ends() != self._applier.positions:
            raise StreamRollbackError(
                f"partition {self._streams.partition} has streams that end before "
                f"{self._applier.positions.metrics}, which was read: "
                "Redis came back without its last writes; the streams are read again from the checkpoint"
            )
        if self._writer.pins is not None and monotonic() >= self._release_at:
            await self._writer.pins.release_others({alert.alert_id for alert in self._applier.state.firing()})
            self._release_at = monotonic() + RELEASE_S
        status = await run_script(self._redis, trim_streams(self._streams, self.settings, *self._committed))
        for what, number in status.changes.items():
            log.warning(
                CHANGED[what], partition=self._streams.partition, stream=self._streams.interactions, number=number
            )
        self._pace.lags(status.lag_s(self._applier.positions.metrics))
        if await self._spend.read() and self._quality is not None:
            self._quality.changed()
        lag_s, state = status.lag_s(self._applier.positions.metrics), self._applier.state
        # Of several evaluators only some may have reached a limit, so labeling may be behind for another reason.
        over = not self.settings.evaluators and await over_budget(
            self._redis, self._streams.prefix, self.settings.labeler
        )
        self._health.check(status, state.book, is_over_budget=over)
        if monotonic() >= self._evictions_at:
            self._evictions_at = monotonic() + EVICTIONS_S
            if evictions := await read_evictions(self._redis, self._streams.checkpoint):
                new = self._health.count_evictions(evictions, status, state.book)
                self._telemetry.evicted(self._streams.partition, new)
        self._absences.check(status.now_ms, state)
        caught_up = status.oldest_waiting_ms is None and not lag_s
        self._traffic.check(status.now_ms, state, caught_up=caught_up)
        # A search for an entry that cannot be counted reads one stream alone.
        # A workspace labels recorded answers at a speed of its own, where a pause is no silence of users.
        is_live = workspace_of(self._streams.prefix) is None
        if is_live and not lag_s and self._halving.part is None:
            await self._ticks.append(state, self._applier.positions, status.scored_until_ms)

    async def _commit(self, stop: "SessionStop") -> None:
        taken, positions = self._applier.taken, self._applier.positions
        written = await self._writer.commit(stop)
        self._halving.passed(taken.metrics + taken.feedback)
        self._pace.committed(written.keys, seconds=written.seconds, write_s=written.write_s)
        self._committed = positions
        if self._quality is not None:
            self._quality.changed()

    async def _publish_quality(self) -> None:
        quality, started = self._quality, monotonic()
        if quality is None or not quality.is_due(started):
            return
        state = self._applier.state

        spend = self._spend.alerts

        def compute() -> PartitionQuality | None:
            return quality.compute(state, [*state.firing(), *spend])

        samples = await self._writer.compute(compute)
        if samples is not None:
            self._telemetry.quality.publish(self._streams.partition, samples, lambda: self._ownership.certain)
        quality.turned(monotonic(), monotonic() - started)

    async def _ends(self) -> Positions:
        at, streams = self._applier.positions, self._streams
        return Positions(
            await end_at(self._redis, streams.metrics, at.metrics),
            await end_at(self._redis, streams.feedback, at.feedback),
        )
