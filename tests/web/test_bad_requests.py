"""Bad requests: each gets a clear 4xx (or its connection ends), nothing of it is stored, and the service goes on."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.conditions import until
from tests.support.http_service import Service, http_service
from tests.support.wire_spans import rag, request, span

from ragtide_runtime.redis.keys import Streams
from ragtide_web.guard import connections
from ragtide_web.routes import bodies

STREAMS = Streams("ragtide", 0)
TOKEN = "token-0123456789"
LIMITS = {
    "tokens": [TOKEN, {"name": "reader", "token": "reader-0123456789", "access": ["read"]}],
    "body_bytes": 100_000,
}
JSON, PROTOBUF, LINES = "application/json", "application/x-protobuf", "application/x-ndjson"
ITEM = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
GOOD = request(*rag()).SerializeToString()
BEARER = f"Bearer {TOKEN}"


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "DECOMPRESSED_BYTES", 400_000)
    monkeypatch.setattr(connections, "HEADER_S", 0.3)
    monkeypatch.setattr(connections, "BODY_S", 0.3)


@dataclass(frozen=True)
class Bad:
    """A bad request, and the statuses that answer it."""

    name: str
    path: str = "/v1/traces"
    body: bytes | Callable[[], bytes] = GOOD
    kind: str | None = PROTOBUF
    status: int = 400
    says: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    authorization: str | None = BEARER
    method: str = "POST"


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def nested_value(levels: int) -> bytes:
    value = b'{"arrayValue": {"values": [' * levels + b'{"stringValue": "x"}' + b"]}}" * levels
    ids = f'"traceId": "{1:032x}", "spanId": "{1:016x}"'.encode()
    span = b"{" + ids + b', "attributes": [{"key": "a", "value": ' + value + b"}]}"
    return b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + span + b"]}]}]}"


def with_ids(trace: str, one: str) -> bytes:
    spans = [{"traceId": trace, "spanId": one}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


ITEMS = "/v1/interactions"
BAD = [
    Bad("no content type", kind=None, status=415),
    Bad("text", kind="text/plain", status=415, says="application/x-protobuf"),
    Bad("a form", kind="application/x-www-form-urlencoded", status=415),
    Bad("JSON said to be protobuf", body=b'{"resourceSpans": []}', says="protobuf"),
    Bad("protobuf said to be JSON", kind=JSON, says="JSON"),
    Bad("truncated protobuf", body=GOOD[:-7], says="protobuf"),
    Bad("random bytes", body=bytes(range(256)) * 4, says="protobuf"),
    Bad("unknown encoding", headers=(("Content-Encoding", "br"),), status=415, says="gzip"),
    Bad("gzip that is none", headers=(("Content-Encoding", "gzip"),), says="gzip"),
    Bad("truncated gzip", body=gzip.compress(GOOD)[:-9], headers=(("Content-Encoding", "gzip"),), says="middle"),
    Bad("data after gzip", body=gzip.compress(GOOD) + b"x" * 20, headers=(("Content-Encoding", "gzip"),), says="gzip"),
    Bad("a bomb", body=gzip.compress(b"\0" * 90_000_000), headers=(("Content-Encoding", "gzip"),), status=413),
    Bad(
        "a bomb of zlib", body=zlib.compress(b"\0" * 90_000_000), headers=(("Content-Encoding", "deflate"),), status=413
    ),
    Bad("a body above the limit", body=b"\n" + b"x" * 150_000, status=413, says="100,000"),
    Bad("JSON of a list", kind=JSON, body=b"[]", says="JSON"),
    Bad("JSON of a number", kind=JSON, body=b"17", says="JSON"),
    Bad("JSON with spans that are a text", kind=JSON, body=b'{"resourceSpans": "x"}', says="list of objects"),
    Bad("deep JSON", kind=JSON, body=deep(40_000), says="JSON"),
    Bad("deep values", kind=JSON, body=nested_value(500), says="JSON"),
    Bad("an id that is not hexadecimal", kind=JSON, body=with_ids("xyz", f"{1:016x}"), says="hexadecimal"),
    Bad("an id that is a number", kind=JSON, body=with_ids(7, f"{1:016x}"), says="JSON"),  # type: ignore[arg-type]
    Bad("no token", authorization=None, status=401, says="no token"),
    Bad("a wrong token", authorization="Bearer wrong", status=401, says="not known"),
    Bad("a token of another scheme", authorization=f"Digest {TOKEN}", status=401),
    Bad("basic that is not base64", authorization="Basic ###", status=401),
    Bad("a token that may only read", authorization="Bearer reader-0123456789", status=403, says="may not write"),
    Bad("a huge token", authorization="Bearer " + "x" * 20_000, status=401),
    Bad("the wrong method", method="GET", status=405, body=b"", kind=None),
    Bad("an unknown path", "/v1/trace", status=404, says="/openapi.json"),
    Bad("a path with dots", "/v1/../../etc/passwd", status=404),
    Bad("items as text", ITEMS, b"{}", "text/plain", 415, "application/json"),
    Bad("items that are not JSON", ITEMS, b'{"pipeline": ', JSON, 400, "JSON"),
    Bad("items of deep JSON", ITEMS, deep(40_000), JSON, 422, "JSON"),
    Bad("items of NaN", ITEMS, b'{"pipeline": "shop", "question": NaN}', JSON, 422, "question is no finite number"),
    Bad("items that are not UTF-8", ITEMS, b'{"pipeline": "\xff"}', JSON, 422, "JSON"),
    Bad("an empty body", ITEMS, b"", JSON, 400, "JSON"),
    Bad("an empty list", ITEMS, b"[]", JSON, 422, "no items"),
    Bad("a huge number", ITEMS, b'{"pipeline": "shop", "turn": ' + b"9" * 5_000 + b"}", JSON, 422, "number"),
    Bad("an unknown field", ITEMS, b'[{"colour": 1}]', JSON, 422, "colour"),
    Bad(
        "a history without texts",
        ITEMS,
        json.dumps([{**ITEM, "history": [{"question": ["q"]}]}]).encode(),
        JSON,
        422,
        "history",
    ),
    Bad("no lines", ITEMS, b"\n\n", LINES, 422, "no items"),
    Bad("a line above the limit", ITEMS, b"x" * 300_000, LINES, 413, "line"),
    Bad("lines of nothing but mistakes", ITEMS, b"oops\n" * 30, LINES, 422, "not valid JSON"),
    Bad(
        "feedback without scores", "/v1/feedback", b'{"pipeline": "p", "interaction_id": "i"}', JSON, 422, "gold_scores"
    ),
    Bad("a length that is a lie", headers=(("Content-Length", "99999999999999999999"),), status=413),
]


async def everything_stored(redis: Any) -> dict[bytes, Any]:
    found = {}
    for key in await redis.keys("*"):
        kind = await redis.type(key)
        found[key] = await (redis.xlen(key) if kind == b"stream" else redis.dump(key))
    return found


async def send(service: Service, bad: Bad) -> tuple[int, str]:
    """Send a request by a socket of our own, because clients mend requests."""
    body = bad.body if isinstance(bad.body, bytes) else bad.body()
    headers = {"Host": f"127.0.0.1:{service.port}", "Connection": "close", "Content-Length": str(len(body))}
    if bad.kind is not None:
        headers["Content-Type"] = bad.kind
    if bad.authorization is not None:
        headers["Authorization"] = bad.authorization
    headers.update(bad.headers)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return await exchange(service, f"{bad.method} {bad.path} HTTP/1.1\r\n{head}\r\n".encode() + body)


async def exchange(service: Service, sent: bytes) -> tuple[int, str]:
    """Return the status and the body of the answer to these bytes; 0 if the connection ended without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(sent)
        answer = await reader.read()
    except ConnectionError:
        answer = b""
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body.decode("utf-8", "replace")


