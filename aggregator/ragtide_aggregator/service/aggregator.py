"""The aggregator of a process: it owns its share of the partitions, and takes over partitions of dead owners."""

import asyncio
from dataclasses import replace

import structlog
from redis.asyncio import Redis

from ragtide_runtime.ownership.owner import Membership, PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership
from ragtide_runtime.redis.layout import Layout

from ..checkpoint.halving import Halving, StepFailedError
from ..state.state import StateOptions
from ..statistics.tables.scipy_functions import preload
from .options import ServiceOptions
from .pace import StepPace
from .pipeline_health import HealthLimits
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
        layout: of the deployment.
        options: of the service.
        holder: name of this process.
        telemetry: of the role.
    """

    def __init__(
        self,
        redis: Redis,
        layout: Layout,
        options: ServiceOptions,
        *,
        holder: str,
        telemetry: AggregatorTelemetry | None = None,
    ) -> None:
        self._redis = redis
        self._options = options
        self._telemetry = telemetry or AggregatorTelemetry(layout.partitions)
        self._telemetry.watching(options.state.rules)
        self._sessions: dict[int, PartitionSession] = {}
        self._applied = 0
        # The pace of a partition outlives a session.
        self._paces = [StepPace(options.batch, options.lease_s) for _ in range(layout.partitions)]
        leases = [Lease(redis, streams, holder=holder, lease_s=options.lease_s) for streams in layout.all()]
        silent_s = 0.6 * options.lease_s
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

    def take(self, state: StateOptions, health: HealthLimits | None = None) -> None:
        """Take other options, such as new alert rules, as a restart would.

        Every partition commits everything that it has applied, and continues from its checkpoint.

        Args:
            state: options of the state.
            health: limits of pipeline health alerts; None leaves them.
        """
        self._options = replace(self._options, state=state, health=health or self._options.health)
        self._telemetry.watching(state.rules)
        for session in self._sessions.values():
            session.end()

    @property
    def is_current(self) -> bool:
        """Whether every owned partition is served with the newest options."""
        return len(self._sessions) == len(self.owner.owned) and all(
            session.options is self._options for session in self._sessions.values()
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
            while not await self._served(ownership, halving, ticked):
                ownership.check()
        finally:
            self._telemetry.ended(streams.partition)

    async def _served(self, ownership: Ownership, halving: Halving, ticked: TickedScopes) -> bool:
        """Serve from the checkpoint on; return False to begin there again.

        A step may have failed, which is then tried in halves, or the options may be new.
        """
        (streams,) = ownership.streams
        options = self._options
        session = await PartitionSession.begin(
            self._redis,
            options,
            ownership,
            telemetry=self._telemetry,
            pace=self._paces[streams.partition],
            halving=halving,
            ticked=ticked,
        )
        if options is not self._options:
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
