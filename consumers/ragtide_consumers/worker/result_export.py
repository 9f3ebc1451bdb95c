"""Sends results into the traces of their interactions, if the setting `otel.results` is on: as log events or as spans.

A result is sent after it was committed. It waits in a bounded queue, and a thread sends it. Neither a full queue nor
the receiver delays a worker: results that cannot be sent are dropped and counted, because Redis has them.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.telemetry import OtelSettings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricEvent, RagInteraction

from ..labelers.protocol import Labeling
from ..redaction.process import NotRedactedError, RedactionAbortedError, RedactionError
from ..redaction.redaction import Redaction
from .result_target import ResultTarget, result_target
from .telemetry import WorkerTelemetry

if TYPE_CHECKING:
    from ragtide_runtime.telemetry.span_exporter import HttpSpanExporter, SpanBatches

VARIABLE: Final = "OTEL_EXPORTER_OTLP_{}"
"""Name of a variable of OpenTelemetry; one for a signal has the name of the signal before `ENDPOINT` or `HEADERS`."""
SIGNALS: Final = {"log_events": ("logs", "log events"), "span": ("traces", "spans")}
"""The signal of each form of results: its name in addresses and variables, and what it sends."""
QUEUE: Final = 4096
"""Most results that wait to be sent."""

log = structlog.get_logger("ragtide.results")


class ResultExport:
    """Makes a span of each result, and passes it on to be sent, whole or as its log events.

    Args:
        batches: the queue and its sender.
        telemetry: counts results by outcome.
        reasons: redacts the judge's reasons that leave with the scores; None if none leaves.
    """

    def __init__(self, batches: "SpanBatches", telemetry: WorkerTelemetry, *, reasons: Redaction | None = None) -> None:
        from .result_spans import result_span  # noqa: PLC0415 - an extra

        self._span_of = result_span
        self._batches = batches
        self._outcomes = telemetry.result_spans
        self._log_limit = LogLimit()
        self._reasons = reasons

    async def target(
        self, interaction: RagInteraction, traceparent: str, labeling: Labeling, event: MetricEvent
    ) -> ResultTarget | None:
        """Return what a result is about; None if no backend has a span of it.

        No reason leaves that could not be redacted. It raises no error.
        """

        def with_reasons() -> ResultTarget | None:
            return result_target(interaction, traceparent, labeling, event, reasons=self._reasons)

        try:
            # A text that a child process redacts would block the event loop.
            if self._reasons is not None and self._reasons.waits:
                return await asyncio.to_thread(with_reasons)
            return with_reasons()
        except (NotRedactedError, RedactionError, RedactionAbortedError) as error:
            self._log_limit.warning(log, type(error).__name__, "a result leaves without its reasons", error=str(error))
        return result_target(interaction, traceparent, labeling, event)

    def emit(self, event: MetricEvent, target: ResultTarget | None) -> None:
        """Queue the span of a result; never waits and never raises an error.

        Args:
            event: the result.
            target: what it is about; None if no backend has a span of it.
        """
        if target is None:
            self._outcomes.labels("no_trace").inc()
            return
        try:
            span = self._span_of(event, target)
            if span is not None and not self._batches.add(span):
                self._outcomes.labels("dropped").inc()
        except Exception as error:  # noqa: BLE001 - the result is committed: nothing here may stop the worker
            self._outcomes.labels("dropped").inc()
            self._log_limit.warning(log, type(error).__name__, "a result cannot be made a span", error=str(error))


@asynccontextmanager
async def exporting_results(
    settings: OtelSettings, telemetry: WorkerTelemetry, *, reasons: Redaction | None = None
) -> AsyncIterator[ResultExport | None]:
    """Send results for the body of an `async with`; give None if the setting is off.

    The results that wait at the end are sent, for at most five seconds.

    Args:
        telemetry: counts results by outcome.
        reasons: redacts the judge's reasons that leave with the scores, and is closed at the end; None if none leaves.

    Raises:
        ConfigurationError: the setting is on, and the address is missing or wrong, or the packages are not installed.
    """
    if not settings.results:
        yield None
        return

    def report(outcome: str, results: int) -> None:
        telemetry.result_spans.labels(outcome).inc(results)

    exporter = result_exporter(settings, report)
    from ragtide_runtime.telemetry.span_exporter import SpanBatches  # noqa: PLC0415 - an extra

    batches = SpanBatches(exporter, queue=QUEUE)
    try:
        yield ResultExport(batches, telemetry, reasons=reasons)
    finally:
        await asyncio.to_thread(batches.shutdown)
        if reasons is not None:
            await asyncio.to_thread(reasons.close)


def result_exporter(settings: OtelSettings, report: Callable[[str, int], None] | None = None) -> "HttpSpanExporter":
    """Return what sends results to their backend in the form of the settings.

    Args:
        report: is called with `sent` or `lost`, and a number of results.

    Raises:
        ConfigurationError: the address is missing or wrong, or the packages are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415 - an extra

        from ragtide_runtime.telemetry.span_exporter import HttpSpanExporter  # noqa: PLC0415

        from .result_events import encode_events  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            "otel.results is on, but OpenTelemetry is not installed: pip install 'ragtide[otel]', or set otel.results "
            "to false"
        ) from None
    url, headers = _address_and_headers(settings, os.environ)
    is_span = settings.results_form == "span"
    remedy = "correct otel.results_endpoint and otel.results_headers"
    span_advice = f'no log events are taken there: set otel.results_form = "span" if it takes traces, or {remedy}'
    return HttpSpanExporter(
        url,
        headers=headers,
        remedy=remedy,
        absent=remedy if is_span else span_advice,
        encode=encode_spans if is_span else encode_events,
        noun="results",
        report=report,
    )


def _address_and_headers(settings: OtelSettings, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    from opentelemetry.util.re import parse_env_headers  # noqa: PLC0415 - an extra

    from ragtide_runtime.telemetry.span_exporter import otlp_url  # noqa: PLC0415 - an extra

    signal, sent = SIGNALS[settings.results_form]
    path, shared = f"/v1/{signal}", VARIABLE.format("ENDPOINT")
    written = settings.results_headers.get_secret_value() if settings.results_headers else ""
    name, endpoint = "otel.results_endpoint", settings.results_endpoint or ""
    if not endpoint:
        names = (VARIABLE.format(f"{signal.upper()}_ENDPOINT"), shared)
        name = next((variable for variable in names if environment.get(variable)), "")
        endpoint = environment.get(name, "")
        if name == shared:
            endpoint = endpoint.rstrip("/") + path
        headers_of = (VARIABLE.format(f"{signal.upper()}_HEADERS"), VARIABLE.format("HEADERS"))
        written = written or next((value for variable in headers_of if (value := environment.get(variable))), "")
    if not endpoint:
        raise ConfigurationError(f"otel.results is on without an address: set otel.results_endpoint, or {shared}")
    try:
        url = otlp_url(endpoint, path)
    except ValueError as error:
        raise ConfigurationError(f"{name} is wrong: {error}") from None
    for form, (other, others) in SIGNALS.items():
        if other != signal and urlsplit(url).path.rstrip("/").endswith(f"/v1/{other}"):
            raise ConfigurationError(
                f"{name} is an address of {others} (/v1/{other}), and results leave as {sent}: set otel.results_form = "
                f'"{form}", or write the address of {sent} (/v1/{signal})'
            )
    headers = dict(parse_env_headers(written, liberal=True))
    if written.strip() and not headers:
        raise ConfigurationError("otel.results_headers cannot be read: write name=value,name=value")
    return url, headers
