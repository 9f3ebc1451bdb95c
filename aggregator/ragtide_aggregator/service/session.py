"""One tenure: what an aggregator does with a partition from the moment it has the lease until it has not."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Final, NamedTuple

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.ownership.lease import Lease, Progress
from ragtide_runtime.redis.log import Entry, end_at, order, read_after
from ragtide_runtime.redis.payloads import payload_of, raw_of
from ragtide_runtime.redis.read_size import ReadSize
from ragtide_runtime.telemetry.outages import redis_outage
from ragtide_runtime.telemetry.repeats import Repeats
from ragtide_runtime.waiting import Backoff
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, Reason, Streams, utc_now

from ..errors import DamagedFieldError, LeaseLostError, StreamWentBackError
from ..state.state import Changes, StateOptions
from .absent_share import Absences
from .checkpoint import Checkpoint, damaged, load_checkpoint
from .commit import Committer, Step
from .estimates_stream import BEHIND_S, OWED, SHOW_S, Showing, rendered
from .feedback_reader import Joiner
from .halving import Halving, StepFailedError, Taken, countable
from .pace import Pace
from .seen_ids import Recent
from .stalls import StallLimits, Stalls
from .telemetry import TenureObserver
from .trimming import Caps, House

RETRY_S = 0.5
"""Seconds before a failed command is tried again."""

CATCHING_UP = 3.0
"""While behind, how much longer than a long commit took nothing is committed: that part of the time is for reading."""

LONG_COMMIT_S = 0.1
"""Seconds from which on a commit is long."""

SLICE_S = 0.05
"""Seconds of applying after which other tasks of the event loop have their turn."""

HOUSE_S = 1.0
"""Seconds between two looks at what can be trimmed and what has stalled."""

WENT_BACK: Final = "went_back"
"""Field of the checkpoint that says when a stream went back behind it, and how often."""

log = structlog.get_logger("ragtide.aggregator")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How an aggregator works: batch size, how often it commits, how long its lease is, what it keeps."""

    batch: int
    commit_interval_s: float
    lease_s: float
    estimates_cap: int
    confidence: float
    state: StateOptions
    feedback_window_s: float = 604_800.0
    split: bool = False
    """Whether pipelines are split over partitions."""
    caps: Caps = field(default_factory=Caps)
    stalls: StallLimits = field(default_factory=StallLimits)


class Positions(NamedTuple):
    """The last entries that were taken of both streams."""

    metrics: str
    feedback: str


@dataclass(slots=True)
class Uncommitted:
    """What the next step is made of, besides what the state knows."""

    letters: list[DeadLetter] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """Last metric event of every read."""
    feedback_read: list[str] = field(default_factory=list)
    rows: dict[str, bytes] = field(default_factory=dict)
    metrics: int = 0
    """Metric events that were taken."""
    feedback: int = 0
    """Entries of feedback that were taken."""
    applied: int = 0
    """Metric events of these that count."""
    last: str = ""
    """Id of the last metric event that was taken or, without one, of the last feedback."""


