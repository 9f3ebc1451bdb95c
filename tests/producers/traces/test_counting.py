"""A request of traces is counted in its bytes, whatever kind of element it has too many of."""

import pytest
from tests.support.ingest import NAMES, requests_of
from tests.support.wire_spans import rag, request

from ragtide_producers.errors import InvalidTracesError, TooManySpansError
from ragtide_producers.traces import counting
from ragtide_producers.traces.counting import check_protobuf
from ragtide_producers.traces.otlp import decode_request


def field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def within(content: bytes, *numbers: int) -> bytes:
    for number in reversed(numbers):
        content = field(number, content)
    return content


MANY = 1_100_000
TOO_MANY = {
    "resources": b"\n\0" * MANY,
    "scopes": within(b"\x12\0" * MANY, 1),
    "spans": within(b"\x12\0" * MANY, 1, 2),
    "attributes of a span": within(b"\x4a\0" * MANY, 1, 2, 2),
    "events": within(b"\x5a\0" * MANY, 1, 2, 2),
    "links": within(b"\x6a\0" * MANY, 1, 2, 2),
    "attributes of an event": within(b"\x1a\0" * MANY, 1, 2, 2, 11),
    "attributes of a link": within(b"\x22\0" * MANY, 1, 2, 2, 13),
    "attributes of a resource": within(b"\n\0" * MANY, 1, 1),
    "attributes of a scope": within(b"\x1a\0" * MANY, 1, 2, 1),
    "entities": within(b"\x1a\0" * MANY, 1, 1),
    "values of a list": within(b"\n\0" * MANY, 1, 1, 1, 2, 5),
    "pairs of a mapping": within(b"\n\0" * MANY, 1, 1, 1, 2, 6),
    "values of one attribute": within(b"\x12\0" * MANY, 1, 1, 1),
    "one text again and again": within(b"\x2a\0" * MANY, 1, 2, 2),
    "one number again and again": within(b"\x78\0" * MANY, 1, 2, 2),
    "unknown fields at the top": b"\x78\0" * MANY,
    "unknown messages": b"\x7a\0" * MANY,
    "unknown fixed numbers": b"\x7d\0\0\0\0" * MANY,
    "few in each of many": within(within(b"\x4a\0" * 900, 2) * 1_300, 1, 2),
}
BROKEN = {
    "groups": b"\x0b" * 50_000,
    "a number without end": b"\x08" + b"\x80" * 50_000,
    "a length beyond the end": b"\n\xff\xff\xff\x7f" + b"x" * 50_000,
    "a length beyond its message": field(1, b"\x12\xff\x7f" + b"x" * 20_000),
    "the end in a tag": within(b"\x12\x02\x4a\x01", 1, 2) + b"x" * 50_000 + b"\n",
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_too_many_of_any_kind_are_refused_before_they_are_decoded(name: str) -> None:
    with pytest.raises(TooManySpansError, match="more than"):
        decode_request(TOO_MANY[name], "protobuf")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_bytes_are_no_request(name: str) -> None:
    with pytest.raises(InvalidTracesError):
        decode_request(BROKEN[name], "protobuf")


def test_what_exporters_send_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured requests, embeddings, an answer of megabytes and a Collector's batch."""
    monkeypatch.setattr(counting, "FREE_BYTES", 0)
    for name in NAMES:
        for one in requests_of(name):
            check_protobuf(one.SerializeToString())
    vector = within(b"\n\t!ABCDEFGH" * 2_000_000, 1, 1, 1, 2, 5)
    assert len(decode_request(vector, "protobuf").resource_spans) == 1
    check_protobuf(request(*rag(answer="word " * 1_000_000)).SerializeToString())
    batch = b"".join(request(*rag(trace=number + 1)).SerializeToString() for number in range(2_700))
    assert len(decode_request(batch, "protobuf").resource_spans) == 2_700
