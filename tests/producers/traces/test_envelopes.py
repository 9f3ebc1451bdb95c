"""Spans under other names and with broken texts are read; bodies of other formats are named."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.cases import for_each

from ragtide_producers.errors import InvalidTracesError
from ragtide_producers.traces.otlp import decode_request, spans_of

pytestmark = pytest.mark.pure

TRACE, SPAN = "ab" * 16, "cd" * 8
RESOURCE = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
GIVEN = {"traceId": TRACE, "spanId": SPAN, "name": "ask"}
BASE64 = {key: base64.b64encode(bytes.fromhex(text)).decode() for key, text in (("traceId", TRACE), ("spanId", SPAN))}
SNAKE = {"trace_id": TRACE, "span_id": SPAN, "name": "ask", "start_time_unix_nano": "5"}


def scopes(span: Any, scope: str = "scopeSpans") -> dict[str, Any]:
    return {"resource": RESOURCE, scope: [{"spans": [span]}]}


def lines(*values: Any) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


SAME = {
    "OTLP": lines({"resourceSpans": [scopes(GIVEN)]}),
    "names of protobuf": lines({"resource_spans": [scopes(SNAKE, "scope_spans")]}),
    "OTLP until 0.15": lines({"resourceSpans": [scopes(GIVEN, "instrumentationLibrarySpans")]}),
    "OTLP until 0.15 in names of protobuf": lines({"resource_spans": [scopes(SNAKE, "instrumentation_library_spans")]}),
    "Tempo": lines({"batches": [scopes({**GIVEN, **BASE64})]}),
    "Tempo with hexadecimal ids": lines({"batches": [scopes(GIVEN)]}),
    "an old Tempo": lines({"batches": [scopes({**GIVEN, **BASE64}, "instrumentationLibrarySpans")]}),
    "Tempo's second version": lines({"trace": {"resourceSpans": [scopes({**GIVEN, **BASE64})]}}),
    "a list of requests": lines([{"resourceSpans": [scopes(GIVEN)]}]),
    "resource spans alone": lines(scopes(GIVEN)),
    "a line for each request": lines({"resourceSpans": [scopes(GIVEN)]}, {"resourceSpans": []}),
    "a line for each span": lines({**GIVEN, "resource": RESOURCE}, {**GIVEN, "resource": RESOURCE}),
    "a mark of the byte order": b"\xef\xbb\xbf" + lines({"resourceSpans": [scopes(GIVEN)]}),
    "UTF-16": lines({"resourceSpans": [scopes(GIVEN)]}).decode().encode("utf-16"),
}


@for_each("body", SAME.values())
def test_the_same_spans_under_another_name_are_read(body: bytes) -> None:
    found = {(span.trace_id, span.span_id, span.name): span for span in spans_of(decode_request(body, "json"))}
    ((key, span),) = found.items()
    assert key == (TRACE, SPAN, "ask")
    assert span.resource == {"service.name": "shop"}


OTHER = {
    "Jaeger": {"data": [{"traceID": "ab", "spans": [{"traceID": "ab", "spanID": "cd"}], "processes": {}}]},
    "Zipkin": [{"traceId": "ab", "id": "cd", "name": "x", "localEndpoint": {"serviceName": "shop"}}],
    "Langfuse": {"data": [{"id": "1", "traceId": "t", "type": "GENERATION", "input": "x"}], "meta": {}},
    "LangSmith": [{"id": "1", "run_type": "llm", "inputs": {}}],
    "logs": {"resourceLogs": [{"scopeLogs": []}]},
    "metrics": {"resourceMetrics": []},
    "console": {"name": "ask", "context": {"trace_id": "0xab", "span_id": "0xcd"}, "attributes": {}},
    "'spanz'": {"spanz": []},
    "'ilSpans'": {"resourceSpans": [{"resource": RESOURCE, "ilSpans": []}]},
}


@for_each("name, body", OTHER.items())
def test_another_format_is_named(name: str, body: Any) -> None:
    with pytest.raises(InvalidTracesError, match=name):
        decode_request(json.dumps(body).encode(), "json")


@for_each("body", [b"{}", b'{"resourceSpans": []}'])
def test_an_empty_request_is_no_mistake(body: bytes) -> None:
    assert list(spans_of(decode_request(body, "json"))) == []
    assert list(spans_of(decode_request(b"", "protobuf"))) == []


def with_texts(text: str) -> dict[str, Any]:
    value = {"arrayValue": {"values": [{"stringValue": text}, {"kvlistValue": {"values": [{"key": text}]}}]}}
    span = {**GIVEN, "name": text, "attributes": [{"key": "k", "value": value}], "events": [{"name": text}]}
    return {"resourceSpans": [scopes(span)]}


@for_each(
    "half, mended",
    [
        ("great \ud83d", "great \ufffd"),
        ("\ude00 great", "\ufffd great"),
        ("a\ud83db", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
    ],
)
def test_half_a_surrogate_is_mended_in_both_encodings(half: str, mended: str) -> None:
    wire = decode_request(json.dumps(with_texts("MARK")).encode(), "json").SerializeToString()
    wires = half.encode("utf-8", "surrogatepass").ljust(9, b"_")
    longer = json.dumps(with_texts("M" * 9)).encode()
    of_protobuf = decode_request(longer, "json").SerializeToString().replace(b"M" * 9, wires)
    assert b"MARK" in wire
    found = [
        *spans_of(decode_request(json.dumps(with_texts(half)).encode(), "json")),
        *spans_of(decode_request(of_protobuf, "protobuf")),
    ]
    for span in found:
        assert span.name.rstrip("_") == span.events[0].name.rstrip("_") == mended
        assert span.attributes["k"][0].rstrip("_") == mended


@for_each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_the_encoding_and_the_ends_of_lines_change_nothing(encoding: str) -> None:
    one = json.dumps(with_texts("a\u2028b\x85c"), ensure_ascii=False)
    for body, count in ((one, 1), (f"{one}\r\n\n{one}\n", 2), (f"{one}\r{one}", 2)):
        spans = list(spans_of(decode_request(body.encode(encoding), "json")))
        assert [span.name for span in spans] == ["a\u2028b\x85c"] * count


def test_a_text_that_is_cut_inside_a_character_loses_no_other() -> None:
    wire = decode_request(json.dumps(with_texts("EMJ")).encode(), "json").SerializeToString()
    with pytest.raises(DecodeError):
        ExportTraceServiceRequest.FromString(wire.replace(b"EMJ", b"ab\xc3"))
    (span,) = spans_of(decode_request(wire.replace(b"EMJ", b"ab\xc3"), "protobuf"))
    assert (span.name, span.trace_id) == ("ab\ufffd", TRACE)


def test_the_old_number_of_scope_spans_in_protobuf_is_read() -> None:
    scope = decode_request(SAME["OTLP"], "json").resource_spans[0].scope_spans[0].SerializeToString()
    old = b"\xc2\x3e" + bytes([len(scope)]) + scope  # field 1000
    (span,) = spans_of(decode_request(b"\x0a" + bytes([len(old)]) + old, "protobuf"))
    assert span.span_id == SPAN


def test_a_body_of_protobuf_without_spans_is_named() -> None:
    with pytest.raises(InvalidTracesError, match="no spans"):
        decode_request(b"\x12\x05hello", "protobuf")


@for_each(
    "value, read",
    [
        ({"stringValue": 5}, "5"),
        ({"intValue": "many"}, "many"),
        ({"intValue": 1 << 70}, str(1 << 70)),
        ({"boolValue": "yes"}, "yes"),
        ({"stringValue": {"a": [1]}}, '{"a": [1]}'),
        (5, "5"),
        (None, ""),
        ({"unknownValue": 5}, ""),
    ],
)
def test_an_attribute_of_an_odd_type_costs_no_other(value: Any, read: str) -> None:
    whole = {"key": "input.value", "value": {"stringValue": "How?"}}
    for place in ("attributes", "resource"):
        odd = [whole, {"key": "odd", "value": value}]
        of_span = {**GIVEN, "attributes": odd if place == "attributes" else [whole]}
        body = {
            "resourceSpans": [{**scopes(of_span), **({"resource": {"attributes": odd}} if place == "resource" else {})}]
        }
        (span,) = spans_of(decode_request(json.dumps(body).encode(), "json"))
        assert span.attributes["input.value"] == "How?"
        assert (span.attributes if place == "attributes" else span.resource).get("odd", "") == read
