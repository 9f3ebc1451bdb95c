"""Telemetry of the aggregators of a process: metrics, health, and the last span of each trace."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import time_ns
from typing import Final

from prometheus_client import core
from prometheus_client.registry import Collector

from ragtide_runtime.ownership.telemetry import OwnerTelemetry
from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.metric import family
from ragtide_runtime.telemetry.quality_metrics import QUALITY_METRICS
from ragtide_runtime.telemetry.tracing import record_span
from ragtide_schemas import AlertRule
from ragtide_schemas.release import RELEASE_RULE, WORSE_RULE

from ..checkpoint.commit import Step
from .quality import PartitionQuality

ROLE: Final = "aggregator"
"""Name of the role in logs and health reports."""

EventTrace = tuple[str, dict[str, str], int]
"""The traceparent of a metric event, the attributes of its span, and the time at which it was read, in nanoseconds."""


class QualityCollector(Collector):
    """Reports the estimates and firing alerts of the partitions that this process owns for certain."""

    def __init__(self) -> None:
        self._partitions: dict[int, tuple[PartitionQuality, Callable[[], bool]]] = {}

    def publish(self, partition: int, quality: PartitionQuality, certain: Callable[[], bool]) -> None:
        """Set the samples of a partition; they are reported only while `certain` is true."""
        self._partitions[partition] = quality, certain

    def remove(self, partition: int) -> None:
        """Report nothing more of a partition."""
        self._partitions.pop(partition, None)

    def collect(self) -> Iterator[core.Metric]:
        """Yield every metric of quality, some without samples."""
        certain_parts = [quality for quality, certain in list(self._partitions.values()) if certain()]
        for metric in QUALITY_METRICS:
            yield family(metric, [sample for quality in certain_parts for sample in quality.samples.get(metric, ())])


class AggregatorTelemetry(OwnerTelemetry):
    """Counts the commits of the aggregators of a process, and ends the traces of committed events.

    Only committed events count. Events that an owner had read when it lost its lease count for the next owner.

    Args:
        partitions: number of partitions.
        process: telemetry of the process; by default it is neither scraped nor served.
    """

    def __init__(self, partitions: int = 1, process: ProcessTelemetry | None = None) -> None:
        super().__init__(ROLE, partitions, process, owned=catalogue.LEASE_OWNED)
        registry = self.registry
        self._leases_lost = catalogue.LEASES_LOST.counter(registry)
        self._keys = catalogue.KEYS.gauge(registry)
        self._events_applied = catalogue.EVENTS_APPLIED.counter(registry)
        self._events_refused = catalogue.EVENTS_REFUSED.counter(registry)
        self._gold_scores = catalogue.GOLD_SCORES.counter(registry)
        self._gold_uncompared = catalogue.GOLD_UNCOMPARED.counter(registry)
        self._checkpoint_seconds = catalogue.CHECKPOINT_SECONDS.histogram(registry)
        self._checkpoint_rows = catalogue.CHECKPOINT_ROWS.counter(registry)
        self._evicted = catalogue.EVICTED.counter(registry, partition=range(partitions))
        self._capped = catalogue.CAPPED.counter(registry, partition=range(partitions))
        self._alerts = catalogue.ALERTS.counter(registry)
        self.quality = QualityCollector()
        """The estimates and firing alerts of the partitions."""
        registry.register(self.quality)

    def watching(self, rules: Iterable[AlertRule], *, releases: bool = False) -> None:
        """Report the rules in force, and whether releases are watched, so that each has its counters from the start."""
        of_releases = (RELEASE_RULE, WORSE_RULE) if releases else ()
        catalogue.ALERTS.start(self._alerts, rule=[*(rule.name for rule in rules), *of_releases])

    def lost(self) -> None:
        """Count a partition that another aggregator took, or in which Redis lost the end of a stream."""
        self._leases_lost.inc()

    def evicted(self, partition: int, keys: int) -> None:
        """Count keys that the server of a partition evicted."""
        self._evicted.labels(str(partition)).inc(keys)

    def serving(self, partition: int, keys: int) -> None:
        """Report a turn of the work on a partition, with the number of its keys."""
        self._keys.labels(str(partition)).set(keys)
        self.partition_turned(partition, "owned")

    def ended(self, partition: int) -> None:
        """Report that this process no longer keeps the keys of a partition."""
        self._keys.labels(str(partition)).set(0)
        self.quality.remove(partition)

    def committed(
        self,
        partition: int,
        step: Step,
        *,
        seconds: float,
        applied: int,
        traces: Sequence[EventTrace],
        gold: tuple[int, int] = (0, 0),
    ) -> None:
        """Count a commit.

        Args:
            step: the committed step.
            seconds: duration of the commit.
            applied: number of metric events of the step that count.
            gold: number of gold scores of feedback that count, and of those that nothing is compared with.
        """
        self._checkpoint_seconds.observe(seconds)
        self._checkpoint_rows.inc(len(step.rows))
        self._events_applied.inc(applied)
        self._events_refused.inc(len(step.dead_letters))
        for counter, count in zip((self._gold_scores, self._gold_uncompared), gold, strict=True):
            counter.inc(count)
        self._capped.labels(str(partition)).inc(step.capped)
        for alert in step.alerts:
            self._alerts.labels(alert.rule, alert.status).inc()
        now_ns = time_ns()
        for parent, attributes, start_ns in traces:
            record_span("ragtide estimate", "CONSUMER", attributes, parent=parent, start_ns=start_ns, end_ns=now_ns)
