"""Replays recorded metric events into a workspace, each exactly once, even if the process is killed."""

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from importlib.util import find_spec
from time import monotonic
from typing import Any, Final, NamedTuple

import structlog
from redis.asyncio import Redis

from ragtide_aggregator.checkpoint.commit import Committer
from ragtide_aggregator.checkpoint.halving import Halving, StepFailedError
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.state.options import StateOptions
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.processes.waiting import sleep_or_stop
from ragtide_runtime.recordings import RecordedEntry, Recording
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import MetricEvent

from .counting import EntryCounts
from .partition_replay import PartitionReplay, counted
from .recorded_entries import AT_ONCE, RecordedEntries, applied_tables
from .selection import Selection
from .speed import ReplayPace, Speed

COMMIT_S: Final = 2.0
"""Most seconds between two commits."""

TRIES: Final = 5
"""Most beginnings of a replay: each time the process lost its leases, because it stood still."""


log = structlog.get_logger("ragtide.replay")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay of metric events."""

    state: StateOptions
    split: bool
    """Whether pipelines are split over partitions; then the ids of alerts contain the partition."""
    lease_s: float
    feedback_window_s: float
    speed: Speed = field(default_factory=Speed)


class ReplayProgress(NamedTuple):
    """Progress of a replay of metric events."""

    done: int
    total: int
    at: datetime | None = None
    """Time of the last replayed interaction."""
    complete: bool = False
    """Whether all entries were replayed, including feedback after the last event."""


Show = Callable[[ReplayProgress], None]


class MetricsReplay:
    """Replays the metric events of a recording, and its feedback, in one process.

    Args:
        redis: client.
        layout: of the workspace, with as many partitions as the recording has.
        recording: with the metric events.
        selection: the part to replay.
        counted: number of selected events, by `SCOPE_FIELDS`.
        options: of the replay.
    """

    def __init__(
        self,
        redis: Redis,
        layout: Layout,
        recording: Recording,
        *,
        selection: Selection,
        counted: EntryCounts,
        options: ReplayOptions,
    ) -> None:
        self._redis = redis
        self._layout = layout
        self._reader = RecordedEntries(recording, selection)
        self._counted = counted
        self._options = options
        self._parts: dict[int, PartitionReplay] = {}
        self._halvings: defaultdict[int, Halving] = defaultdict(Halving)
        self._commit_s = COMMIT_S
        self._due = 0.0

    async def run(self, stop: asyncio.Event, show: Show) -> ReplayProgress:
        """Replay until the end, or until `stop` is set; applied entries are committed in both cases.

        After a loss of its leases the replay begins again from the last commit, unless another process has taken over.

        Raises:
            ConfigurationError: another process replays into the workspace, or this process lost its leases too often.
            UnreadableRecordingError: a file of the recording is missing or damaged.
            redis.RedisError: Redis failed; run the replay again, it continues from the last commit.
        """
        options, complete, tries = self._options, False, 0

        async def replay(ownership: Ownership) -> None:
            nonlocal complete, tries
            tries += 1
            if tries > TRIES:
                raise ConfigurationError(
                    f"the replay lost its leases {TRIES} times, because this process stood still for longer than "
                    "lease_s: raise RAGTIDE_LEASE_S, and run the replay again: it continues from the last commit"
                )
            complete = await self._replay_owned(ownership, show)

        leases = [
            Lease(self._redis, streams, holder=process_name(), lease_s=options.lease_s)
            for streams in self._layout.all()
        ]
        refusal = ConfigurationError(
            "another process replays into this workspace: wait for its end, or give --workspace another name"
        )
        telemetry = OwnerTelemetry("replay", 1)
        await PartitionOwner(self._redis, leases, replay, telemetry=telemetry, refusal=refusal).run(stop)
        progress = self._progress(None)._replace(complete=complete)
        show(progress)
        return progress

    async def _replay_owned(self, ownership: Ownership, show: Show) -> bool:
        """Replay from the last commit, and return whether the end was reached."""
        while True:
            self._parts = {streams.partition: await self._open(streams, ownership) for streams in ownership.streams}
            try:
                return await self._replay(ownership, show)
            except StepFailedError as error:
                log.warning("searching for the entry that cannot be counted, from the last commit", reason=str(error))

    def counted(self) -> dict[str, Any]:
        """Return the counts of rejected events, and of feedback with the reasons for rejected gold scores."""
        return counted(part.counts for part in self._parts.values())

    async def _open(self, streams: Streams, ownership: Ownership) -> PartitionReplay:
        options, partition = self._options, streams.partition
        state = options.state.of_partition(partition, split=options.split)
        checkpoint = await load_checkpoint(self._redis, streams, state)
        # In a thread: a pass over the feedback may take longer than a lease, which is renewed meanwhile.
        expected = await asyncio.to_thread(self._reader.expected, partition, checkpoint.feedback_position)
        committer, token = Committer(self._redis, streams, estimates_cap=1), ownership.tokens[partition]
        return PartitionReplay(
            lambda step: committer.commit(step, token),
            checkpoint,
            window_ms=int(options.feedback_window_s * 1000),
            expected=expected,
            size_of=self._counted.population_of,
            halving=self._halvings[partition],
        )

    async def _replay(self, ownership: Ownership, show: Show) -> bool:
        """Replay, and return whether the end was reached."""
        self._commit_s = min(COMMIT_S, self._options.lease_s / 4)
        self._due = monotonic() + self._commit_s
        if self._options.speed.factor is None and find_spec("pyarrow") is not None:
            if self._searching:
                await self._one_by_one(ownership, show, while_searching=True)
            complete = not ownership.stop.is_set() and await self._in_tables(ownership, show)
        else:
            complete = await self._one_by_one(ownership, show)
        await self._commit()
        return complete

    async def _in_tables(self, ownership: Ownership, show: Show) -> bool:
        # Partitions share no state, so one after the other gives the same result.
        for partition, part in self._parts.items():
            for last in applied_tables(self._reader, partition, part):
                await self._turn(ownership, show, last)
                if ownership.stop.is_set():
                    return False
        return True

    @property
    def _searching(self) -> bool:
        return any(halving.part is not None for halving in self._halvings.values())

    async def _one_by_one(self, ownership: Ownership, show: Show, *, while_searching: bool = False) -> bool:
        stop = ownership.stop
        pace = ReplayPace(self._options.speed)
        last: datetime | None = None
        for number, entry in enumerate(self._entries()):
            if isinstance(entry.model, MetricEvent):
                last = entry.model.occurred_at
                while (wait_s := pace.wait_s(last, monotonic())) > 0 and not stop.is_set():
                    await sleep_or_stop(stop, min(wait_s, max(self._due - monotonic(), 0.01)))
                    await self._turn(ownership, show, last)
            if stop.is_set():
                return False
            part = self._parts[entry.partition]
            part.apply_entry(entry)
            if part.full:
                await self._commit()
                if while_searching and not self._searching:
                    return False
            if number % AT_ONCE == AT_ONCE - 1:
                await self._turn(ownership, show, last)
        return True

    async def _turn(self, ownership: Ownership, show: Show, last: datetime | None) -> None:
        """Let other tasks run, and commit if that is due."""
        ownership.check()
        await asyncio.sleep(0)
        if monotonic() >= self._due:
            await self._commit()
            show(self._progress(last))
            self._due = monotonic() + self._commit_s

    def _entries(self) -> Iterator[RecordedEntry]:
        partitions = [self._reader.in_time(partition, part.at) for partition, part in self._parts.items()]
        return heapq.merge(*partitions, key=lambda entry: entry.order)

    async def _commit(self) -> None:
        for part in self._parts.values():
            await part.commit()

    def _progress(self, last: datetime | None) -> ReplayProgress:
        return ReplayProgress(sum(part.counts.events for part in self._parts.values()), self._counted.total, last)
