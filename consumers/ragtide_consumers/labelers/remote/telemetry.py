"""Telemetry of the endpoints that the labelers of a process call: metrics of calls, and health."""

from collections.abc import Callable
from copy import copy

from prometheus_client import CollectorRegistry

from ragtide_runtime.calls.call_counts import CallCounts
from ragtide_runtime.telemetry.catalogue import JUDGE, SERVICE, EndpointMetrics
from ragtide_runtime.telemetry.health import ProcessTelemetry


class EndpointTelemetry:
    """The metrics of the calls of one endpoint."""

    def __init__(self, metrics: EndpointMetrics, registry: CollectorRegistry) -> None:
        self._metrics = metrics
        self._calls = metrics.calls.counter(registry)
        self._call_seconds = metrics.call_seconds.histogram(registry)
        self._tokens = [metric.counter(registry) for metric in metrics.tokens]
        self._cost_usd = metrics.cost_usd.counter(registry)
        self._cache_hits = metrics.cache_hits.counter(registry)
        self._breaker_open = metrics.breaker_open.gauge(registry)
        self._calls_allowed = metrics.calls_allowed.gauge(registry)
        self._name = ""
        self._purpose = ""
        self.counts = CallCounts()
        """Counts of the endpoint's calls that are not yet in Redis."""

    def of(self, name: str, purpose: str = "live") -> "EndpointTelemetry":
        """Return the metrics of an endpoint.

        Args:
            name: the judge's model, or the name of a service.
            purpose: of its calls: `live` traffic, or `runs`.
        """
        named = copy(self)
        named._name = name
        named._purpose = purpose
        named.counts = CallCounts()
        label = self._metrics.calls.labels[0]
        counters = (self._calls, *self._tokens, self._cost_usd, self._cache_hits)
        metrics = (self._metrics.calls, *self._metrics.tokens, self._metrics.cost_usd, self._metrics.cache_hits)
        for metric, counter in zip(metrics, counters, strict=True):
            metric.start(counter, **{label: (name,)})
        return named

    def report(self, *, breaker_open: Callable[[], bool], calls_allowed: Callable[[], int]) -> None:
        """Report the breaker and the allowed calls in flight at the time of each scrape."""
        self._breaker_open.labels(self._name).set_function(breaker_open)
        self._calls_allowed.labels(self._name).set_function(calls_allowed)

    def found(self, saved_usd: float) -> None:
        """Count an answer from the cache, and the probable price of the call that was not made."""
        self.counts.found(saved_usd)
        self._cache_hits.labels(self._name).inc()

    def answered(self, latency_s: float) -> None:
        """Count a call that was answered."""
        self.counts.answered(latency_s)
        self._calls.labels(self._name, "answered").inc()
        self._call_seconds.labels(self._name).observe(latency_s)

    def failed(self, outcome: str) -> None:
        """Count a call that failed, by the name of its failure."""
        self.counts.failed(outcome)
        self._calls.labels(self._name, outcome).inc()

    def spent(self, cost_usd: float, pipeline: str, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Count the cost of an answer for a pipeline, and its tokens if the endpoint counts them."""
        names = {"model": self._name, "purpose": self._purpose, "pipeline": pipeline}
        self.counts.spent(cost_usd, prompt_tokens, completion_tokens, **names)
        self._cost_usd.labels(self._name).inc(cost_usd)
        for tokens in self._tokens:
            tokens.labels(self._name, "prompt").inc(prompt_tokens)
            tokens.labels(self._name, "completion").inc(completion_tokens)


class LabelerTelemetry:
    """The metrics of the endpoints that the labelers of a process call, and the health of the process.

    Args:
        process: telemetry of the process; by default it is neither scraped nor served.
    """

    def __init__(self, process: ProcessTelemetry | None = None) -> None:
        process = process or ProcessTelemetry()
        self.health = process.health
        self.judge = EndpointTelemetry(JUDGE, process.registry)
        self.services = EndpointTelemetry(SERVICE, process.registry)
