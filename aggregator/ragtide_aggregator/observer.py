"""What the aggregator of one partition tells of itself: metrics, signs of life, and the last span of each trace."""

from collections.abc import Mapping
from time import time_ns

from ragtide_runtime.health import Pulse
from ragtide_runtime.instruments import AggregatorInstruments
from ragtide_runtime.tracing import record, traceparent_of
from ragtide_schemas import MetricEvent

from .commit import Step


class Observer:
    """Counts one partition's aggregator for Prometheus, keeps its pulse, and ends the traces of what it commits.

    Events count once they are committed: what an owner read and lost with its lease is counted by the next one.

    Args:
        partition: number of the partition.
        instruments: of the process; by default some that nobody scrapes.
    """

    def __init__(self, partition: int, instruments: AggregatorInstruments | None = None) -> None:
        self._partition = str(partition)
        self._instruments = instruments or AggregatorInstruments()
        self._instruments.lease_owned.labels(self._partition).set(0)
        self._applied = 0
        self._traces: list[tuple[str, int, dict[str, str]]] = []
        self.pulse = Pulse(f"partition {partition}")

    def standing_by(self) -> None:
        """Take note that another aggregator owns the partition."""
        self._not_owned()
        self.pulse.beat("standing by: another aggregator owns the partition")

    def owning(self, keys: int) -> None:
        """Take note of a turn as the owner, with so many keys."""
        self._instruments.lease_owned.labels(self._partition).set(1)
        self._instruments.keys.labels(self._partition).set(keys)
        self.pulse.beat("owns the partition")

    def released(self, *, lost: bool = False) -> None:
        """Take note that it is the owner no more; what it had not committed is forgotten."""
        self._not_owned()
        if lost:
            self._instruments.leases_lost.inc()

    def failed(self, error: Exception) -> None:
        """Take note that Redis failed; it is tried again."""
        self.pulse.trouble(f"Redis failed: {error}")

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

    def committed(self, step: Step, seconds: float) -> None:
        """Take note of a commit and of how long it took."""
        instruments = self._instruments
        instruments.checkpoint_seconds.observe(seconds)
        instruments.checkpoint_rows.inc(len(step.rows))
        instruments.events_applied.inc(self._applied)
        instruments.events_refused.inc(len(step.dead_letters))
        for alert in step.alerts:
            instruments.alerts.labels(alert.rule, alert.status).inc()
        now_ns = time_ns()
        for parent, read_ns, attributes in self._traces:
            record("ragtide estimate", "CONSUMER", attributes, parent=parent, start_ns=read_ns, end_ns=now_ns)
        self._forget()

    def _not_owned(self) -> None:
        self._instruments.lease_owned.labels(self._partition).set(0)
        self._instruments.keys.labels(self._partition).set(0)
        self._forget()

    def _forget(self) -> None:
        self._applied = 0
        self._traces.clear()
