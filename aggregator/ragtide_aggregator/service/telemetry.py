"""What an aggregator tells of itself: metrics, signs of life, and the last span of each trace."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import time_ns

from ragtide_runtime.telemetry.health import Health, Pulse
from ragtide_runtime.telemetry.instruments import AggregatorInstruments
from ragtide_runtime.telemetry.tracing import record, traceparent_of
from ragtide_schemas import MetricEvent

from .commit import Step

ROLE = "aggregator"
"""Name of the role in what is told of health."""


class TenureObserver:
    """Counts one tenure, keeps its pulse, and ends the traces of what it commits.

    Events count once they are committed: what an owner read and lost with its lease is counted by the next one.
    """

    def __init__(self, partition: int, instruments: AggregatorInstruments) -> None:
        self._partition = str(partition)
        self._instruments = instruments
        self._applied = 0
        self._traces: list[tuple[str, int, dict[str, str]]] = []
        self.pulse = Pulse(f"partition {partition}")

    def turned(self, keys: int) -> None:
        """Take note of a turn, with so many keys."""
        self._instruments.keys.labels(self._partition).set(keys)
        self.pulse.beat("owned")

    def failed(self, error: Exception) -> None:
        """Take note that Redis failed; it is tried again."""
        self.pulse.trouble(f"Redis failed: {error}")

    def lost(self) -> None:
        """Take note that another aggregator has the partition, or that Redis lost what was read."""
        self._instruments.leases_lost.inc()

    def applied(self, fields: Mapping[bytes, bytes], event: MetricEvent) -> None:
        """Take note of an event that was applied and is not committed yet."""
        self._applied += 1
        parent = traceparent_of(fields)
        if parent:
            attributes = {
                "messaging.system": "redis",
                "ragtide.pipeline": event.pipeline,
                "ragtide.interaction_id": event.interaction_id,
            }
            self._traces.append((parent, time_ns(), attributes))

    def dropped(self) -> None:
        """Forget the events that were applied and are not committed: their step failed."""
        self._applied = 0
        self._traces.clear()

    def committed(self, step: Step, seconds: float) -> None:
        """Take note of a commit of all that was applied, and of how long it took."""
        instruments = self._instruments
        instruments.checkpoint_seconds.observe(seconds)
        instruments.checkpoint_rows.inc(len(step.rows))
        instruments.events_applied.inc(self._applied)
        instruments.events_refused.inc(len(step.dead_letters))
        instruments.capped.labels(self._partition).inc(step.capped)
        for alert in step.alerts:
            instruments.alerts.labels(alert.rule, alert.status).inc()
        now_ns = time_ns()
        for parent, read_ns, attributes in self._traces:
            record("ragtide estimate", "CONSUMER", attributes, parent=parent, start_ns=read_ns, end_ns=now_ns)
        self._applied = 0
        self._traces.clear()


class Observer:
    """Counts the aggregator of a process for Prometheus, and keeps the pulse of its search for partitions.

    Args:
        instruments: of the process; by default instruments that are not scraped.
        health: of the process; by default one that is not served.
    """

    def __init__(self, instruments: AggregatorInstruments | None = None, health: Health | None = None) -> None:
        self._instruments = instruments or AggregatorInstruments()
        self._health = health or Health()
        self.pulse = Pulse("sharing partitions")

    def watched(self) -> AbstractContextManager[None]:
        """Count as the role that runs, for the body of a `with`."""
        return self._health.watching(ROLE, self.pulse)

    def owns_none_of(self, partitions: int) -> None:
        """Show no partition as owned by this process, until a tenure begins."""
        for partition in range(partitions):
            self._instruments.lease_owned.labels(str(partition)).set(0)

    def turned(self, *, owned: int, partitions: int) -> None:
        """Take note of a turn of the search, and of how many partitions are owned."""
        self.pulse.beat(f"owns {owned} of {partitions} partitions" if owned else "standing by: others own them all")

    def failed(self, error: Exception) -> None:
        """Take note that Redis failed; it is tried again."""
        self.pulse.trouble(f"Redis failed: {error}")

    @contextmanager
    def tenure(self, partition: int) -> Iterator[TenureObserver]:
        """Give the observer of a tenure, for as long as it lasts."""
        observer = TenureObserver(partition, self._instruments)
        owned = self._instruments.lease_owned.labels(str(partition))
        keys = self._instruments.keys.labels(str(partition))
        owned.set(1)
        try:
            with self._health.watching(ROLE, observer.pulse):
                yield observer
        finally:
            owned.set(0)
            keys.set(0)
