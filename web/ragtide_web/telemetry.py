"""Telemetry of the HTTP service: counts and durations of requests, and outcomes of items."""

from collections.abc import Mapping
from typing import Final

from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry

ROLE: Final = "serve"
"""Name of the role in health reports."""


class HttpTelemetry:
    """Counts requests, and the items that they sent.

    Args:
        process: telemetry of the process.
    """

    def __init__(self, process: ProcessTelemetry) -> None:
        registry = process.registry
        self._requests = catalogue.HTTP_REQUESTS.counter(registry)
        self._seconds = catalogue.HTTP_SECONDS.histogram(registry)
        self._items = catalogue.HTTP_ITEMS.counter(registry)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request by its route and status."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def items(self, kind: str, outcomes: Mapping[str, int]) -> None:
        """Count interactions or feedback items by outcome."""
        for outcome, number in outcomes.items():
            if number:
                self._items.labels(kind, outcome).inc(number)
