"""Sends the spans of an instrumented application to ragtide: one call of `configure`.

The application is instrumented by OpenInference, OpenLLMetry, or the conventions for generative AI of OpenTelemetry.
`ragtide serve` makes interactions of its spans. This module needs the extra `ragtide[otel]`.
"""

import atexit
import logging
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.forks import NOT_FORKING
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_runtime.settings.serve import DEFAULT_PORT
from ragtide_schemas.base import Name

try:
    from opentelemetry import trace
    from opentelemetry.context import Context, get_value
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span, SpanLimits, SpanProcessor, TracerProvider

    from ragtide_runtime.telemetry.span_exporter import HttpSpanExporter, SpanBatches, otlp_url
except ImportError as error:
    raise ImportError(f"ragtide.otel needs {error.name}: pip install 'ragtide[otel]'") from error

__all__ = ["configure", "flush", "shutdown"]

ATTRIBUTES_MAX: Final = 10_000
"""Most attributes of a span: a retrieval with 50 documents has 200 and more."""
ATTRIBUTES_ENOUGH: Final = 1000
"""Limit of an existing provider below which a warning is logged."""

_OF_CONTEXT: Final = {"session.id": "ragtide.session_id", "user.id": "ragtide.user_id"}
"""Keys of the context that OpenInference's `using_attributes` sets, and the attributes of a span that always win."""

log = logging.getLogger("ragtide.otel")


@dataclass(frozen=True, slots=True)
class _Configured:
    pipeline: str
    url: str
    batches: SpanBatches


class _OwnSessions(SpanProcessor):
    """Notes the session and the user that the application set: an instrumentation may write its own in their place."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        for key, name in _OF_CONTEXT.items():
            if (value := get_value(key, parent_context)) is not None:
                span.set_attribute(name, str(value))


_configured: "WeakKeyDictionary[trace.TracerProvider, _Configured]" = WeakKeyDictionary()


def configure(
    pipeline: str,
    *,
    endpoint: str | None = None,
    token: str | None = None,
    provider: TracerProvider | None = None,
) -> trace.TracerProvider:
    """Send the spans of this process to ragtide, as the spans of a pipeline, and return the tracer provider.

    If OpenTelemetry has no tracer provider yet, one is made and set, with limits that cut no documents. An existing
    provider keeps its own exporters and gets one more. Spans are sent by a background thread, in the children of forks
    too; nothing that the receiver does raises an error here. The remaining spans are sent at the end of the process,
    for at most five seconds. A second call changes nothing.

    Args:
        pipeline: name of the pipeline. A span with the attribute `ragtide.pipeline` is of that pipeline instead.
        endpoint: address of `ragtide serve`; by default the setting `otel.endpoint` (`RAGTIDE_OTEL_ENDPOINT`), else its
            port on this machine. A wrong address is logged, and then nothing is sent.
        token: token of `ragtide serve`; by default the setting `otel.token` (`RAGTIDE_OTEL_TOKEN`).
        provider: the provider to use instead of the global one; it is not set as the global one.

    Raises:
        ValueError: the name of the pipeline is empty, too long, or has control characters.
    """
    try:
        TypeAdapter(Name).validate_python(pipeline)
    except ValidationError as error:
        raise ValueError(f"pipeline is no name: {error.errors()[0]['msg']}") from None
    try:
        settings = settings_of_application()
    except ConfigurationError as error:
        log.error("ragtide.otel ignores the settings: %s", error)  # noqa: TRY400 - the trace tells nothing more
        settings = Settings.model_construct()
    with NOT_FORKING:
        chosen = provider or _provider(pipeline)
        known = _configured.get(chosen)
        if known is not None:
            if known.pipeline != pipeline:
                log.warning(
                    "ragtide.otel sends the spans of this process as those of %r, and %r changes nothing: set the "
                    "attribute ragtide.pipeline on the spans of another pipeline",
                    known.pipeline,
                    pipeline,
                )
        else:
            address = endpoint or settings.otel.endpoint or f"http://127.0.0.1:{settings.serve.port or DEFAULT_PORT}"
            secret = token or (settings.otel.token.get_secret_value() if settings.otel.token else None)
            _extend(chosen, pipeline, address, {"authorization": f"Bearer {secret}"} if secret else {})
        return chosen


def flush(timeout_s: float = 5.0) -> bool:
    """Send the spans that wait, and return whether all were taken, such as before a function in a cloud is frozen."""
    with NOT_FORKING:
        configurations = list(_configured.values())
    taken = [configured.batches.force_flush(int(timeout_s * 1000)) for configured in configurations]
    return all(taken)


def shutdown() -> None:
    """Send the spans that wait, for at most five seconds, and send no more. The end of the process does the same."""
    with NOT_FORKING:
        configurations = list(_configured.values())
    for configured in configurations:
        configured.batches.shutdown()


def _provider(pipeline: str) -> trace.TracerProvider:
    known = trace.get_tracer_provider()
    if not isinstance(known, trace.ProxyTracerProvider):
        return known
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": pipeline}))
    # A cut value cannot be told from a whole one, so a limit of length in the environment does not count here.
    limits = SpanLimits(
        max_span_attributes=ATTRIBUTES_MAX,
        max_events=ATTRIBUTES_MAX,
        max_event_attributes=ATTRIBUTES_MAX,
        max_attribute_length=SpanLimits.UNSET,
        max_span_attribute_length=SpanLimits.UNSET,
    )
    new_provider = TracerProvider(resource=resource, span_limits=limits)
    trace.set_tracer_provider(new_provider)
    return trace.get_tracer_provider()  # that of another thread, if it was faster


def _extend(provider: trace.TracerProvider, pipeline: str, endpoint: str, headers: dict[str, str]) -> None:
    try:
        url = otlp_url(endpoint)
    except ValueError as error:
        log.error(  # noqa: TRY400 - the trace tells nothing more
            "ragtide.otel sends no spans: the endpoint is wrong (%s); correct RAGTIDE_OTEL_ENDPOINT", error
        )
        return
    if not isinstance(provider, TracerProvider):
        log.error(
            "ragtide.otel sends no spans: the tracer provider is a %s, which takes no exporter; set a TracerProvider "
            "of opentelemetry.sdk, or call configure before it is set",
            type(provider).__name__,
        )
        return
    _check_limits(provider)
    exporter = HttpSpanExporter(
        url,
        headers=headers,
        resource={"ragtide.pipeline": pipeline},
        remedy="correct RAGTIDE_OTEL_ENDPOINT and RAGTIDE_OTEL_TOKEN",
    )
    batches = SpanBatches(exporter)
    provider.add_span_processor(_OwnSessions())
    provider.add_span_processor(batches)
    _configured[provider] = _Configured(pipeline, url, batches)
    atexit.register(batches.shutdown)


def _check_limits(provider: TracerProvider) -> None:
    limits: Any = getattr(provider, "_span_limits", None)
    most = getattr(limits, "max_span_attributes", None)
    length = getattr(limits, "max_span_attribute_length", None)
    if isinstance(most, int) and most < ATTRIBUTES_ENOUGH:
        log.warning(
            "the tracer provider keeps %d attributes of a span, so ragtide refuses retrievals with many documents: "
            "call ragtide.otel.configure before the provider is made, or set OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=%d",
            most,
            ATTRIBUTES_MAX,
        )
    if isinstance(length, int):
        log.warning(
            "the tracer provider cuts values after %d characters, so scores are of cut texts: unset "
            "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
            length,
        )
