"""Hand-made traces as requests of the OTLP: a span is a line."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

STEP_NS = 1_000_000_000
START_NS = 1_790_000_000 * STEP_NS
REMOTE_KNOWN, REMOTE = 0x100, 0x300


def span(
    number: int,
    parent: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    *,
    trace: int = 1,
    at: tuple[float, float] = (0, 1),
    remote: bool = False,
    **fields: Any,
) -> WireSpan:
    """Return a span with numbers as ids; `at` is its start and its end in seconds."""
    return WireSpan(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        flags=REMOTE if remote else REMOTE_KNOWN,
        start_time_unix_nano=int(START_NS + at[0] * STEP_NS),
        end_time_unix_nano=int(START_NS + at[1] * STEP_NS),
        attributes=[KeyValue(key=key, value=_value(value)) for key, value in (attributes or {}).items()],
        **{"name": f"span {number}", **fields},
    )


def _value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, dict):
        return AnyValue(string_value=json.dumps(value))
    if isinstance(value, list | tuple):
        return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))
    return AnyValue(string_value=str(value))


def request(*spans: WireSpan, service: str = "shop", **resource: Any) -> ExportTraceServiceRequest:
    """Return a request with these spans of one service."""
    found = ExportTraceServiceRequest()
    of_resource = found.resource_spans.add()
    attributes = {"service.name": service, **resource}
    of_resource.resource.attributes.extend(KeyValue(key=key, value=_value(value)) for key, value in attributes.items())
    of_resource.scope_spans.add().spans.extend(spans)
    return found


def rag(
    question: str = "Which tea?", documents: Sequence[str] = ("Green tea.",), answer: str = "Green.", **ids: Any
) -> list[WireSpan]:
    """Return a chain with a retrieval and a model call below it, in OpenInference's names: the root comes last."""
    first, parent, trace = ids.get("first", 1), ids.get("parent"), ids.get("trace", 1)
    start = ids.get("start", 0)
    found = {f"retrieval.documents.{i}.document.content": text for i, text in enumerate(documents)}
    kind = "openinference.span.kind"
    return [
        span(
            first + 1,
            first,
            {kind: "RETRIEVER", "input.value": question, **found},
            trace=trace,
            at=(start + 0.1, start + 0.2),
        ),
        span(first + 2, first, {kind: "LLM", "output.value": answer}, trace=trace, at=(start + 0.3, start + 0.8)),
        span(
            first,
            parent,
            {kind: "CHAIN", "input.value": question, "output.value": answer},
            trace=trace,
            at=(start, start + 1),
            remote=ids.get("remote", False),
        ),
    ]
