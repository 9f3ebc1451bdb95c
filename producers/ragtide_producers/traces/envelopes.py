"""Bodies that hold spans under another name or with broken texts, and bodies of other formats, which are named.

Sources: OpenTelemetry protocol (old names until 0.15), Grafana Tempo (`batches`), Jaeger and Zipkin (their JSON).
"""

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from ragtide_schemas.plain_values import whole
from ragtide_schemas.printable import printable

from .counting import check_counts, check_json

Json = dict[str, Any]

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_IDS: Final = {"traceId": 16, "spanId": 8, "parentSpanId": 8, "trace_id": 16, "span_id": 8, "parent_span_id": 8}
"""Fields with ids, and the bytes of each."""
_REQUESTS: Final = ("resourceSpans", "resource_spans", "batches")
_SCOPES: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPE: Final = {"instrumentationLibrary", "instrumentation_library"}
_TIMES: Final = {"startTimeUnixNano", "endTimeUnixNano", "start_time_unix_nano", "end_time_unix_nano"}
_EVENT_TIMES: Final = {"timeUnixNano", "time_unix_nano"}
_HALF: Final = 0xFFFF_FFFF
_OLD_SCOPES: Final = 1000
"""Number of the field `instrumentation_library_spans` in resource spans of OTLP 0.15 to 0.18."""
_KEYS_SHOWN: Final = 6

_FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    "a request of logs": ("resourceLogs", "resource_logs"),
    "a request of metrics": ("resourceMetrics", "resource_metrics"),
    "the JSON of Jaeger": ("traceID", "processes", "operationName"),
    "the JSON of Zipkin": ("localEndpoint", "remoteEndpoint"),
    "an export of LangSmith": ("run_type",),
    "an export of Langfuse": ("observations", "parentObservationId", "traceId", "projectId"),
    "the output of a console exporter": ("context",),
}
"""Other formats, by keys of which one is enough to know the format."""


def json_request(body: bytes) -> Json:
    """Return the fields of an OTLP request: `resourceSpans`, with its ids in base64 as protobuf's JSON has them.

    In OTLP's JSON the ids are hexadecimal, in that of Tempo base64. A body may have a JSON value a line. Half a pair of
    surrogates and bytes that are not UTF-8 become the replacement character.

    Args:
        body: the request, in any encoding that JSON has, with a mark before it or not.

    Raises:
        TooManySpansError: the body has more elements than one request may have.
        ValueError: the body is no JSON, or holds no spans of OTLP; the message names the format if it is known.
        RecursionError: the JSON is too deep.
    """
    encoding = json.detect_encoding(body)
    text = _decoded(body, encoding)
    check_json(body if encoding == "utf-8" else text.encode("utf-8", "surrogatepass"))
    value = _loaded(text)
    if _SURROGATE.search(text):
        value = _mended(value)
    if value == []:
        raise ValueError("it is an empty list")
    items = value if isinstance(value, list) else [value]
    of_resources = [of_resource for item in items for of_resource in _resource_spans(item)]
    of_scopes = [of_scope for of_resource in of_resources for of_scope in _renewed(of_resource)]
    spans = sum(len(of_scope.get("spans") or ()) for of_scope in of_scopes)
    check_counts(len(of_resources), len(of_scopes), spans)
    for of_scope in of_scopes:
        for span in _objects(of_scope, "spans"):
            _renew_span(span)
    return {"resourceSpans": of_resources}


