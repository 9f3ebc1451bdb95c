"""The description of a Prometheus metric, and families of samples: made for collectors, and filtered by pipeline."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, core
from prometheus_client.registry import Collector

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


def family(metric: Metric, samples: Iterable[tuple[tuple[str, ...], float]]) -> core.Metric:
    """Return the samples of a metric, each given by the values of its labels and its value."""
    make = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
    result = make(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in samples:
        result.add_metric(labels, value)
    return result


class Collected(Collector):
    """Families that were collected before, so that a thread can encode them while their sources change.

    Args:
        registry: what to collect.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._families = list(registry.collect())

    def collect(self) -> Iterator[core.Metric]:
        """Yield the families."""
        return iter(self._families)


OF_THE_PROCESS: Final = ("ragtide_redis_up", "ragtide_http_request")
"""Beginnings of the names of metrics without a pipeline that say nothing of other pipelines."""


def of_pipelines(
    registry: CollectorRegistry, may_see: Callable[[str], bool], *, deployment: bool = True
) -> CollectorRegistry:
    """Return a registry with the samples of a registry, without those of pipelines that a client may not see.

    Args:
        registry: all samples.
        may_see: whether the client may see a pipeline.
        deployment: whether the client may see numbers of the whole deployment, such as its dollars and dead letters.
    """
    result = CollectorRegistry()
    result.register(_PipelineFilter(registry, may_see, deployment))
    return result


class _PipelineFilter(Collector):
    def __init__(self, registry: CollectorRegistry, may_see: Callable[[str], bool], deployment: bool) -> None:
        self._registry = registry
        self._may_see = may_see
        self._deployment = deployment

    def collect(self) -> Iterator[core.Metric]:
        for found in self._registry.collect():
            shown = core.Metric(found.name, found.documentation, found.type, found.unit)
            of_deployment = self._deployment or not found.name.startswith("ragtide_")
            of_deployment = of_deployment or found.name.startswith(OF_THE_PROCESS)
            shown.samples = [
                sample
                for sample in found.samples
                if (self._may_see(sample.labels["pipeline"]) if "pipeline" in sample.labels else of_deployment)
            ]
            yield shown
