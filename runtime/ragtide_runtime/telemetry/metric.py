"""The description of a Prometheus metric, and families of samples: made for collectors, and filtered by pipeline."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
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
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Every value of a label that has few. The other labels have names of a deployment, such as models."""
    buckets: tuple[float, ...] = ()
    """Upper ends of a histogram's buckets, in seconds."""
    together: Literal["sum", "max"] = "sum"
    """How the values of a gauge in several processes of one command become one value."""

    def counter(self, registry: CollectorRegistry | None, **names: Iterable[object]) -> Counter:
        """Return a counter of this metric whose known series exist, at 0; without a registry no scrape reads it.

        Args:
            names: values of the labels that are not in `values`, as far as they are known at the start.
        """
        counter = Counter(self.name, self.meaning, self.labels, registry=registry)
        if self.labels:
            self.start(counter, **names)
        return counter

    def start(self, counter: Counter, **names: Iterable[object]) -> None:
        """Create the series of names that became known, at 0.

        `increase` of Prometheus misses the first events of a series that is born with a value.

        Args:
            names: values of the labels that are not in `values`; without those of a label there is no series.
        """
        for values in product(*(tuple(names.get(label, self.values.get(label, ()))) for label in self.labels)):
            counter.labels(*map(str, values))

    def zeros(self) -> dict[str, int]:
        """Return every known value of the last label, at 0."""
        return dict.fromkeys(self.values.get(self.labels[-1], ()), 0)

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


class Registry(CollectorRegistry):
    """The metrics of a process.

    Prometheus needs no time of creation beside a counter or a histogram: it doubles the number of series. The switch of
    the library against it is for a whole process, in which an application may have metrics of its own.
    """

    def collect(self) -> Iterator[core.Metric]:
        """Yield the families, without series of times of creation."""
        for metric in super().collect():
            if metric.type in ("counter", "histogram"):
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Collected(Collector):
    """Families that were collected before, so that a thread can encode them while their sources change.

    Args:
        families: what was collected.
    """

    def __init__(self, families: Iterable[core.Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[core.Metric]:
        """Yield the families."""
        return iter(self._families)


TIME: Final = "_start_time_seconds"
"""End of the names of samples that are times."""

OF_THE_PROCESS: Final = ("ragtide_redis_up", "ragtide_http_request")
"""Beginnings of the names of metrics without a pipeline that say nothing of other pipelines."""


def of_pipelines(
    families: Iterable[core.Metric], may_see: Callable[[str], bool], *, deployment: bool = True
) -> Iterator[core.Metric]:
    """Yield families without the samples of pipelines that a client may not see.

    Args:
        families: all samples.
        may_see: whether the client may see a pipeline.
        deployment: whether the client may see numbers of the whole deployment, such as its dollars and dead letters.
    """
    for family in families:
        visible = core.Metric(family.name, family.documentation, family.type, family.unit)
        of_deployment = deployment or not family.name.startswith("ragtide_") or family.name.startswith(OF_THE_PROCESS)
        visible.samples = [
            sample
            for sample in family.samples
            if (may_see(sample.labels["pipeline"]) if "pipeline" in sample.labels else of_deployment)
        ]
        yield visible


def merged(families: Iterable[core.Metric], highest: Collection[str] = ()) -> list[core.Metric]:
    """Return the families of several processes as those of one: each sample is the sum of theirs.

    Of a time, such as that of a start, the earliest counts.

    Args:
        highest: gauges of which the highest value counts.
    """
    by_name: dict[str, core.Metric] = {}
    values: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
    for family in families:
        by_name.setdefault(family.name, core.Metric(family.name, family.documentation, family.type, family.unit))
        for sample in family.samples:
            key = family.name, sample.name, tuple(sample.labels.items())
            if key not in values:
                values[key] = sample.value
            elif sample.name.endswith(TIME):
                values[key] = min(values[key], sample.value)
            elif family.name in highest:
                values[key] = max(values[key], sample.value)
            else:
                values[key] += sample.value
    for (name, sample_name, labels), value in values.items():
        by_name[name].add_sample(sample_name, dict(labels), value)
    return list(by_name.values())