async def test_bad_requests_get_a_clear_answer_and_change_nothing(async_redis: Any, redis_url: str) -> None:
    assert len(BAD) >= 40
    async with http_service(redis_url, serve=LIMITS, ingest={"settle_s": 600}) as service:
        status, _ = await service.post("/v1/traces", token=TOKEN, data=GOOD, content_type=PROTOBUF)
        assert status == 200
        before = await everything_stored(async_redis)
        found = {}
        for bad in BAD:
            status, body = await send(service, bad)
            if status != bad.status or bad.says not in body or not body:
                found[bad.name] = status, body[:300]
            assert await everything_stored(async_redis) == before, bad.name
            assert (await service.get("/healthz"))[0] == 200, bad.name
        assert found == {}


async def test_spans_that_can_be_refused_alone_are_a_partial_success(async_redis: Any, redis_url: str) -> None:
    """Ids of a wrong length, circles of parents, a parent of itself, absurd times: the other spans are stored."""
    circle = [span(11, 12, trace=2), span(12, 11, trace=2), span(13, 13, trace=2)]
    absurd = span(14, trace=2)
    absurd.start_time_unix_nano, absurd.end_time_unix_nano = 2**64 - 1, 1
    short = span(15)
    short.trace_id = b"short"
    async with http_service(redis_url, serve=LIMITS, ingest={"settle_s": 0.2, "quiet_s": 0.4}) as service:
        body = request(*rag(), *circle, absurd, short).SerializeToString()
        status, answer = await service.post("/v1/traces", token=TOKEN, data=body, content_type=PROTOBUF)
        assert status == 200
        assert b"1 spans have no valid id" in answer
        await until(lambda: _all_read(async_redis))
    assert await async_redis.xlen(STREAMS.interactions) == 1


