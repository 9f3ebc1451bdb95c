"""Telemetry of every role that owns partitions: the partitions that it owns, and heartbeats of its loops."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ..telemetry.health import Heartbeat, ProcessTelemetry
from ..telemetry.metric import Metric


class OwnerTelemetry:
    """Reports the partitions that a role owns, and the heartbeats of the owner loop and of the work on each partition.

    Args:
        role: its name in logs and health reports.
        partitions: number of partitions.
        process: telemetry of the process; by default it is neither scraped nor served.
        owned: metric of the partitions that are owned.
    """

    def __init__(
        self, role: str, partitions: int, process: ProcessTelemetry | None = None, *, owned: Metric | None = None
    ) -> None:
        self.role = role
        self._n = partitions
        process = process or ProcessTelemetry()
        self.registry = process.registry
        self._owned = None if owned is None else owned.gauge(process.registry)
        self._health = process.health
        self._loop = Heartbeat(f"{role}: partitions")
        self._working: dict[int, Heartbeat] = {}
        for partition in range(partitions):
            self._set(partition, owned=False)

    def reporting(self) -> AbstractContextManager[None]:
        """Report the health of the owner loop for the body of a `with`."""
        return self._health.reporting(self.role, self._loop)

    def turned(self, owned: int) -> None:
        """Report a turn of the owner loop, with the number of partitions that are owned."""
        self._loop.beat(f"owns {owned} of {self._n} partitions" if owned else "standing by: others own them all")

    def failed(self, error: Exception) -> None:
        """Report that Redis failed the owner loop, which tries again."""
        self._loop.failed(f"Redis failed: {error}")

    def lost(self) -> None:
        """Report that another process owns a partition, or that Redis lost entries that were read; for subclasses."""

    @contextmanager
    def owning(self, partition: int) -> Iterator[None]:
        """Report a partition as owned for the body of a `with`."""
        self._working.pop(partition, None)
        self._set(partition, owned=True)
        try:
            with self._health.reporting(self.role, self._heartbeat(partition)):
                yield
        finally:
            self._set(partition, owned=False)

    def partition_turned(self, partition: int, doing: str) -> None:
        """Report a turn of the work on a partition."""
        self._heartbeat(partition).beat(doing)

    def partition_failed(self, partition: int, error: Exception) -> None:
        """Report that Redis or a store failed the work on a partition, which is tried again."""
        self._heartbeat(partition).failed(f"failed: {error}")

    def _heartbeat(self, partition: int) -> Heartbeat:
        return self._working.setdefault(partition, Heartbeat(f"{self.role}: partition {partition}"))

    def _set(self, partition: int, *, owned: bool) -> None:
        if self._owned is not None:
            self._owned.labels(str(partition)).set(owned)
