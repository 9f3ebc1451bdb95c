"""Counting the calls of an endpoint for Prometheus."""

from collections.abc import Callable

from ragtide_runtime.telemetry.instruments import EndpointInstruments


class CallCounter:
    """Counts the calls of one endpoint.

    Args:
        instruments: the metrics.
        name: value of their label: the judge's model, or the name of a service.
    """

    def __init__(self, instruments: EndpointInstruments, name: str) -> None:
        self._instruments = instruments
        self._name = name

    def watch(self, *, breaker_open: Callable[[], bool], calls_allowed: Callable[[], int]) -> None:
        """Show the breaker and the calls that are allowed in flight, as they are when scraped."""
        self._instruments.breaker_open.labels(self._name).set_function(breaker_open)
        self._instruments.calls_allowed.labels(self._name).set_function(calls_allowed)

    def found(self) -> None:
        """Count an answer from the cache."""
        self._instruments.cache_hits.labels(self._name).inc()

    def answered(self, latency_s: float) -> None:
        """Count a call that was answered."""
        self._instruments.calls.labels(self._name, "answered").inc()
        self._instruments.call_seconds.labels(self._name).observe(latency_s)

    def failed(self, outcome: str) -> None:
        """Count a call that failed, by the name of its failure."""
        self._instruments.calls.labels(self._name, outcome).inc()

    def spent(self, cost_usd: float, *, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """Count the cost of an answer, and its tokens where the endpoint counts them."""
        self._instruments.cost_usd.labels(self._name).inc(cost_usd)
        for tokens in self._instruments.tokens:
            tokens.labels(self._name, "prompt").inc(prompt_tokens)
            tokens.labels(self._name, "completion").inc(completion_tokens)