async def _all_read(redis: Any) -> bool:
    return bool(await redis.xlen(STREAMS.interactions)) and not await redis.zcard(STREAMS.open_traces)


async def test_a_million_spans_are_413_and_the_service_answers_meanwhile(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = span(1).SerializeToString()
    spans = b"".join(b"\x12" + bytes([len(one)]) + one for _ in range(1))
    many = spans * 1_000_000

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    body = gzip.compress(field(1, field(2, many)), 1)
    monkeypatch.setattr(bodies, "DECOMPRESSED_BYTES", 200_000_000)
    monkeypatch.setattr(bodies, "DECOMPRESSED_RATIO", 1000)
    async with http_service(redis_url, serve={"body_bytes": 100_000_000}) as service:
        sending = asyncio.create_task(
            service.post("/v1/traces", data=body, content_type=PROTOBUF, content_encoding="gzip")
        )
        assert (await service.get("/healthz"))[0] == 200
        status, answer = await sending
    assert status == 413
    assert b"more than 100,000 spans" in answer
    assert await async_redis.keys("*trace*") == []


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("nothing", b""),
        ("half a head", b"POST /v1/traces HTTP/1.1\r\nHost: 127"),
        ("a head that never ends", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 200_000),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10),
        ("many headers", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 20_000 + b"\r\n"),
        (
            "half a body",
            f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nContent-Type: {PROTOBUF}\r\n"
            "Content-Length: 500\r\n\r\nhalf".encode(),
        ),
        (
            "half a line",
            f"POST /v1/interactions HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nContent-Type: {LINES}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n".encode(),
        ),
        (
            "a chunk that is none",
            f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nContent-Type: {PROTOBUF}\r\n"
            "Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        ),
    ],
)
async def test_a_slow_or_broken_client_is_cut_off(name: str, sent: bytes, async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve=LIMITS) as service:
        before = await everything_stored(async_redis)
        status, _ = await exchange(service, sent)
        assert status in (0, 400, 408, 431), name
        assert await everything_stored(async_redis) == before
        assert (await service.get("/healthz"))[0] == 200


async def test_slow_clients_do_not_keep_others_out(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve=LIMITS) as service:
        slow = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(100)]
        for _, writer in slow:
            writer.write(b"POST /v1/traces HTTP/1.1\r\n")
        status, answer = await service.post("/v1/interactions", ITEM, TOKEN)
        assert (status, answer["published"]) == (200, 1)
        await asyncio.gather(*(_cut_off(reader, writer) for reader, writer in slow))


async def _cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the server has ended a connection; it may end with a reset."""
    try:
        assert await reader.read() == b""
    except ConnectionError:
        pass
    finally:
        writer.close()
