"""Counters, gauges and histograms for the metrics of `catalogue.py`.

Instruments with a registry are scraped. Instruments without a registry count, but no scrape reads them, as in offline
scoring. Each instrument is created once per registry: Prometheus's client raises an error for a second one of the same
name.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from . import catalogue
from .catalogue import Metric


def counter(metric: Metric, registry: CollectorRegistry | None) -> Counter:
    """Return a counter as the catalogue describes it."""
    return Counter(metric.name, metric.meaning, metric.labels, registry=registry)


def gauge(metric: Metric, registry: CollectorRegistry | None) -> Gauge:
    """Return a gauge as the catalogue describes it."""
    return Gauge(metric.name, metric.meaning, metric.labels, registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry | None) -> Histogram:
    """Return a histogram as the catalogue describes it."""
    return Histogram(metric.name, metric.meaning, metric.labels, registry=registry, buckets=metric.buckets)


class WorkerInstruments:
    """The metrics of the label workers of a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.labelings = counter(catalogue.LABELINGS, registry)
        self.dead_letters = counter(catalogue.DEAD_LETTERS, registry)
        self.labeling_seconds = histogram(catalogue.LABELING_SECONDS, registry)
        self.in_flight = gauge(catalogue.IN_FLIGHT, registry)
        self.reclaimed = counter(catalogue.RECLAIMED, registry)

    def outcomes(self, labeler: str, names: Iterable[str]) -> dict[str, Counter]:
        """Return a labeler's counter of each outcome; each starts at 0, so that a rate includes its first event."""
        return {name: self.labelings.labels(labeler, name) for name in names}


class EndpointInstruments:
    """The metrics of the calls of one kind of endpoint that labelers ask."""

    def __init__(self, metrics: catalogue.EndpointMetrics, registry: CollectorRegistry | None = None) -> None:
        self.calls = counter(metrics.calls, registry)
        self.call_seconds = histogram(metrics.call_seconds, registry)
        self.tokens = [counter(metric, registry) for metric in metrics.tokens]
        self.cost_usd = counter(metrics.cost_usd, registry)
        self.cache_hits = counter(metrics.cache_hits, registry)
        self.breaker_open = gauge(metrics.breaker_open, registry)
        self.calls_allowed = gauge(metrics.calls_allowed, registry)


class LabelerInstruments:
    """The metrics of the endpoints that the labelers of a process ask."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.judge = EndpointInstruments(catalogue.JUDGE, registry)
        self.services = EndpointInstruments(catalogue.SERVICE, registry)
