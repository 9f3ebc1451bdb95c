"""Requests of the OTLP, in a body or a file, become spans (opentelemetry-proto, `ExportTraceServiceRequest`)."""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.telemetry.tracing import OWN_SPANS, RESULTS_SCOPE, TRACER
from ragtide_schemas.printable import printable
from ragtide_schemas.times import EARLIEST, PER_SECOND, unit_since_1970, utc_now

from ..errors import InvalidTracesError, UnreadableFileError
from .counting import REMEDY, check_protobuf
from .span import Span, SpanEvent

try:
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1 import trace_pb2

    from .envelopes import json_request, mended_wire, old_scopes, with_typed_values
except ModuleNotFoundError:
    raise ConfigurationError("reading traces needs opentelemetry-proto: pip install 'ragtide[web]'") from None

Encoding = Literal["protobuf", "json"]

DEPTH_MAX: Final = 20
"""Levels of lists and mappings in an attribute; deeper values are left out."""
VECTOR_MIN: Final = 16
"""A list of at least so many numbers is an embedding. No score rests on it, so it is left out."""

_UNIT: Final = "nanoseconds"
_EARLIEST_NS: Final = int(EARLIEST.timestamp()) * PER_SECOND[_UNIT]
_PROTOCOL_S: Final = 1_546_300_800
"""2019, before which no span was sent. A smaller number may be the nanoseconds since a computer was started."""
_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8
_REMOTE_PARENT: Final = 0x300
"""Bits of a span's flags: it is known whether the parent is remote, and it is (trace.proto, `SpanFlags`)."""

CAPTURE_MAX_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of a file, and of its decompressed content."""
_GZIP: Final = b"\x1f\x8b"


def decode_request(body: bytes, encoding: Encoding) -> ExportTraceServiceRequest:
    """Return the request in a body.

    In OTLP's JSON the ids are hexadecimal, where protobuf's own JSON has base64, and unknown fields are ignored
    (OTLP specification, "JSON Protobuf Encoding"). The same spans under older names, in other envelopes (`batches` of
    Tempo) or one on a line are read, too. A text that is no UTF-8 is mended.

    Raises:
        TooManySpansError: the body has more elements than one request may have. It was not decoded.
        InvalidTracesError: the body is not such a request; the message names another format that is known.
    """
    if encoding == "protobuf":
        return _protobuf_request(body)
    request = ExportTraceServiceRequest()
    try:
        fields = json_request(body)
        try:
            ParseDict(fields, request, ignore_unknown_fields=True)
        except ParseError:
            request = ExportTraceServiceRequest()
            ParseDict(with_typed_values(fields), request, ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError) as error:
        detail = printable(str(error)[:200])
        raise InvalidTracesError(f"the body is not a request of traces in JSON ({detail}): {REMEDY}") from None
    return request


def _protobuf_request(body: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    check_protobuf(body)
    try:
        try:
            request.ParseFromString(body)
        except DecodeError:
            request.ParseFromString(mended_wire(body))
        for of_resource in request.resource_spans:
            if not of_resource.scope_spans:
                of_resource.scope_spans.extend(old_scopes(of_resource))
    except DecodeError:
        raise InvalidTracesError(f"the body is not a request of traces in protobuf: {REMEDY}") from None
    if body and not request.resource_spans:
        raise InvalidTracesError(f"the body is not a request of traces in protobuf (it has no spans): {REMEDY}")
    return request


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield the spans of a request; spans without a valid id and spans of ragtide are left out."""
    for of_resource in request.resource_spans:
        resource = read_attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for wire in of_scope.spans:
                if has_valid_ids(wire) and not is_of_ragtide(of_scope.scope.name, wire.name):
                    yield read_span(wire, resource)


def is_of_ragtide(scope: str, name: str) -> bool:
    """Whether a span is ragtide's own: a result, or a step of its work, such as a call of the judge.

    An application may name its tracer `ragtide`, so its name alone is no proof.

    >>> is_of_ragtide("ragtide.results", "ragtide evaluation"), is_of_ragtide("ragtide", "ragtide judge call")
    (True, True)
    >>> is_of_ragtide("ragtide", "answer"), is_of_ragtide("app", "ragtide judge call")
    (False, False)
    """
    return scope == RESULTS_SCOPE or (scope == TRACER and name.startswith(OWN_SPANS))