def _decoded(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        return body.decode(encoding, "replace")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        values = []
        for line in io.StringIO(text, newline=None):  # other separators of lines may stand in texts
            if line.isspace():
                continue
            value = json.loads(line)
            if not isinstance(value, dict | list):
                raise
            values.append(value)
        if len(values) < 2:
            raise
        return values


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {whole(key): _mended(item) for key, item in value.items()}
    return value


def _resource_spans(value: Any) -> list[Json]:
    if not isinstance(value, dict):
        raise TypeError(f"a {type(value).__name__} is no request")
    for key in _REQUESTS:
        if key in value:
            return _objects(value, key)
    if isinstance(value.get("trace"), dict) and any(key in value["trace"] for key in _REQUESTS):  # Tempo
        return _resource_spans(value["trace"])
    if any(key in value for key in _SCOPES):
        return [value]
    if isinstance(value.get("spans"), list) and all(_is_span(item) for item in value["spans"]):
        return [{"scopeSpans": [value]}]
    if _is_span(value):
        resource = {"resource": value["resource"]} if isinstance(value.get("resource"), dict) else {}
        return [{**resource, "scopeSpans": [{"spans": [value]}]}]
    if value:
        raise ValueError(_named(value))
    return []


def _is_span(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value and bool({"spanId", "span_id"} & value.keys())


def _named(value: Json) -> str:
    inner = next((item for item in value.values() if isinstance(item, list) and item), None)
    first = inner[0] if inner and isinstance(inner[0], dict) else {}
    body = first.get("body")
    keys = {*value, *first, *(body if isinstance(body, dict) else ())}
    known = next((name for name, marks in _FORMATS.items() if not keys.isdisjoint(marks)), None)
    if known:
        return f"it is {known}, without resourceSpans"
    names = ", ".join(repr(printable(key[:40])) for key in list(value)[:_KEYS_SHOWN])
    return f"it has no resourceSpans; its keys are {names}"


def _renewed(of_resource: Json) -> list[Json]:
    scopes: list[Json] = []
    for key in _SCOPES:
        scopes.extend(_objects(of_resource, key))
        of_resource.pop(key, None)
    others = of_resource.keys() - {"resource", "schemaUrl", "schema_url"}
    if not scopes and others:
        raise ValueError(f"resource spans have no scopeSpans, but {printable(min(others)[:40])!r}")
    of_resource["scopeSpans"] = scopes
    for of_scope in scopes:
        for old in _SCOPE & of_scope.keys():
            of_scope.setdefault("scope", of_scope.pop(old))
    return scopes


def _renew_span(span: Json) -> None:
    for key in _TIMES & span.keys():
        span[key] = _time(span[key], key)
    for event in _objects(span, "events"):
        for key in _EVENT_TIMES & event.keys():  # nothing depends on it
            del event[key]
    for item in (span, *_objects(span, "links")):
        for key in _IDS.keys() & item.keys():
            item[key] = _base64_id(item[key], _IDS[key])


def with_typed_values(value: Any) -> Any:
    """Return a request in which an attribute whose value is not of its type has the text, or the JSON, of the value."""
    if isinstance(value, list):
        return [with_typed_values(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("key"), str) or "value" not in value:
        return {name: with_typed_values(item) for name, item in value.items()}
    content = value["value"]
    try:
        json_format.ParseDict(content, common_pb2.AnyValue(), ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError):
        inner = next(iter(content.values())) if isinstance(content, dict) and len(content) == 1 else content
        return {"key": value["key"], "value": {"stringValue": inner if isinstance(inner, str) else json.dumps(inner)}}
    return value


def _objects(value: Json, key: str) -> list[Json]:
    objects = value.get(key) or []
    if not isinstance(objects, list) or not all(isinstance(item, dict) for item in objects):
        raise ValueError(f"{key} is not a list of objects")
    return objects


def _base64_id(text: Any, size: int) -> str:
    try:
        is_base64 = isinstance(text, str) and len(text) == len(base64.b64encode(bytes(size)))
        if is_base64 and len(base64.b64decode(text, validate=True)) == size:
            return str(text)
        return base64.b64encode(bytes.fromhex(text or "")).decode()
    except (ValueError, TypeError):
        raise ValueError(f"the id {str(text)[:40]!r} is not hexadecimal") from None


def _time(value: Any, key: str) -> int:
    try:
        if isinstance(value, dict):
            return (int(value["high"]) & _HALF) << 32 | int(value["low"]) & _HALF
        number = int(value or 0)
        if 0 <= number < 1 << 64 and (not isinstance(value, float) or value == number):
            return number
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{key} is {printable(str(value)[:40])!r}, and must be a whole number of nanoseconds since 1970")


def mended_wire(body: bytes) -> bytes:
    """Return a request in protobuf whose texts are UTF-8: half a surrogate and a cut character are replaced.

    JavaScript writes half a pair of surrogates as three bytes, and some SDKs cut a text inside a character. Protobuf
    refuses the whole body for either. The texts are decoded as bytes, and mended.

    Raises:
        google.protobuf.message.DecodeError: the body is not such a request.
    """
    request_class, texts = _bytes_request()
    request = request_class.FromString(body)
    _mend(request, texts)
    wire: bytes = request.SerializeToString()
    return wire


@cache
def _bytes_request() -> tuple[type[Message], frozenset[str]]:
    pool = descriptor_pool.DescriptorPool()
    texts: set[str] = set()
    for module in (common_pb2, resource_pb2, trace_pb2, trace_service_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        waiting = [(f"{file.package}.{message.name}", message) for message in file.message_type]
        while waiting:
            name, message = waiting.pop()
            waiting.extend((f"{name}.{inner.name}", inner) for inner in message.nested_type)
            for field in message.field:
                if field.type == FieldDescriptor.TYPE_STRING:
                    field.type = FieldDescriptor.TYPE_BYTES
                    texts.add(f"{name}.{field.name}")
        pool.Add(file)
    request = pool.FindMessageTypeByName(trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR.full_name)
    return message_factory.GetMessageClass(request), frozenset(texts)


def _mend(message: Any, texts: frozenset[str]) -> None:
    for field, value in message.ListFields():
        is_list = not hasattr(value, "ListFields") and not isinstance(value, bytes | int | float | bool)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in value if is_list else (value,):
                _mend(item, texts)
        elif field.full_name in texts and is_list:
            value[:] = map(_utf8, value)
        elif field.full_name in texts:
            setattr(message, field.name, _utf8(value))


def _utf8(text: bytes) -> bytes:
    mended: str = whole(_decoded(text, "utf-8"))
    return mended.encode()


def old_scopes(of_resource: trace_pb2.ResourceSpans) -> Iterator[trace_pb2.ScopeSpans]:
    """Yield the scope spans that stand under their old number, with their old name."""
    for field in UnknownFieldSet(of_resource):
        if field.field_number == _OLD_SCOPES and isinstance(field.data, bytes):
            yield trace_pb2.ScopeSpans.FromString(field.data)
