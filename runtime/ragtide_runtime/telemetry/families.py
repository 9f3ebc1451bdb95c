"""Families of samples: made for collectors, and filtered by pipeline for clients that may not see all of them."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, core
from prometheus_client.registry import Collector

from .metric import Metric


def family(metric: Metric, samples: Iterable[tuple[tuple[str, ...], float]]) -> core.Metric:
    """Return the samples of a metric, each given by the values of its labels and its value."""
    make = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
    result = make(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in samples:
        result.add_metric(labels, value)
    return result


def of_pipelines(registry: CollectorRegistry, may_see: Callable[[str], bool]) -> CollectorRegistry:
    """Return a registry with the samples of a registry, without those of pipelines that a client may not see."""
    result = CollectorRegistry()
    result.register(_PipelineFilter(registry, may_see))
    return result


class _PipelineFilter(Collector):
    def __init__(self, registry: CollectorRegistry, may_see: Callable[[str], bool]) -> None:
        self._registry = registry
        self._may_see = may_see

    def collect(self) -> Iterator[core.Metric]:
        for found in self._registry.collect():
            shown = core.Metric(found.name, found.documentation, found.type, found.unit)
            shown.samples = [
                one for one in found.samples if "pipeline" not in one.labels or self._may_see(one.labels["pipeline"])
            ]
            yield shown
