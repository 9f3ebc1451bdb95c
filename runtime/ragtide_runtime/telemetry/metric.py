"""The description of one Prometheus metric."""

from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MetricType = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """The description of one Prometheus metric."""

    name: str
    """Name in a scrape, without the suffixes that Prometheus adds to a histogram."""
    kind: MetricType
    meaning: str
    """The help text, one sentence."""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper ends of a histogram's buckets, in seconds."""

    def counter(self, registry: CollectorRegistry | None) -> Counter:
        """Return a counter of this metric; without a registry no scrape reads it."""
        return Counter(self.name, self.meaning, self.labels, registry=registry)

    def gauge(self, registry: CollectorRegistry | None) -> Gauge:
        """Return a gauge of this metric; without a registry no scrape reads it."""
        return Gauge(self.name, self.meaning, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry | None) -> Histogram:
        """Return a histogram of this metric; without a registry no scrape reads it."""
        return Histogram(self.name, self.meaning, self.labels, registry=registry, buckets=self.buckets)