class Tenure:
    """The state of a partition while this aggregator owns it: reads, applies, commits, keeps house."""

    def __init__(
        self,
        redis: Redis,
        streams: Streams,
        options: ServiceOptions,
        *,
        lease: Lease,
        token: str,
        checkpoint: Checkpoint,
        observer: TenureObserver,
        pace: Pace | None = None,
        progress: Progress | None = None,
        halving: Halving | None = None,
    ) -> None:
        self._observer = observer
        self._pace = pace or Pace(options.batch, options.lease_s)
        self._halving = halving or Halving()
        self._progress = progress or Progress()
        # A thread of its own: labeling in the same process may occupy those of the event loop.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ragtide estimates")
        self._redis = redis
        self._read_size = ReadSize(redis)
        self._outage = redis_outage(redis).attempt(f"committing partition {streams.partition}")
        self._repeats = Repeats()
        self._streams = streams
        self._options = options
        self._lease = lease
        self._token = token
        self._state = checkpoint.state
        self._joiner = Joiner(redis, streams, self._state, checkpoint.pending, window_s=options.feedback_window_s)
        self._recent = Recent.from_fields(checkpoint.fields)
        self._stalls = Stalls.from_fields(options.stalls, streams.partition, checkpoint.fields)
        self._showing = Showing(checkpoint.state.keys if OWED in checkpoint.fields else ())
        self._absences = Absences.from_fields(options.stalls.absent_share, streams.partition, checkpoint.fields)
        self._guarded = WENT_BACK in checkpoint.fields
        self._committer = Committer(
            redis,
            streams,
            lease_s=options.lease_s,
            estimates_cap=options.estimates_cap,
            feedback_window_s=options.feedback_window_s,
        )
        self._house = House(redis, streams, options.caps)
        self._at = Positions(checkpoint.position, checkpoint.feedback_position)
        self._committed = self._at
        self._steps = checkpoint.steps
        self._next = Uncommitted()
        self._dirty = bool(self._showing)
        self._behind = False
        self.events_applied = 0

    @classmethod
    async def begin(
        cls,
        redis: Redis,
        streams: Streams,
        options: ServiceOptions,
        lease: Lease,
        token: str,
        *,
        observer: TenureObserver,
        pace: Pace | None = None,
        progress: Progress | None = None,
        halving: Halving | None = None,
    ) -> "Tenure":
        """Return a tenure that continues from the checkpoint.

        Args:
            redis: client.
            streams: keys of the partition.
            options: of the service.
            lease: of the partition.
            token: with which the lease is held.
            observer: of this tenure.
            pace: of the partition, which outlives a tenure.
            progress: told of every turn, for whatever renews the lease meanwhile.
            halving: which entries its steps may take.

        Raises:
            CheckpointError: another version of ragtide wrote the checkpoint.
        """
        state_options = options.state.of_partition(streams.partition, split=options.split)
        checkpoint = await load_checkpoint(redis, streams, state_options, owned=True)
        try:
            tenure = cls(
                redis,
                streams,
                options,
                lease=lease,
                token=token,
                checkpoint=checkpoint,
                observer=observer,
                pace=pace,
                progress=progress,
                halving=halving,
            )
        except DamagedFieldError as error:
            raise damaged(streams, error) from None
        if tenure._pace.begins(checkpoint.steps):
            log.warning(
                "a step took longer than the lease: the next ones are smaller",
                partition=streams.partition,
                batch=tenure._pace.batch,
            )
        ends = await tenure._ends()
        if ends != tenure._at:
            tenure._go_back(ends, checkpoint)
        if tenure._halving.part is None:
            log.info(
                "owner of the partition",
                partition=streams.partition,
                position=tenure._at.metrics,
                keys=len(tenure._state),
            )
        return tenure

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; then everything that was applied is committed.

        Raises:
            LeaseLostError: another aggregator owns the partition.
            StreamWentBackError: what was read is no longer there; begin again from the checkpoint.
            StepFailedError: an entry cannot be counted; begin again from the checkpoint, in halves.
            redis.RedisError: Redis failed; begin again from the checkpoint.
        """
        try:
            # Any look at the state may fail because of an entry: queued events are worked on late.
            with countable(self._taken):
                await self._serve(stop)
        except StepFailedError:
            self.events_applied -= self._next.applied
            raise
        except LeaseLostError:
            self._pace.fenced(self._steps)
            raise
        finally:
            self._thread.shutdown(wait=False)

    async def _serve(self, stop: asyncio.Event) -> None:
        next_commit = next_due = monotonic() + self._options.commit_interval_s
        next_renewal = monotonic() + self._options.lease_s / 3
        next_look = monotonic()
        while True:
            self._progress.made()
            due_s = max(next_commit - monotonic(), 0.0) if self._dirty else self._options.lease_s / 4
            behind = False
            if not stop.is_set():
                behind = self._behind = await self._take(min(due_s, 0.5))
                self._observer.turned(len(self._state))
            now = monotonic()
            if not behind:  # the pause was for reading, and there is nothing more to read
                next_commit = min(next_commit, next_due)
            if now >= next_look and not stop.is_set():
                await self._look()
                next_look = now + HOUSE_S
            if self._dirty and (now >= next_commit or self._full() or self._halving.part or stop.is_set()):
                await self._commit(stop)
                # With many keys a commit takes long; while there is more to read than that, reading comes first.
                took_s = monotonic() - now
                pause_s = CATCHING_UP * took_s if behind and took_s > LONG_COMMIT_S else 0.0
                pause_s = min(pause_s, self._pace.step_s)
                next_due = monotonic() + self._options.commit_interval_s
                next_commit = max(next_due, monotonic() + pause_s)
                next_renewal = monotonic() + self._options.lease_s / 3
            elif now >= next_renewal:
                await self._renew()
                next_renewal = now + self._options.lease_s / 3
            if stop.is_set():
                return

    async def _take(self, wait_s: float) -> bool:
        """Read and apply metric events and feedback after the positions, and return whether there may be more."""
        part = self._halving.part
        # BLOCK 0 would wait for ever; below a millisecond do not block at all.
        block_ms = None if part is not None else int(wait_s * 1000) or None
        positions = {self._streams.metrics: self._at.metrics, self._streams.feedback: self._at.feedback}
        if part is None:
            count = await self._read_size.next(positions, self._pace.batch)
        else:
            read = self._streams.metrics if part.source == "metrics" else self._streams.feedback
            positions, count = {read: positions[read]}, part.count
            self._joiner.culprits = dict.fromkeys(part.refused, self._blame())
        found = dict(await read_after(self._redis, positions, count=count, block_ms=block_ms))
        events, feedback = (found.get(stream, []) for stream in (self._streams.metrics, self._streams.feedback))
        if events:
            last = await self._apply_some(events)
            self._at = self._at._replace(metrics=last)
            self._next.read.append(last)
        if feedback:
            self._next.feedback += len(feedback)
            if not self._next.metrics:
                self._next.last = feedback[-1].entry_id
            await self._joiner.take(feedback, self._at.metrics)
            self._at = self._at._replace(feedback=feedback[-1].entry_id)
            self._next.feedback_read.append(feedback[-1].entry_id)
        self._dirty = self._dirty or bool(events or feedback)
        if part is not None and not self._dirty:
            self._halving.passed(part.count)
        return part is not None or max(len(events), len(feedback)) == count

    async def _apply_some(self, events: Sequence[Entry]) -> str:
        """Apply events until the step is full, at least the first, and return the id of the last that was applied.

        The others are read again after the commit. Other tasks of the event loop have their turn in between.
        """
        begun = turned = monotonic()
        for entry in events:
            self._next.metrics, self._next.last = self._next.metrics + 1, entry.entry_id
            self._apply(entry)
            now = monotonic()
            if self._full() or now - begun > self._pace.step_s:
                return entry.entry_id
            if now - turned > SLICE_S:
                await asyncio.sleep(0)
                turned = monotonic()
        return events[-1].entry_id

    def _full(self) -> bool:
        """Return whether the next commit would take too long with more changed keys."""
        return self._state.n_changed >= self._pace.keys

    def _taken(self) -> Taken:
        return Taken(self._next.metrics, self._next.feedback, self._next.last, tuple(self._joiner.waited))

    def _blame(self) -> str:
        return (
            f"the aggregator cannot count it ({self._halving.reason}): the numbers are without it; correct it and "
            "publish it again"
        )

    def _apply(self, entry: Entry) -> None:
        part = self._halving.part
        try:
            event = MetricEvent.decode(payload_of(entry.fields, "metric event"))
            if part is not None and entry.entry_id in part.refused:
                raise InvalidEntryError(Reason.NOT_AGGREGATABLE, self._blame())  # noqa: TRY301 - refused like others
            if self._guarded and (event.pipeline, event.interaction_id) in self._recent:
                log.warning(
                    "counted before the stream went back: not counted again",
                    interaction_id=event.interaction_id,
                    entry_id=entry.entry_id,
                )
                return
            # The metrics stream's entry says when it was scored.
            self._state.apply(event, order(entry.entry_id)[0])
        except InvalidEntryError as error:
            self._refuse(entry, error)
            return
        self.events_applied += 1
        self._next.applied += 1
        self._recent.add(event.pipeline, event.interaction_id)
        self._joiner.applied(event)
        self._observer.applied(entry.fields, event)

    def _refuse(self, entry: Entry, error: InvalidEntryError) -> None:
        self._next.letters.append(
            DeadLetter.of(
                raw_of(entry.fields),
                stream=self._streams.metrics,
                entry_id=entry.entry_id,
                reason=error.reason,
                detail=error.detail,
                component="aggregator",
            )
        )
        self._repeats.warning(
            log,
            error.reason,
            "metric event refused: it is a dead letter now, see ragtide dead-letters",
            entry_id=entry.entry_id,
            reason=error.reason,
            detail=error.detail,
        )

    async def _look(self) -> None:
        """Trim what everybody is done with, and see what has stalled."""
        seen = await self._house.keep(*self._committed)
        alerts = [*self._stalls.look(seen), *self._absences.look(seen.now_ms, self._state)]
        if alerts:
            self._state.raise_alerts(alerts)
            self._dirty = True

    async def _renew(self) -> None:
        if not await self._lease.renew(self._token):
            raise LeaseLostError(f"the lease of partition {self._streams.partition} ran out: another may own it")
        if await self._ends() != self._at:
            raise StreamWentBackError(
                f"partition {self._streams.partition} has streams that end before {self._at.metrics}, which was read: "
                "Redis came back without its last writes; they are read again from the checkpoint"
            )

    async def _commit(self, stop: asyncio.Event) -> None:
        started = perf_counter()
        step, changes, show_s = await self._step()
        made_s = perf_counter() - started - show_s
        write_s = await self._write(step, stop)
        self._halving.passed(self._next.metrics + self._next.feedback)
        self._pace.committed(len(changes.keys), seconds=made_s + write_s, write_s=write_s)
        # Estimates that are owed come with the next commit, whether or not there is anything new.
        self._committed, self._next, self._dirty = self._at, Uncommitted(), bool(self._showing)
        self._steps += 1
        for alert in changes.alerts:
            log.warning("alert", alert_id=alert.alert_id, status=alert.status, detail=alert.message)

    async def _step(self) -> tuple[Step, Changes, float]:
        """Return the next step, the changes of the state in it, and the seconds that rendering estimates took."""
        self._joiner.expire(max(order(position)[0] for position in self._at))
        # With many keys this takes seconds, in which the event loop renews the lease and answers others.
        changes, shown, show_s = await asyncio.get_running_loop().run_in_executor(self._thread, self._changes)
        graded, refused = self._joiner.take_changes()
        held, let_go = self._joiner.pending.take_changes()
        stalled, moving = self._stalls.take_changes()
        owed, paid = self._showing.take_changes()
        followed, forgotten = self._absences.take_changes()
        step = Step(
            before=self._steps,
            position=self._at.metrics,
            feedback_position=self._at.feedback,
            read=self._next.read,
            feedback_read=self._next.feedback_read,
            rows={
                **changes.rows,
                **held,
                **stalled,
                **followed,
                **owed,
                **self._recent.take_changes(),
                **self._next.rows,
            },
            gone=[*changes.gone, *let_go, *moving, *forgotten, *paid],
            graded=graded,
            estimates=shown,
            alerts=changes.alerts,
            capped=changes.capped,
            dead_letters=[*self._next.letters, *refused],
        )
        return step, changes, show_s

    def _changes(self) -> tuple[Changes, list[bytes], float]:
        """Return what changed, the estimates that go on the stream now, and the seconds that these took."""
        changes = self._state.take_changes()
        started = perf_counter()
        chosen = self._showing.take(changes.keys, seconds=BEHIND_S if self._behind else SHOW_S)
        shown, failed = rendered(self._state, chosen, changes.keys, confidence=self._options.confidence)
        for key, error in failed.items():
            log.error("the estimates of a key cannot be shown", key=key.encode(), error=str(error))
        took_s = perf_counter() - started
        self._showing.took(len(chosen), took_s)
        return changes, shown, took_s

    async def _write(self, step: Step, stop: asyncio.Event) -> float:
        """Write a step, and return the seconds that the writing took, without those in which Redis failed."""
        backoff = Backoff()
        while True:
            started = perf_counter()
            try:
                await self._committer.commit(step, self._token)
            except RedisError as error:
                if stop.is_set():  # the next owner reads the uncommitted entries again
                    raise
                # Sent again as it is: the script finds out whether it had been written.
                self._observer.failed(error)
                self._outage.failed(error)
                await asyncio.sleep(backoff.pause_s())
            else:
                took_s = perf_counter() - started
                self._outage.succeeded()
                self._observer.committed(step, took_s)
                return took_s

    async def _ends(self) -> Positions:
        """Return the positions or, where a stream has lost what is there, those of the last entries before it."""
        streams = (self._streams.metrics, self._streams.feedback)
        found = [await end_at(self._redis, stream, at) for stream, at in zip(streams, self._at, strict=True)]
        return Positions(*found)

    def _go_back(self, ends: Positions, checkpoint: Checkpoint) -> None:
        """Continue after the last entry there is, without counting again what is still known to have been counted."""
        earlier = json.loads(checkpoint.fields.get(WENT_BACK, b"{}"))
        went_back = {
            "times": earlier.get("times", 0) + 1,
            "at": utc_now().isoformat(),
            "from": list(self._at),
            "to": list(ends),
        }
        log.error(
            "a stream ends before the checkpoint: Redis lost its tail; continuing there",
            partition=self._streams.partition,
            **went_back,
        )
        self._at = ends
        self._next.rows[WENT_BACK] = json.dumps(went_back).encode()
        self._guarded = self._dirty = True
