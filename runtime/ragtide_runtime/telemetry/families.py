"""Makes families of samples for collectors, which compute their samples when Prometheus asks."""

from collections.abc import Iterable

from prometheus_client import core

from .metric import Metric


def family(metric: Metric, samples: Iterable[tuple[tuple[str, ...], float]]) -> core.Metric:
    """Return the samples of a metric, each given by the values of its labels and its value."""
    make = core.CounterMetricFamily if metric.kind == "counter" else core.GaugeMetricFamily
    result = make(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in samples:
        result.add_metric(labels, value)
    return result