def has_valid_ids(span: trace_pb2.Span) -> bool:
    """Whether the ids have the lengths of the W3C Trace Context and are not all zero."""
    return (
        len(span.trace_id) == _TRACE_ID_BYTES
        and len(span.span_id) == _SPAN_ID_BYTES
        and len(span.parent_span_id) in (0, _SPAN_ID_BYTES)
        and any(span.trace_id)
        and any(span.span_id)
    )


def read_span(wire: trace_pb2.Span, resource: Mapping[str, Any]) -> Span:
    """Return a span of the wire, with the attributes of its resource.

    Some senders count another unit than nanoseconds: a time that can only be in another is read in that unit.
    """
    sent = (wire.start_time_unix_nano, wire.end_time_unix_nano)
    units = [_unit(time) for time in sent]
    start_ns, end_ns = (time * (PER_SECOND[_UNIT] // PER_SECOND[unit]) for time, unit in zip(sent, units, strict=True))
    return Span(
        trace_id=wire.trace_id.hex(),
        span_id=wire.span_id.hex(),
        parent_id=wire.parent_span_id.hex() if any(wire.parent_span_id) else None,
        name=wire.name,
        start_ns=start_ns,
        end_ns=max(start_ns, end_ns),
        time_unit=next((unit for unit in units if unit != _UNIT), _UNIT),
        attributes=read_attributes(wire.attributes),
        resource=resource,
        failed=wire.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        dropped_attributes=wire.dropped_attributes_count,
        trace_state=wire.trace_state,
        events=tuple(SpanEvent(event.name, read_attributes(event.attributes)) for event in wire.events),
        parent_is_remote=wire.flags & _REMOTE_PARENT == _REMOTE_PARENT,
    )


def _unit(time: int) -> str:
    unit = None if time >= _EARLIEST_NS else unit_since_1970(time, utc_now())
    return unit if unit and time >= _PROTOCOL_S * PER_SECOND[unit] else _UNIT


def read_attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes by name, without embeddings and bytes."""
    attributes = {}
    for pair in pairs:
        key = pair.key
        value = None if key.endswith(".vector") else _value(pair.value)
        if value is not None:
            attributes[key] = value
    return attributes


def _value(value: AnyValue, depth: int = 0) -> Any:
    kind = value.WhichOneof("value")
    if kind == "string_value" or kind is None:  # nearly every value
        return value.string_value
    if kind in ("bool_value", "int_value", "double_value"):
        return getattr(value, kind)
    if depth == DEPTH_MAX:
        return None
    if kind == "array_value":
        return None if is_vector(value) else [_value(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return None


def is_vector(value: AnyValue) -> bool:
    """Whether a value is an embedding: a long list of numbers."""
    items = value.array_value.values
    return len(items) >= VECTOR_MIN and all(
        item.HasField("double_value") or item.HasField("int_value") for item in items
    )


def read_capture(path: Path) -> list[Span]:
    """Return the spans in a file: protobuf, JSON, or a JSON object a line; compressed with gzip or not.

    Raises:
        UnreadableFileError: the file cannot be read, is too large, or has another content.
    """
    try:
        with path.open("rb") as file:
            body = file.read(CAPTURE_MAX_BYTES + 1)
        if body.startswith(_GZIP):
            with gzip.open(path) as compressed:
                body = compressed.read(CAPTURE_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFileError(f"{path} cannot be read: {error}") from None
    if len(body) > CAPTURE_MAX_BYTES:
        raise UnreadableFileError(f"{path} has more than {CAPTURE_MAX_BYTES} bytes: split it")
    try:
        is_json = body.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")
        return list(spans_of(decode_request(body, "json" if is_json else "protobuf")))
    except InvalidTracesError as error:
        raise UnreadableFileError(f"{path}: {error}") from None
