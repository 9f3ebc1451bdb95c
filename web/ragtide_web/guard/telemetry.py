"""Telemetry of the HTTP service: requests, outcomes of items, and the headlines of the deployment."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Final

import structlog
from prometheus_client import core
from prometheus_client.registry import Collector

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.settings.telemetry import PrometheusSettings
from ragtide_runtime.telemetry import catalogue
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.metric import Metric, family
from ragtide_runtime.telemetry.quality_metrics import (
    HEADLINE,
    HEADLINE_LOWER,
    HEADLINE_METRICS,
    HEADLINE_N,
    HEADLINE_STATE,
    HEADLINE_UPPER,
)
from ragtide_schemas import Headline
from ragtide_schemas.printable import printable

from .problems import REDIS_ERRORS

log = structlog.get_logger("ragtide.web")

LIMIT_S: Final = 5.0
"""Seconds for which a scrape waits for the headlines; Prometheus gives a scrape up after ten by default."""

STARTED_STATUSES: Final = (200, 429, 500, 503)
"""Statuses with a series of each route from the start: answered, no room, a fault, and Redis or a role away."""

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
        self._left_out = catalogue.HTTP_LEFT_OUT.counter(registry)

    def serving(self, routes: Iterable[str]) -> None:
        """Report the routes that take requests, so that their answers and failures count from 0."""
        catalogue.HTTP_REQUESTS.start(self._requests, route=routes, status=STARTED_STATUSES)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request by its route and status."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def items(self, kind: str, outcomes: Mapping[str, int]) -> None:
        """Count interactions or feedback items by outcome."""
        for outcome, number in outcomes.items():
            if number:
                self._items.labels(kind, outcome).inc(number)

    def left_out(self, values: Mapping[str, int]) -> None:
        """Count values that were left out of items, by the field that had them."""
        for name, number in values.items():
            self._left_out.labels(name.partition(".")[0]).inc(number)


class HeadlineCollector(Collector):
    """Reports the headlines of whole live pipelines, as every screen shows them.

    Args:
        settings: most headlines, and how often they are read.
        process: telemetry of the process, until `close`.
    """

    def __init__(self, deployment: Deployment, settings: PrometheusSettings, process: ProcessTelemetry) -> None:
        self._deployment = deployment
        self._settings = settings
        self._registry = process.registry
        self._due_s = 0.0
        self._took_too_long = False
        self._headlines: list[Headline] = []
        self._registry.register(self)

    def close(self) -> None:
        """Report nothing more."""
        self._registry.unregister(self)

    async def refresh(self) -> None:
        """Read the headlines if that is due; nothing is reported while Redis does not answer within `LIMIT_S`."""
        began = monotonic()
        if began < self._due_s:
            return
        try:
            async with asyncio.timeout(LIMIT_S):
                standings = (await self._deployment.standings())[: self._settings.cap]
                level = self._deployment.settings.confidence
                self._headlines = [standing.headline(level) for standing in standings]
        except (*REDIS_ERRORS, CheckpointError) as error:
            if isinstance(error, TimeoutError) and not self._took_too_long:
                self._took_too_long = True
                log.warning("/metrics has no headlines: reading them took too long", limit_s=LIMIT_S)
            self._headlines = []
            self._due_s = monotonic() + self._settings.interval_s
        else:
            self._took_too_long = False
            # Reading takes at most a twentieth of the time.
            self._due_s = monotonic() + max(self._settings.interval_s, 20 * (monotonic() - began))

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics of headlines, some without samples."""
        known = [headline for headline in self._headlines if headline.estimate is not None]
        values: dict[Metric, list[tuple[Headline, float | None]]] = {
            HEADLINE: [(headline, headline.estimate) for headline in known],
            HEADLINE_LOWER: [(headline, headline.lower) for headline in known],
            HEADLINE_UPPER: [(headline, headline.upper) for headline in known],
            HEADLINE_N: [(headline, float(headline.n)) for headline in self._headlines],
            HEADLINE_STATE: [(headline, 1.0) for headline in self._headlines],
        }
        for metric in HEADLINE_METRICS:
            yield family(
                metric,
                [
                    (tuple(printable(getattr(headline, label) or "") for label in metric.labels), value)
                    for headline, value in values[metric]
                    if value is not None
                ],
            )
