"""The label worker: entries in, exactly one metric event or dead letter out for each."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import monotonic

import structlog
from redis import RedisError
from redis.asyncio import Redis
from structlog.contextvars import bind_contextvars

from ragtide_runtime.cancellation import end
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.telemetry.health import Heartbeat
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.outages import Outage, redis_outage
from ragtide_runtime.telemetry.tracing import attributes_of, traced, traceparent_of
from ragtide_runtime.waiting import Backoff
from ragtide_schemas import DeadLetter, InvalidEntryError, RagInteraction, Reason, utc_now

from ..labelers.event import labeler_id, metric_event
from ..labelers.protocol import Labeler
from .claims import ClaimKeeper
from .delivery import Delivered, Delivery, Refused, Scored
from .entries import StreamEntry
from .patience import Patience
from .quarantine import TRIES_ALONE, Lane
from .reclaim import Reclaimer
from .telemetry import WorkerTelemetry

DELIVER_AT_ONCE = 200
"""Results handed over in one round trip."""

FAILED = "failed"
"""Outcome of a try that the labeler failed, among the outcomes of entries."""

log = structlog.get_logger("ragtide.worker")


class LabelWorker:
    """Labels the entries of one partition with bounded concurrency.

    `take` waits for a free slot for each entry and returns when all have started, so that a slow entry does not hold
    up the next read. A slot is free again when its result has been handed over to Redis. Without `claims` an entry that
    takes longer than `min_idle_s` goes to another worker.
    """

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        labeler: Labeler,
        *,
        consumer: str,
        concurrency: int,
        max_deliveries: int,
        min_idle_s: float,
        dedupe_window_s: float,
        feedback_window_s: float,
        forget_s: float = 3600.0,
        metrics_cap: int = 1_000_000,
        claims: ClaimKeeper | None = None,
        patience: Patience | None = None,
        telemetry: WorkerTelemetry | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._redis = redis
        self._forget_s = forget_s
        self._metrics_cap = metrics_cap
        self._claims = claims
        self._telemetry = telemetry or WorkerTelemetry()
        outage = outage or redis_outage(redis)
        self._handing_over, self._looking, self._taking_over = (
            outage.attempt(f"{doing} of partition {streams.partition}")
            for doing in (
                "handing over results",
                "counting metric events",
                "taking over abandoned entries",
            )
        )
        self._log_limit = LogLimit()
        self._outcomes = self._telemetry.outcomes(labeler.name, [*Delivered, FAILED])
        self._labeling_seconds = self._telemetry.labeling_seconds.labels(labeler.name)
        self.heartbeats = [
            Heartbeat(f"partition {streams.partition}, {loop}") for loop in ("hand-over", "room", "taking over")
        ]
        self._claims_heartbeat = Heartbeat(f"partition {streams.partition}, claims")
        if claims is not None:
            self.heartbeats.append(self._claims_heartbeat)
        """Signs of life of the loops, in their order."""
        self._streams = streams
        self._labeler = labeler
        self._patience = patience or Patience(labeler)
        self._consumer = consumer
        self._max_deliveries = max_deliveries
        self._min_idle_s = min_idle_s
        self._delivery = Delivery(redis, streams, dedupe_window_s=dedupe_window_s, feedback_window_s=feedback_window_s)
        self._reclaimer = Reclaimer(redis, streams, consumer=consumer, min_idle_s=min_idle_s)
        self._lane = Lane(redis, streams)
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._results: asyncio.Queue[tuple[StreamEntry, Scored | Refused]] = asyncio.Queue()
        self._working: dict[str, asyncio.Task[None]] = {}
        self._waiting: set[str] = set()
        """Entries that were taken and wait for a free slot."""
        self._room = asyncio.Event()
        self._room.set()
        self.loops: list[asyncio.Task[None]] = []
        """Tasks that run until `stop`; one that ends before has failed."""
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        """Start handing over results, renewing claims, and looking for abandoned entries."""
        loops = (self._deliver_loop(), self._room_loop(), self._reclaim_loop())
        self.loops = [asyncio.create_task(loop) for loop in loops]
        if self._claims is not None:
            self._claims.hold(self._streams, self._held, self._claims_heartbeat)

    def _held(self) -> list[str]:
        """Return the entries this worker holds. Any thread may call it: the interpreter makes each copy in one step."""
        return [*list(self._working), *list(self._waiting)]

    @property
    def paused(self) -> bool:
        """Whether labeling waits, because too many metric events wait for an aggregator."""
        return not self._room.is_set()

    async def stop(self, grace_s: float = 10.0) -> None:
        """Finish the entries in work, at most for the grace time; hand the rest back for another worker."""
        if not self.loops:  # the start failed: still finish the entries that were taken before
            self.start()
        delivering, minding, reclaiming = self.loops
        await end(reclaiming)
        unfinished: set[asyncio.Task[None]] = set()
        if self._working:
            _, unfinished = await asyncio.wait(self._working.values(), timeout=grace_s)
        # Entries outside `tried` were only read: `hand_back` takes their delivery off. An entry that waits for an
        # unavailable labeler is in `tried`: its delivery was taken off before the wait.
        tried = [entry_id for entry_id, task in self._working.items() if task in unfinished]
        for task in unfinished:
            await end(task)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._results.join(), grace_s)
        await end(delivering)
        await end(minding)
        if self._claims is not None:
            await asyncio.to_thread(self._claims.release, self._streams)
        self._telemetry.in_flight.dec(len(self._working))
        self._working.clear()
        handed_back = 0
        # FastStream may have read entries that never reached this worker: they are pending for it, so hand them back.
        with suppress(RedisError):
            handed_back = await self._reclaimer.hand_back(tried)
            await self._reclaimer.leave()
        log.info("worker stopped", partition=self._streams.partition, handed_back=handed_back, **dict(self.counts))

    async def take(self, entries: Sequence[StreamEntry]) -> None:
        """Start work on entries, waiting for a free slot for each, and while metric events pile up."""
        waiting = {entry.entry_id for entry in entries}
        self._waiting |= waiting
        try:
            for entry in entries:
                await self._room.wait()
                await self._slots.acquire()
                self._waiting.discard(entry.entry_id)
                if entry.entry_id in self._working:  # reclaimed from ourselves while we are still on it
                    self._slots.release()
                    continue
                task = asyncio.create_task(self._work(entry))
                self._working[entry.entry_id] = task
                self._telemetry.in_flight.inc()
        finally:
            self._waiting -= waiting

    async def _work(self, entry: StreamEntry) -> None:
        # The task has its own context: every log line of the work on this entry carries the entry id.
        bind_contextvars(entry_id=entry.entry_id)
        try:
            result = await self._label(entry)
        except asyncio.CancelledError:
            self._release(entry)
            raise
        except Exception:
            # This is a bug in ragtide: the entry stays pending, and becomes a dead letter after its last delivery.
            log.exception("working on an entry failed; it will be delivered again", entry_id=entry.entry_id)
            result = None
        if result is None:
            self._release(entry)
        else:
            self._results.put_nowait((entry, result))

    def _release(self, entry: StreamEntry) -> None:
        if self._working.pop(entry.entry_id, None) is not None:
            self._slots.release()
            self._telemetry.in_flight.dec()

    async def _label(self, entry: StreamEntry) -> Scored | Refused | None:
        """Return the entry's result, or None if it is to be tried again when it has been idle for long enough."""
        if entry.deliveries <= self._max_deliveries:
            async with self._lane.together():
                return await self._score(entry)
        async with self._lane.alone():
            # Flush finished results first: this entry may crash the worker.
            await self._results.join()
            if await self._lane.admitted(entry.entry_id):
                log.warning(
                    "trying an entry alone: it may have killed workers",
                    entry_id=entry.entry_id,
                    deliveries=entry.deliveries,
                )
                return await self._score(entry)
        return self._refuse(
            entry,
            Reason.TOO_MANY_DELIVERIES,
            f"the entry was delivered {entry.deliveries} times, {TRIES_ALONE} of them tried alone, and no worker "
            "finished it: look for worker crashes at these times, then retry it",
        )

    async def _score(self, entry: StreamEntry) -> Scored | Refused | None:
        if not entry.fields:
            return self._refuse(
                entry,
                Reason.DELETED,
                "the entry was deleted from the stream before it was labeled: trim only what has been labeled",
            )
        try:
            interaction = RagInteraction.from_entry(entry.entry_id, entry.payload())
        except InvalidEntryError as error:
            return self._refuse(entry, error.reason, error.detail)
        bind_contextvars(interaction_id=interaction.interaction_id, pipeline=interaction.pipeline)
        parent = traceparent_of(entry.fields)
        attributes = {**attributes_of(interaction), "ragtide.labeler": self._labeler.name}
        with traced("ragtide label", "CONSUMER", attributes, parent=parent) as span:
            try:
                timed = await self._patience.label(interaction, before_waiting=partial(self._not_counted, entry))
                event = metric_event(
                    interaction,
                    labeler_id(self._labeler),
                    timed.labeling,
                    labeled_at=utc_now(),
                    latency_s=timed.latency_s,
                    entry_id=entry.entry_id,
                )
            except Exception as error:  # noqa: BLE001 - a labeler may be a user's code: its error must not stop the worker
                span.failed(type(error).__name__)
                self._outcomes[FAILED].inc()
                detail = f"{type(error).__name__}: {error}"
                self._log_limit.warning(
                    log,
                    (FAILED, type(error)),
                    "labeling failed; the interaction is delivered again, and after the last delivery a dead letter",
                    deliveries=entry.deliveries,
                    error=detail,
                )
                if entry.deliveries < self._max_deliveries:
                    return None
                return self._refuse(
                    entry,
                    Reason.LABELING_FAILED,
                    f"labeler {self._labeler.name} failed at all {entry.deliveries} deliveries, last with {detail}: "
                    "mend the cause, then retry it",
                    interaction.interaction_id,
                )
            self._labeling_seconds.observe(timed.latency_s)
            log.debug("labeled", labeler=event.labeler, latency_s=timed.latency_s)
            return Scored(entry.entry_id, event, span.traceparent)

    async def _not_counted(self, entry: StreamEntry) -> None:
        """Take the delivery of an entry off again, before it waits for its labeler."""
        try:
            await self._reclaimer.uncount([entry.entry_id])
            if entry.deliveries > self._max_deliveries:
                await self._lane.not_tried(entry.entry_id)
        except RedisError as error:
            log.debug("a delivery could not be taken off", error=str(error))

    def _refuse(self, entry: StreamEntry, reason: Reason, detail: str, interaction_id: str | None = None) -> Refused:
        letter = DeadLetter.of(
            entry.raw(),
            stream=self._streams.interactions,
            entry_id=entry.entry_id,
            reason=reason,
            detail=detail,
            deliveries=entry.deliveries,
            component=self._consumer,
        )
        return Refused(entry.entry_id, letter, interaction_id, pending=entry.pending)

    async def _deliver_loop(self) -> None:
        heartbeat = self.heartbeats[0]
        while True:
            with heartbeat.idle("waiting for results"):
                batch = [await self._results.get()]
            while len(batch) < DELIVER_AT_ONCE and not self._results.empty():
                batch.append(self._results.get_nowait())
            try:
                await self._deliver(batch)
            finally:
                for entry, _ in batch:
                    self._release(entry)
                    self._results.task_done()

    async def _deliver(self, batch: list[tuple[StreamEntry, Scored | Refused]]) -> None:
        backoff = Backoff()
        while batch:
            try:
                outcomes = await self._delivery.deliver([result for _, result in batch])
            except RedisError as error:
                # Safe to repeat: an entry that was acknowledged the first time is not emitted again.
                self.heartbeats[0].failed(f"handing over fails: {error}")
                self._handing_over.failed(error, results=len(batch))
                await asyncio.sleep(backoff.pause_s())
                continue
            self._handing_over.succeeded()
            again: list[tuple[StreamEntry, Scored | Refused]] = []
            for (entry, result), outcome in zip(batch, outcomes, strict=True):
                self.counts[outcome] += 1
                self._count(result, outcome)
                if outcome is Delivered.DUPLICATE and isinstance(result, Scored):
                    detail = (
                        f"another entry of pipeline {result.event.pipeline} already has interaction_id "
                        f"{result.event.interaction_id}: give every interaction an id of its own"
                    )
                    again.append((entry, self._refuse(entry, Reason.DUPLICATE, detail, result.event.interaction_id)))
                elif isinstance(result, Refused) and outcome is Delivered.REFUSED:
                    self._log_limit.warning(
                        log,
                        result.letter.reason,
                        "entry refused: it is a dead letter now, see ragtide dead-letters",
                        entry_id=entry.entry_id,
                        interaction_id=result.interaction_id,
                        reason=result.letter.reason,
                        detail=result.letter.detail,
                    )
            batch = again

    def _count(self, result: Scored | Refused, outcome: Delivered) -> None:
        reason = result.letter.reason if isinstance(result, Refused) else None
        if outcome is Delivered.REFUSED:
            self._telemetry.dead_letters.labels(str(reason)).inc()
        # The worker hands a duplicate over twice, the second time as a dead letter. It counts the entry once.
        if reason is not Reason.DUPLICATE:
            self._outcomes[outcome].inc()

    async def _room_loop(self) -> None:
        """Look whether there is room for more metric events, and tell the claims thread that the event loop lives."""
        heartbeat = self.heartbeats[1]
        pause_s = min(self._min_idle_s / 3, 5.0)
        heartbeat.beat("nothing looked at yet")
        while True:
            await asyncio.sleep(pause_s)
            if self._claims is not None:
                self._claims.loop_turned()
            try:
                self._mind_room(await self._redis.xlen(self._streams.metrics))
                self._looking.succeeded()
                heartbeat.beat("there is room" if not self.paused else "pausing: metric events pile up")
            except RedisError as error:
                heartbeat.failed(f"reading the length of the metrics stream fails: {error}")
                self._looking.failed(error)

    def _mind_room(self, metric_events: int) -> None:
        if metric_events < self._metrics_cap:
            if self.paused:
                log.info("labeling goes on: there is room for metric events again", partition=self._streams.partition)
            self._room.set()
        elif not self.paused:
            log.warning(
                "labeling pauses: too many metric events wait; look whether an aggregator runs",
                partition=self._streams.partition,
                metric_events=metric_events,
            )
            self._room.clear()

    async def _reclaim_loop(self) -> None:
        heartbeat = self.heartbeats[2]
        pause_s = min(self._min_idle_s / 3, 5.0)
        next_forgetting = monotonic()
        while True:
            try:
                if monotonic() >= next_forgetting:
                    next_forgetting = monotonic() + self._forget_s / 4
                    forgotten = await self._reclaimer.forget_dead(self._forget_s)
                    if forgotten:
                        log.info(
                            "workers that are gone were forgotten",
                            workers=forgotten,
                            partition=self._streams.partition,
                        )
                entries, scanned = await self._reclaimer.claim(self._concurrency)
            except RedisError as error:
                heartbeat.failed(f"looking for abandoned entries fails: {error}")
                self._taking_over.failed(error)
                entries, scanned = [], True
            else:
                self._taking_over.succeeded()
                heartbeat.beat("looking for abandoned entries")
            if entries:
                self._telemetry.reclaimed.inc(len(entries))
                log.info(
                    "took over abandoned entries of another worker",
                    entries=len(entries),
                    partition=self._streams.partition,
                )
                with heartbeat.idle("waiting for a free slot for what was taken over"):
                    await self.take(entries)
            if scanned:
                await asyncio.sleep(pause_s)
