"""The label worker of a partition: it turns each entry into exactly one metric event or dead letter."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter
from typing import Final

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.processes.user_code import error_text
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.keys import Streams, awaited_labeler, awaiting_consumer
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.logs import say_entry
from ragtide_runtime.telemetry.outages import Outage
from ragtide_runtime.telemetry.tracing import TracedSpan, are_recorded, attributes_of, traced, traceparent_of
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import MetricEvent, RagInteraction, Reason, utc_now
from ragtide_schemas.declared import DECLARED_MAX

from ..labelers.event import METRICS_LEFT_OUT, labeling_failed, metric_event
from ..labelers.protocol import Labeling, SampleUnavailable, criteria_of
from ..specimens.keeping import ProposedSpecimen, SpecimenKeeper
from ..specimens.lists import ListPlace
from .claims import ClaimRenewer, Reclaimer
from .reading import InteractionReader, RejectedError
from .result_export import ResultExport
from .result_target import ResultTarget, target_of
from .results import FAILED, CommitLoop, LabeledEntry, Result, ResultCommitter, StreamEntry
from .sessions import WorkerSessions
from .telemetry import WorkerTelemetry
from .waiting import EXCLUSIVE_ATTEMPTS, Backpressure, ExclusiveExecution, Patience, RetryBudget

log = structlog.get_logger("ragtide.worker")


FORGET_S: Final = 3600.0
"""Seconds of silence after which a worker without entries is removed from the consumer group."""

TURN_S: Final = 0.01
"""Seconds of labeling without a wait after which the lanes give the event loop a turn, to commit results."""

TURN_STEPS: Final = 4
"""Steps of the event loop in a turn: as many as it takes to read the reply of a commit and to send the next one."""


class _DeliverAgainError(Exception):
    """An entry is delivered again when it has been idle for long enough."""


class WantedCovariates:
    """The covariates to compute, which change with the alert rules."""

    def __init__(self, settings: Settings) -> None:
        self.names: Sequence[str] = settings.computed_covariates

    def take_rules(self, settings: Settings) -> None:
        """Compute those of other settings from now on."""
        self.names = settings.computed_covariates


@dataclass(frozen=True, slots=True)
class WorkerHooks:
    """What happens beside the life of an entry, if the settings ask for it. It raises no error, changes no score."""

    specimens: SpecimenKeeper | None = None
    export: ResultExport | None = None
    covariates: WantedCovariates | None = None
    """The covariates to compute; None computes those of the settings."""

    @property
    def exports(self) -> bool:
        """Whether results are exported."""
        return self.export is not None

    async def target(
        self, interaction: RagInteraction, parent: str, labeling: Labeling, event: MetricEvent
    ) -> ResultTarget | None:
        """Return what the result is about; None if none is exported, or no backend has a span of it."""
        if self.export is None:
            return None
        return await self.export.target(interaction, parent, labeling, event)

    def places(self, interaction: RagInteraction, event: MetricEvent) -> Sequence[ListPlace]:
        """Return the places for which an interaction may be kept; most have none."""
        return () if self.specimens is None else self.specimens.places(interaction, event)

    async def specimen(
        self,
        interaction: RagInteraction,
        labeling: Labeling,
        event: MetricEvent,
        places: Sequence[ListPlace],
        parent: str,
    ) -> ProposedSpecimen | None:
        """Return the specimen to keep of an interaction that has places; None if it cannot be made."""
        if self.specimens is None:
            return None
        trace = target_of(interaction, parent) or parent
        trace_id = trace.split("-")[1] if trace else None
        return await self.specimens.proposed(interaction, labeling, event, places, trace_id=trace_id)

    def emitted(self, labeled: Iterable[LabeledEntry]) -> None:
        """Export results that were committed."""
        if self.export is not None:
            for result in labeled:
                self.export.emit(result.event, result.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What the label workers of a process share."""

    redis: Redis
    settings: Settings
    patience: Patience
    """Calls the labeler."""
    consumer: str
    """Name in the consumer group."""
    claims: ClaimRenewer
    telemetry: WorkerTelemetry
    outage: Outage
    """Of Redis."""
    hooks: WorkerHooks = WorkerHooks()


