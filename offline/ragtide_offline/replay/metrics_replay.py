"""Replays recorded metric events into a workspace, each exactly once, even if the process is killed."""

import asyncio
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.checkpoint.loading import Checkpoint, load_checkpoint
from ragtide_aggregator.state.options import StateOptions
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import Layout

from .recorded_entries import RecordedEntries
from .selection import EntryCounts, Selection
from .session import ReplayProgress, ReplaySession, Show

COMMIT_S: Final = 2.0
"""Most seconds between two commits."""

TRIES: Final = 5
"""Most beginnings of a replay: each time the process lost its leases, because it stood still."""


class _RedisStore:
    """The checkpoint of a partition in Redis, which an owner of its lease may write."""

    def __init__(self, redis: Redis, streams: Streams, options: StateOptions, token: str) -> None:
        self._redis = redis
        self._streams = streams
        self._options = options
        self._token = token
        self._committer = Committer(redis, streams, estimates_cap=1)

    async def load(self) -> Checkpoint:
        return await load_checkpoint(self._redis, self._streams, self._options)

    async def write(self, step: Step) -> None:
        await self._committer.commit(step, self._token)


class MetricsReplay:
    """Replays the metric events of a recording, and its feedback, in one process.

    Args:
        redis: client.
        layout: of the workspace, with as many partitions as the recording has.
        selection: the part to replay.
        counted: number of selected events, by `SCOPE_FIELDS`.
        options: of the states.
        split: whether pipelines are split over partitions; then the ids of alerts contain the partition.
        lease_s: seconds of the leases.
        feedback_window_s: seconds for which feedback finds its event, and waits for it.
        speed: recorded seconds per second; None for as fast as possible.
    """

    def __init__(
        self,
        redis: Redis,
        layout: Layout,
        recording: Recording,
        *,
        selection: Selection,
        counted: EntryCounts,
        options: StateOptions,
        split: bool,
        lease_s: float,
        feedback_window_s: float,
        speed: float | None = None,
    ) -> None:
        self._redis = redis
        self._layout = layout
        self._options = options
        self._split = split
        self._lease_s = lease_s
        self._session = ReplaySession(
            RecordedEntries(recording, selection),
            counted,
            feedback_window_s=feedback_window_s,
            commit_s=min(COMMIT_S, lease_s / 4),
            speed=speed,
        )

    async def run(self, stop: asyncio.Event, show: Show) -> ReplayProgress:
        """Replay until the end, or until `stop` is set; applied entries are committed in both cases.

        After a loss of its leases the replay begins again from the last commit, unless another process has taken over.

        Raises:
            ConfigurationError: another process replays into the workspace, or this process lost its leases too often.
            UnreadableRecordingError: a file of the recording is missing or damaged.
            redis.RedisError: Redis failed; run the replay again, it continues from the last commit.
        """
        tries = 0

        async def replay(ownership: Ownership) -> None:
            nonlocal tries
            tries += 1
            if tries > TRIES:
                raise ConfigurationError(
                    f"the replay lost its leases {TRIES} times, because this process stood still for longer than "
                    "lease_s: raise RAGTIDE_LEASE_S, and run the replay again: it continues from the last commit"
                )
            stores = {
                streams.partition: _RedisStore(
                    self._redis,
                    streams,
                    self._options.of_partition(streams.partition, split=self._split),
                    ownership.tokens[streams.partition],
                )
                for streams in ownership.streams
            }
            await self._session.run(stores, ownership.stop, show, ownership.check)

        leases = [
            Lease(self._redis, streams, holder=process_name(), lease_s=self._lease_s) for streams in self._layout.all()
        ]
        refusal = ConfigurationError(
            "another process replays into this workspace: wait for its end, or give --workspace another name"
        )
        telemetry = OwnerTelemetry("replay", 1)
        await PartitionOwner(self._redis, leases, replay, telemetry=telemetry, refusal=refusal).run(stop)
        show(self._session.progress)
        return self._session.progress

    def counts(self) -> dict[str, Any]:
        """Return `n`, `population_size`, `complete`, rejected events, and feedback with the reasons for rejection."""
        return self._session.counts()
