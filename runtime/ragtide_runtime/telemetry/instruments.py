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


class JudgeInstruments:
    """The metrics of the judge's client of a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.calls = counter(catalogue.JUDGE_CALLS, registry)
        self.call_seconds = histogram(catalogue.JUDGE_CALL_SECONDS, registry)
        self.tokens = counter(catalogue.JUDGE_TOKENS, registry)
        self.cost_usd = counter(catalogue.JUDGE_COST, registry)
        self.cache_hits = counter(catalogue.JUDGE_CACHE_HITS, registry)
        self.breaker_open = gauge(catalogue.JUDGE_BREAKER, registry)
        self.calls_allowed = gauge(catalogue.JUDGE_AT_ONCE, registry)


class AggregatorInstruments:
    """The metrics of the aggregators of a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.events_applied = counter(catalogue.EVENTS_APPLIED, registry)
        self.events_refused = counter(catalogue.EVENTS_REFUSED, registry)
        self.checkpoint_seconds = histogram(catalogue.CHECKPOINT_SECONDS, registry)
        self.checkpoint_rows = counter(catalogue.CHECKPOINT_ROWS, registry)
        self.lease_owned = gauge(catalogue.LEASE_OWNED, registry)
        self.leases_lost = counter(catalogue.LEASES_LOST, registry)
        self.keys = gauge(catalogue.KEYS, registry)
        self.capped = counter(catalogue.CAPPED, registry)
        self.alerts = counter(catalogue.ALERTS, registry)


class RecorderInstruments:
    """The metrics of the recorder of a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.recorded = counter(catalogue.RECORDED, registry)
        self.unreadable = counter(catalogue.RECORDED_UNREADABLE, registry)
        self.withheld = counter(catalogue.RECORDED_WITHHELD, registry)
        self.bytes = counter(catalogue.RECORDED_BYTES, registry)
        self.redactions = counter(catalogue.REDACTIONS, registry)
        self.owned = gauge(catalogue.RECORDER_OWNED, registry)
        self.manifest = gauge(catalogue.RECORDER_MANIFEST, registry)
