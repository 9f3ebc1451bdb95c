"""OpenTelemetry traces of an interaction, from publishing to estimate.

An entry carries its trace in a second field, `traceparent` (W3C Trace Context). Spans are made with the global tracer
provider of the process: the application's own, or the provider that `exporting` sets for a role. If code in this
process has not imported OpenTelemetry and set a provider, no span is recorded, a span costs two or three microseconds,
and the context of an entry is passed on unchanged. Spans hold ids and numbers, never texts.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from ..errors import ConfigurationError
from ..redis.keys import TRACEPARENT_FIELD

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from ragtide_schemas import MetricEvent, RagInteraction

SpanRole = Literal["PRODUCER", "CONSUMER", "CLIENT"]
Attributes = Mapping[str, str | int | float]

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Standard variables: a role exports its spans if either variable is set."""

TRACER: Final = "ragtide"
"""Instrumentation scope of the spans of ragtide's own work."""
OWN_SPANS: Final = "ragtide "
"""Beginning of the names of these spans."""
RESULTS_SCOPE: Final = "ragtide.results"
"""Instrumentation scope of spans that carry results. They are not read as spans of an application."""

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class TracedSpan:
    """One span; without tracing it holds only the parent's context."""

    def __init__(self, span: "Span | None", parent: str) -> None:
        self._span = span
        self._parent = parent

    @property
    def traceparent(self) -> str:
        """The context to pass on: that of this span, or else of its parent; empty if neither has a context."""
        return _traceparent_of(self._span) or self._parent

    def add(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self._span is not None:
            self._span.set_attributes(attributes)

    def failed(self, how: str) -> None:
        """Mark the span as failed; `how` is a kind of failure, never a text."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - not in the core install

            self._span.set_status(StatusCode.ERROR, how)


@contextmanager
def traced(name: str, kind: SpanRole, attributes: Attributes, *, parent: str = "") -> Iterator[TracedSpan]:
    """Make a span that is the current span for the body of a `with`.

    Args:
        kind: role of this process in the exchange.
        attributes: ids and numbers.
        parent: traceparent of the span that caused it; empty for the current span.
    """
    tracer = _tracer()
    if tracer is None:
        yield TracedSpan(None, parent)
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - not in the core install

    with tracer.start_as_current_span(
        name,
        context=_context(parent),
        kind=SpanKind[kind],
        attributes=attributes,
        record_exception=False,  # the message of an exception might hold texts
        set_status_on_exception=False,
    ) as span:
        yield TracedSpan(span, parent)


def record_span(name: str, kind: SpanRole, attributes: Attributes, *, parent: str, start_ns: int, end_ns: int) -> None:
    """Make a span of an operation that has ended.

    Args:
        kind: role of this process in the exchange.
        attributes: ids and numbers.
        parent: traceparent of the span that caused it.
        start_ns: start of the operation, in nanoseconds since the epoch.
        end_ns: its end.
    """
    tracer = _tracer()
    if tracer is None:
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - not in the core install

    span = tracer.start_span(
        name, context=_context(parent), kind=SpanKind[kind], attributes=attributes, start_time=start_ns
    )
    span.end(end_ns)


def trace_publishing() -> "Callable[[RagInteraction], str] | None":
    """Return the function that makes the span of publishing an interaction, and returns its traceparent.

    There is none without tracing. Call both where the application publishes, not where a background thread
    sends: the current span is the parent. Without a tracer provider, the traceparent is that of the current span, if
    there is one.
    """
    if _tracer() is not None:
        return _traced_publishing
    current = _traceparent_of(_current_span())
    return (lambda _: current) if current else None


def _traced_publishing(interaction: "RagInteraction") -> str:
    with traced("ragtide publish", "PRODUCER", attributes_of(interaction)) as span:
        return span.traceparent


def attributes_of(interaction: "RagInteraction | MetricEvent") -> dict[str, str]:
    """Return the attributes of a span about an interaction, or about its metric event."""
    return {
        "messaging.system": "redis",
        "ragtide.pipeline": interaction.pipeline,
        "ragtide.interaction_id": interaction.interaction_id,
    }


def are_recorded() -> bool:
    """Return whether spans are recorded: code in this process has set a tracer provider."""
    return _tracer() is not None


def traceparent_of(fields: Mapping[bytes, bytes]) -> str:
    """Return an entry's trace context; empty if the field is missing or malformed."""
    traceparent = fields.get(TRACEPARENT_FIELD)
    return traceparent.decode() if traceparent is not None and _TRACEPARENT.fullmatch(traceparent) else ""


@contextmanager
def exporting(role: str) -> Iterator[None]:
    """Export the spans of this process for the body of a `with`, if a variable of `ENDPOINTS` names where to.

    The SDK reads every other `OTEL_*` variable itself. The remaining spans are sent at the end of the body.

    Args:
        role: names the service `ragtide-<role>`, unless `OTEL_SERVICE_NAME` names it.

    Raises:
        ConfigurationError: the variables are set and the packages are not installed.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        yield
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from .sdk_exporter import sdk_exporter  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            f"{' or '.join(ENDPOINTS)} is set, but OpenTelemetry is not installed: pip install 'ragtide[otel]', or "
            "unset the variable"
        ) from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"ragtide-{role}"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sdk_exporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def _tracer() -> "Tracer | None":
    # An application that traces has imported OpenTelemetry. An import here would slow down all other applications.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - not in the core install

    provider = trace.get_tracer_provider()
    # A ProxyTracerProvider means that no provider is set: spans would cost time and record nothing.
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider.get_tracer(TRACER)


def _current_span() -> "Span | None":
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace  # noqa: PLC0415 - not in the core install

    return trace.get_current_span()


def _context(parent: str) -> "Context | None":
    if not parent:
        return None
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - not in the core install
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


def _traceparent_of(span: "Span | None") -> str:
    context = None if span is None else span.get_span_context()
    if context is None or not context.is_valid:
        return ""
    # The same text as that of TraceContextTextMapPropagator.inject, without its context and carrier objects.
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