class LabelWorker:
    """Labels the entries of one partition with bounded concurrency.

    `take` queues entries. Lanes, at most `worker_concurrency` tasks, take them from the queue one after the other.
    Another lane is opened only when the open lanes wait for their labelers, so a labeler that never waits costs one
    task for many entries. `take` returns when the work on all entries has started, so that a slow entry does not delay
    the next read. Results are committed together (`CommitLoop`). `_work` is the life of an entry.
    """

    def __init__(self, parts: WorkerParts, streams: Streams) -> None:
        redis, settings, telemetry = parts.redis, parts.settings, parts.telemetry
        self._settings = settings
        self._streams = streams
        self._hooks = parts.hooks
        self._covariates = parts.hooks.covariates or WantedCovariates(settings)
        self._patience = parts.patience
        self._labeler = parts.patience.labeler
        self._reader = InteractionReader(UserIds.of(settings), telemetry)
        self._claims = parts.claims
        self._telemetry = telemetry
        committing, counting, self._reclaiming = (
            parts.outage.attempt(f"{doing} of partition {streams.partition}")
            for doing in ("committing results", "counting metric events", "taking over abandoned entries")
        )
        self._log_limit = LogLimit()
        # Bound once, because the module's logger is bound anew for each line, even for one that is not written.
        self._log = log.bind()
        self.heartbeats = {
            loop: Heartbeat(f"partition {streams.partition}, {loop}")
            for loop in ("committing", "backpressure", "reclaiming", "sessions", "claims")
        }
        """The heartbeat of each loop, by its name."""
        self._committer = ResultCommitter(
            redis,
            streams,
            consumer=parts.consumer,
            dedupe_window_s=settings.dedupe_window_s,
            feedback_window_s=settings.feedback_window_s,
            quiet_s=settings.clusters.quiet_s,
            specimen_outcome=telemetry.specimen,
        )
        self._results = CommitLoop(
            self._committer,
            release=self._release,
            attempt=committing,
            telemetry=telemetry,
            labeler=lambda: self._labeler.name,
            heartbeat=self.heartbeats["committing"],
            emitted=parts.hooks.emitted,
        )
        self._reclaimer = Reclaimer(redis, streams, consumer=parts.consumer, min_idle_s=settings.worker_min_idle_s)
        self._pause_s = min(settings.worker_min_idle_s / 3, 5.0)
        self._sessions = WorkerSessions(
            redis,
            streams,
            settings,
            criteria=lambda: criteria_of(self._labeler),
            heartbeat=self.heartbeats["sessions"],
            attempt=parts.outage.attempt(f"ending sessions of partition {streams.partition}"),
        )
        self._execution = ExclusiveExecution()
        self._retry_budget = RetryBudget(redis, streams)
        # The cap has extra room for aggregated metric events, which stay in the stream but do not wait.
        self._backpressure = Backpressure(
            redis,
            streams,
            cap=settings.events_cap + settings.events_keep,
            heartbeat=self.heartbeats["backpressure"],
            attempt=counting,
        )
        self._queue: deque[StreamEntry] = deque()
        """Entries that were taken and wait for a lane."""
        self._lanes: set[asyncio.Task[None]] = set()
        self._lane_is_free = asyncio.Event()
        """Set when the queue is empty or a lane ended."""
        self._in_turn = 0
        """Number of lanes that do not wait for their labelers, and only gave the event loop a turn."""
        self._waits = True
        """Whether the labeler waited for the last entries, so that they needed more than one lane."""
        self._working: set[str] = set()
        """Entries in work, until their results have been committed."""
        self._tracing = False
        """Whether spans are recorded; asked once for each batch of entries."""
        self._cut_off: list[str] = []
        """Entries whose labeling ended with the worker."""
        telemetry.in_work[self] = self._working
        self._due: dict[str, float] = {}
        """Monotonic time from which one of the entries that wait for a labeler is tried, to see whether it is available
        again, by its name. Of a labeler without one all are tried, because none is known to be in vain."""
        self.loops: list[asyncio.Task[None]] = []
        """Tasks that run until `stop`; a task that ends before has failed."""

    def start(self) -> None:
        """Start to commit results, renew claims, end sessions, and take over abandoned entries."""
        # The turns of a loop show the claims thread that the event loop is alive.
        counting = self._backpressure.run(self._pause_s, self._claims.event_loop_ran)
        loops = (self._results.run(), counting, self._reclaim_loop(), self._sessions.run(self._pause_s))
        self.loops = [asyncio.create_task(loop) for loop in loops]
        self._claims.add(self._streams, self._entry_ids, self.heartbeats["claims"])

    def _entry_ids(self) -> list[str]:
        return [*self._working.copy(), *(entry.entry_id for entry in self._queue.copy())]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of committed results by outcome."""
        return self._results.counts

    @property
    def paused(self) -> bool:
        """Whether labeling waits, because too many metric events wait for an aggregator."""
        return self._backpressure.paused

    def most(self) -> int:
        """Return the most entries of the next read: not more than lanes while the labeler waits, as others may be free.

        A labeler that does not wait has labeled a read before another worker could take a part of it.
        """
        return self._settings.worker_concurrency if self._waits else self._settings.worker_batch

    async def stop(self, grace_s: float = 10.0) -> None:
        """Finish the entries in work, at most for the grace time; release the others for another worker."""
        if not self.loops:  # the start failed: still finish the entries that were taken before
            self.start()
        committing, counting, reclaiming, sessions = self.loops
        await end(reclaiming)
        await end(sessions)
        unfinished: set[asyncio.Task[None]] = set()
        if self._lanes:
            _, unfinished = await asyncio.wait(self._lanes, timeout=grace_s)
        for lane in unfinished:
            await end(lane)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._results.wait_empty(), grace_s)
        await end(committing)
        await end(counting)
        await asyncio.to_thread(self._claims.remove, self._streams)
        self._working.clear()
        self._telemetry.in_work.pop(self, None)
        released = 0
        # Entries outside `_cut_off` were only read, so `release_pending` uncounts their delivery. An entry that waits
        # for an unavailable labeler is in it, because its delivery was uncounted before the wait.
        # Entries that FastStream has read and not passed on are also pending for this worker: release them too.
        with suppress(RedisError):
            released = await self._reclaimer.release_pending(self._cut_off)
            await self._reclaimer.leave()
        log.info("worker stopped", partition=self._streams.partition, released=released, **self.counts)

    async def take(self, entries: Sequence[StreamEntry]) -> None:
        """Start work on entries; wait for a lane for each, and for room for metric events."""
        # An entry that this worker reclaimed while working on it needs no lane. Its own lane may be the only one, and
        # its labeler may be unavailable for hours.
        in_work = [entry for entry in entries if entry.entry_id in self._working]
        await self._uncount(*in_work)
        self._queue.extend(entry for entry in entries if entry.entry_id not in self._working)
        self._tracing = are_recorded()
        self._waits = bool(self._lanes)
        try:
            while self._queue:
                await self._backpressure.wait_for_room()
                await self._results.wait_for_room()
                if self._in_turn:
                    await asyncio.sleep(0)
                    continue
                self._waits = self._waits or bool(self._lanes)
                if len(self._lanes) < self._settings.worker_concurrency:
                    lane = asyncio.create_task(self._lane())
                    self._lanes.add(lane)
                    lane.add_done_callback(self._close_lane)
                    await asyncio.sleep(0)  # a lane whose labeler does not wait takes all entries now
                else:
                    self._lane_is_free.clear()
                    await self._lane_is_free.wait()
        finally:
            # The worker stops. An entry that it holds itself is released by `release_pending`.
            untried = [entry for entry in self._queue if entry.awaiting]
            self._queue.clear()
            self._reader.forget()
            await self._uncount(*untried)

    def _close_lane(self, lane: asyncio.Task[None]) -> None:
        self._lanes.discard(lane)
        self._lane_is_free.set()

    async def _lane(self) -> None:
        turn_began = perf_counter()
        while self._queue and not (self._backpressure.paused or self._results.full):
            if perf_counter() - turn_began > TURN_S / len(self._lanes):
                self._in_turn += 1
                try:
                    for _ in range(TURN_STEPS):
                        await asyncio.sleep(0)
                finally:
                    self._in_turn -= 1
                turn_began = perf_counter()
                continue
            entry = self._queue.popleft()
            if not self._queue:
                self._lane_is_free.set()
            if entry.entry_id in self._working:  # reclaimed meanwhile
                await self._uncount(entry)
            else:
                await self._work(entry)

    async def _work(self, entry: StreamEntry) -> None:
        """The life of an entry, from its lane to its result.

        1. It waits for its turn: beside other entries, or alone if it may have crashed workers.
        2. It is read. What cannot be read becomes a dead letter.
        3. The labeler scores it, as long as that takes: an unavailable labeler is waited for.
        4. The scores become a metric event; a failure is delivered again, and after the last delivery a dead letter.
        5. A specimen is made of the few interactions that are kept.
        6. The result waits to be committed. The commit loop reports an event that was added.
        """
        self._working.add(entry.entry_id)
        say_entry(entry_id=entry.entry_id)
        result: Result | None = None
        try:
            if entry.deliveries <= self._settings.max_deliveries:  # 1.
                if self._execution.is_exclusive:
                    await self._execution.wait_while_exclusive()
                self._execution.begin_shared()
                try:
                    result = await self._result(entry)
                finally:
                    self._execution.end_shared()
            else:
                async with self._execute_alone(entry):
                    result = await self._result(entry)
        except RejectedError as rejected:
            result = self._committer.rejected(entry, rejected.reason, rejected.detail, rejected.interaction_id)
        except _DeliverAgainError:
            pass
        except asyncio.CancelledError:
            self._cut_off.append(entry.entry_id)
            self._release([entry])
            raise
        except Exception:
            # A bug in ragtide: the entry stays pending, and becomes a dead letter after its last delivery.
            log.exception("working on an entry failed; it will be delivered again", entry_id=entry.entry_id)
        if result is None:
            self._release([entry])
        else:
            self._results.add(entry, result)  # 6.

    async def _result(self, entry: StreamEntry) -> LabeledEntry:
        alone = entry.deliveries > self._settings.max_deliveries
        interaction = self._reader.read(entry, () if alone else self._queue)  # 2.
        say_entry(entry_id=entry.entry_id, interaction_id=interaction.interaction_id, pipeline=interaction.pipeline)
        parent = traceparent_of(entry.fields)
        if not self._tracing:
            return await self._label_entry(entry, interaction, parent, TracedSpan(None, parent))
        attributes = {**attributes_of(interaction), "ragtide.labeler": self._labeler.name}
        with traced("ragtide label", "CONSUMER", attributes, parent=parent) as span:
            return await self._label_entry(entry, interaction, parent, span)

    async def _label_entry(
        self, entry: StreamEntry, interaction: RagInteraction, parent: str, span: TracedSpan
    ) -> LabeledEntry:
        labeling, event = await self._score(entry, interaction, span)  # 3., 4.
        specimen = None
        if places := self._hooks.places(interaction, event):
            specimen = await self._hooks.specimen(interaction, labeling, event, places, parent)  # 5.
        target = None
        if self._hooks.exports:
            target = await self._hooks.target(interaction, parent, labeling, event)
        turn = self._sessions.turn(interaction)
        return LabeledEntry(entry.entry_id, event, span.traceparent, target, specimen, turn)

    def _release(self, entries: Sequence[StreamEntry]) -> None:
        self._working.difference_update([entry.entry_id for entry in entries])

    @asynccontextmanager
    async def _execute_alone(self, entry: StreamEntry) -> AsyncIterator[None]:
        async with self._execution.exclusive():
            # Commit finished results first: this entry may crash the worker.
            await self._results.wait_empty()
            if not await self._retry_budget.spend(entry.entry_id):
                raise RejectedError(
                    Reason.TOO_MANY_DELIVERIES,
                    f"the entry was delivered {entry.deliveries} times and labeled alone {EXCLUSIVE_ATTEMPTS} times, "
                    "and no worker finished it: look for worker crashes at these times, then retry it",
                )
            log.warning(
                "labeling an entry alone: it may have crashed workers",
                entry_id=entry.entry_id,
                deliveries=entry.deliveries,
            )
            yield

    async def _score(
        self, entry: StreamEntry, interaction: RagInteraction, span: TracedSpan
    ) -> tuple[Labeling, MetricEvent]:
        try:
            timed = await self._patience.label(interaction, before_waiting=partial(self._uncount_waiting, entry))
            event = metric_event(
                interaction,
                timed.by,
                timed.labeling,
                labeled_at=utc_now(),
                latency_s=timed.latency_s,
                entry_id=entry.entry_id,
                covariates=self._covariates.names,
            )
        except SampleUnavailable as error:
            self._due[error.labeler] = monotonic() + self._patience.wait_s(error)
            is_turn = self._sessions.turn(interaction) is not None
            holder = awaiting_consumer(error.labeler, is_turn=is_turn, is_over_budget=error.is_over_budget)
            await self._uncount_waiting(entry, to=holder)
            raise _DeliverAgainError from None
        except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: its error must not stop the worker
            span.failed(type(error).__name__)
            self._results.labeling_failed()
            detail = error_text(error)
            self._log_limit.warning(
                log,
                (FAILED, type(error)),
                "labeling failed: the interaction is delivered again, until its last delivery",
                deliveries=entry.deliveries,
                error=detail,
            )
            if entry.deliveries < self._settings.max_deliveries:
                raise _DeliverAgainError from None
            raise RejectedError(
                Reason.LABELING_FAILED,
                labeling_failed(self._labeler.name, entry.deliveries, detail),
                interaction.interaction_id,
            ) from None
        if labeler := awaited_labeler(entry.awaiting):
            self._due.pop(labeler, None)
        self._telemetry.labeling_took(self._labeler.name, timed.latency_s)
        self._log.debug("labeled", labeler=event.labeler, latency_s=timed.latency_s)
        if left_out := event.counters.get(METRICS_LEFT_OUT):
            self._log_limit.warning(
                log,
                (METRICS_LEFT_OUT,),
                "an event has too many declared metrics: some are left out and have no score",
                left_out=left_out,
                most=DECLARED_MAX,
            )
        return timed.labeling, event

    async def _uncount_waiting(self, entry: StreamEntry, *, to: str = "") -> None:
        await self._uncount(entry, to=to)
        try:
            if entry.deliveries > self._settings.max_deliveries:
                await self._retry_budget.refund(entry.entry_id)
        except RedisError as error:
            log.debug("an attempt could not be refunded", error=str(error))

    async def _uncount(self, *entries: StreamEntry, to: str = "") -> None:
        try:
            await self._reclaimer.uncount(entries, to=to)
        except RedisError as error:
            log.debug("a delivery could not be uncounted", error=str(error))

    async def _reclaim_loop(self) -> None:
        heartbeat = self.heartbeats["reclaiming"]
        idle_s, next_deletion = FORGET_S, monotonic()
        while True:
            try:
                if monotonic() >= next_deletion:
                    next_deletion = monotonic() + idle_s / 4
                    if deleted := await self._reclaimer.delete_idle_consumers(idle_s):
                        partition = self._streams.partition
                        log.info("consumers of dead workers were deleted", consumers=deleted, partition=partition)
                most = self._settings.worker_concurrency
                entries, scanned = await self._reclaimer.claim(most, partial(self._tries, most))
            except RedisError as error:
                heartbeat.failed(f"looking for abandoned entries fails: {error}")
                self._reclaiming.failed(error)
                entries, scanned = [], True
            else:
                self._reclaiming.succeeded()
                heartbeat.beat("looking for abandoned entries")
            if abandoned := sum(not entry.awaiting for entry in entries):
                self._telemetry.reclaimed.inc(abandoned)
                partition = self._streams.partition
                log.info("took over abandoned entries of another worker", entries=abandoned, partition=partition)
            if entries:
                with heartbeat.idle("waiting for a free slot for an abandoned entry"):
                    await self.take(entries)
            if scanned:
                await asyncio.sleep(self._pause_s)

    def _tries(self, most: int, labeler: str) -> int:
        if labeler not in self._due:
            return most
        # Its calls may time out, and a labeler that was away must not be asked by all at once.
        return 1 if monotonic() >= self._due[labeler] else 0
