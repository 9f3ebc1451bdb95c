"""The aggregator of a process: it owns its share of the partitions, and takes over partitions of dead owners."""

import asyncio

import structlog
from redis.asyncio import Redis

from ragtide_runtime.ownership.owner import Membership, PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership
from ragtide_runtime.settings.model import Settings

from ..checkpoint.halving import Halving, StepFailedError
from ..checkpoint.options import state_options
from ..state.state import StateOptions
from ..statistics.tables.scipy_functions import preload
from .pace import StepPace
from .session import PartitionSession
from .telemetry import AggregatorTelemetry
from .ticks import TickedScopes

log = structlog.get_logger("ragtide.aggregator")


class Aggregator:
    """The aggregator of a process.

    Each aggregator sends heartbeats to the others several times within the length of a lease. An aggregator without a
    heartbeat for more than half of that length no longer counts as a member. Its leases still run, so the others are
    ready when they end.

    Args:
        redis: client.
        holder: name of this process.
        state: options of the state; None for those of the settings.
    """

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        *,
        holder: str,
        state: StateOptions | None = None,
        telemetry: AggregatorTelemetry | None = None,
    ) -> None:
        self._redis = redis
        layout = settings.layout
        self._settings = settings
        self._state = state or state_options(settings)
        self._telemetry = telemetry or AggregatorTelemetry(layout.partitions)
        self._telemetry.watching(self._state.rules, releases=self._state.releases is not None)
        self._sessions: dict[int, PartitionSession] = {}
        self._applied = 0
        # The pace of a partition outlives a session.
        self._paces = [StepPace(settings.aggregator_batch, settings.lease_s) for _ in range(layout.partitions)]
        leases = [Lease(redis, streams, holder=holder, lease_s=settings.lease_s) for streams in layout.all()]
        silent_s = 0.6 * settings.lease_s
        self.owner = PartitionOwner(
            redis,
            leases,
            self._serve,
            telemetry=self._telemetry,
            membership=Membership(redis, layout.prefix, member=leases[0].holder, silent_s=silent_s),
        )

    @property
    def events_applied(self) -> int:
        """Metric events applied since the start."""
        return self._applied + sum(session.events_applied for session in self._sessions.values())

    def take(self, settings: Settings) -> None:
        """Take other settings, such as new alert rules, as a restart would.

        Every partition commits everything that it has applied, and continues from its checkpoint.
        """
        self._settings, self._state = settings, state_options(settings)
        self._telemetry.watching(self._state.rules, releases=self._state.releases is not None)
        for session in self._sessions.values():
            session.end()

    @property
    def is_current(self) -> bool:
        """Whether every owned partition is served with the newest settings."""
        return len(self._sessions) == len(self.owner.owned) and all(
            session.settings is self._settings for session in self._sessions.values()
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until asked to stop.

        Raises:
            CheckpointError: another version of ragtide wrote a checkpoint.
        """
        # In the first large step the import of SciPy would delay the partition.
        await asyncio.to_thread(preload)
        await self.owner.run(stop)

    async def _serve(self, ownership: Ownership) -> None:
        (streams,) = ownership.streams
        halving, ticked = Halving(), TickedScopes()
        try:
            while not await self._serve_once(ownership, halving, ticked):
                ownership.check()
        finally:
            self._telemetry.ended(streams.partition)

    async def _serve_once(self, ownership: Ownership, halving: Halving, ticked: TickedScopes) -> bool:
        (streams,) = ownership.streams
        settings = self._settings
        session = await PartitionSession.begin(
            self._redis,
            settings,
            self._state,
            ownership,
            telemetry=self._telemetry,
            pace=self._paces[streams.partition],
            halving=halving,
            ticked=ticked,
        )
        if settings is not self._settings:
            return False
        self._sessions[streams.partition] = session
        try:
            await session.run()
        except StepFailedError as failed:
            halving.failed(failed.taken, failed.error)
            log.warning(
                "a step failed: searching from the checkpoint for the entry that cannot be counted",
                partition=streams.partition,
                metric_events=failed.taken.metrics,
                feedback=failed.taken.feedback,
                error=halving.reason,
            )
            return False
        finally:
            self._applied += self._sessions.pop(streams.partition).events_applied
        return ownership.stop.is_set()
