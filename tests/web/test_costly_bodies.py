"""Bodies that would cost far more than they are: each is refused before it is worked on, or worked on in a thread."""

import asyncio
import gzip
import io
import json
import random
import threading
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import exposition
from pydantic_core import from_json
from tests.support.http_service import Service, http_service
from tests.support.wire_spans import rag, request
from tests.web.page.test_dead_letters import add, letter

from ragtide_producers.ingest import receiver
from ragtide_producers.ingest.split_items import split_items
from ragtide_runtime.outside import json_values
from ragtide_web.guard.memory import Memory
from ragtide_web.guard.problems import HttpProblem
from ragtide_web.page.dead_letters import route as dead_letters
from ragtide_web.routes import publishing as items

MIB = 1024 * 1024
JSON, LINES, PROTOBUF = "application/json", "application/x-ndjson", "application/x-protobuf"
ITEM = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}


def listed(unit: bytes, size: int) -> bytes:
    return b"[" + unit * (size // len(unit)) + b"1]"


COSTLY: list[tuple[str, str, str, bytes, str, int]] = [
    ("gzip of dicts", "/v1/interactions", JSON, gzip.compress(listed(b'{"a":1},', 10 * MIB)), "gzip", 413),
    ("gzip of lists as feedback", "/v1/feedback", JSON, gzip.compress(listed(b"[],", 10 * MIB)), "gzip", 413),
    ("zlib of numbers", "/v1/interactions", JSON, zlib.compress(listed(b"1,", 10 * MIB)), "deflate", 413),
    ("dicts", "/v1/interactions", JSON, listed(b'{"a":1},', 2 * MIB), "", 413),
    ("an item of lists", "/v1/interactions", JSON, b'[{"a":' + listed(b"[],", 2 * MIB) + b"}]", "", 422),
    ("an item of numbers", "/v1/interactions", JSON, b'[{"a":' + listed(b"1,", 2 * MIB) + b"}]", "", 422),
    ("a line of numbers", "/v1/interactions", LINES, b'{"a":' + listed(b"1.5,", 2 * MIB) + b"}\n", "", 422),
    ("an item that is too long", "/v1/feedback", JSON, b'[{"a":"' + b"x" * 13 * MIB + b'"}]', "", 413),
    ("a text of escapes", "/v1/interactions", JSON, b'[{"a":"' + b'\\"' * 7 * MIB + b'"}]', "", 413),
    ("newlines", "/v1/interactions", LINES, gzip.compress(b"\n" * 5 * MIB), "gzip", 400),
    ("blanks", "/v1/feedback", LINES, gzip.compress(b" \t\r\n" * MIB), "gzip", 400),
    ("lines at a great ratio", "/v1/interactions", LINES, gzip.compress(b'{"a":"' + b"x" * 10 * MIB), "gzip", 413),
    ("empty resources", "/v1/traces", PROTOBUF, gzip.compress(b"\n\0" * 3 * MIB), "gzip", 413),
    ("resources at a great ratio", "/v1/traces", PROTOBUF, gzip.compress(b"\n\0" * 10 * MIB), "gzip", 413),
    ("resources in JSON", "/v1/traces", JSON, b'{"resourceSpans":[' + b"{}," * 300_000 + b"{}]}", "", 413),
    ("attributes in JSON", "/v1/traces", JSON, b'{"resourceSpans":[{"resource":{"attributes":'
     + listed(b"{},", 4 * MIB) + b"}}]}", "", 413),
    ("attributes in UTF-16", "/v1/traces", JSON, ('{"x":"\\"","resourceSpans":[{"resource":{"attributes":['
     + "{}," * 1_100_000 + "{}]}}]}").encode("utf-16-le"), "", 413),
    ("lines of numbers", "/v1/traces", JSON, b"1\n" * 9 * MIB, "", 400),
    ("numbers in JSON", "/v1/traces", JSON, b'{"x":' + listed(b"1,", 9 * MIB) + b"}", "", 413),
    ("encodings in a row", "/v1/traces", PROTOBUF, b"x", "gzip, gzip", 415),
]  # fmt: skip


async def sent(service: Service, path: str, kind: str, body: bytes, encoding: str = "") -> int:
    headers = {"Content-Type": kind, **({"Content-Encoding": encoding} if encoding else {})}
    async with service.session.post(service.url + path, data=io.BytesIO(body), headers=headers) as reply:
        await reply.read()
        return reply.status


async def test_costly_bodies_are_refused_and_health_answers(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url) as service:
        found = {}
        for name, path, kind, body, encoding, status in COSTLY:
            sending = asyncio.create_task(sent(service, path, kind, body, encoding))
            while not sending.done():
                assert (await service.get("/healthz"))[0] == 200
            if await sending != status:
                found[name] = await sending
        assert found == {}
    assert await async_redis.keys("*interactions") == []


async def test_work_on_a_body_is_not_in_the_event_loop(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsing, validating, decoding and walking."""
    here = threading.current_thread()
    inside: set[str] = set()

    def watch(place: Any, name: str) -> None:
        real = getattr(place, name)

        def watched(*given: Any, **more: Any) -> Any:
            if threading.current_thread() is here:
                inside.add(name)
            return real(*given, **more)

        monkeypatch.setattr(place, name, watched)

    watch(items, "_read_batch")
    for name in ("decode_request", "fields_by_trace"):
        watch(receiver, name)
    async with http_service(redis_url) as service:
        many = [{**ITEM, "interaction_id": f"i{number}", "response": "r" * 900} for number in range(300)]
        assert await sent(service, "/v1/interactions", JSON, json.dumps(many).encode()) == 200
        long = {**ITEM, "interaction_id": "long", "documents": ["d" * 100_000]}
        assert await sent(service, "/v1/interactions", LINES, json.dumps(long).encode()) == 200
        assert (
            await sent(service, "/v1/traces", PROTOBUF, request(*rag(answer="a " * 50_000)).SerializeToString()) == 200
        )
    assert inside == set()
    assert await async_redis.xlen("ragtide:{0}:interactions") == 301


async def test_long_answers_are_not_made_in_the_event_loop(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text of the metrics, and the lines of an export."""
    threads: list[threading.Thread] = []

    def watch(place: Any, name: str) -> None:
        real = getattr(place, name)

        def watched(*given: Any) -> Any:
            threads.append(threading.current_thread())
            return real(*given)

        monkeypatch.setattr(place, name, watched)

    watch(dead_letters, "to_json")
    watch(exposition, "generate_latest")
    await add(async_redis, letter(0, {"pipeline": "shop"}))
    async with http_service(redis_url) as service:
        assert b"shop" in (await service.get("/dead/export"))[1]
        assert b"ragtide_redis_up" in (await service.get("/metrics"))[1]
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_a_body_is_counted_as_it_is_decompressed(async_redis: Any, redis_url: str) -> None:
    tokens = [{"name": "small", "token": "small-0123456789", "bytes_per_s": 50_000}]
    body = gzip.compress(json.dumps({**ITEM, "response": "r" * 300_000}).encode())
    assert len(body) < 2_000
    for kind in (JSON, LINES):
        async with http_service(redis_url, serve={"tokens": tokens}) as service:
            for status in (200, 429):
                headers = {"content_type": kind, "content_encoding": "gzip"}
                assert (await service.post("/v1/interactions", None, "small-0123456789", body[:], **headers))[
                    0
                ] == status


async def test_bodies_share_their_memory() -> None:
    memory = Memory(100)
    memory.receive(90)
    with pytest.raises(HttpProblem, match="send the request again later"):
        memory.receive(20)
    memory.release(90)
    memory.receive(100)
    await memory.keep(1_000)  # one body always may
    waiting = asyncio.create_task(memory.keep(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    await memory.let_go(1_000)
    await waiting


def value(rnd: random.Random, depth: int = 0) -> Any:
    kind = rnd.randrange(8 if depth < 4 else 5)
    if kind == 0:
        return rnd.choice([1, -2.5, True, None, 10**20])
    if kind < 5:
        return "".join(rnd.choice('ab"\\{}[],: \t\n/éЖ\U0001f600') for _ in range(rnd.randrange(12)))
    if kind < 7:
        return {str(value(rnd, 9)): value(rnd, depth + 1) for _ in range(rnd.randrange(4))}
    return [value(rnd, depth + 1) for _ in range(rnd.randrange(4))]


def in_chunks(body: bytes, rnd: random.Random) -> Iterable[bytes]:
    at = 0
    while at < len(body):
        size = rnd.randrange(1, 9)
        yield body[at : at + size]
        at += size


def parsed(body: bytes, rnd: random.Random) -> list[Any] | None:
    try:
        return [from_json(item) for item in split_items(in_chunks(body, rnd), 1_000)]
    except ValueError:
        return None


def test_items_are_those_of_a_parser_however_the_body_is_cut_and_spoilt() -> None:
    rnd = random.Random(3)
    for _ in range(1_500):
        given = [value(rnd) for _ in range(rnd.randrange(5))] if rnd.random() < 0.8 else {"a": value(rnd)}
        text = json.dumps(given, ensure_ascii=rnd.random() < 0.5, indent=rnd.choice([None, 1])).encode()
        body = b" \n"[: rnd.randrange(3)] + text + b"\r\t "[: rnd.randrange(4)]
        assert parsed(body, rnd) == (given if isinstance(given, list) else [given]), body
        spoilt = bytearray(body[: rnd.choice([len(body), rnd.randrange(1, len(body) + 1)])])
        spoilt[rnd.randrange(len(spoilt))] = rnd.choice(b'"{}[],\\x 1')
        try:
            wanted = from_json(bytes(spoilt))
            wanted = wanted if isinstance(wanted, list) else [wanted] if isinstance(wanted, dict) else None
        except ValueError:
            wanted = None
        assert parsed(bytes(spoilt), rnd) == wanted, bytes(spoilt)


def counts(given: Any) -> tuple[int, int]:
    """Return the objects and lists of a value, and the commas between its values."""
    if not isinstance(given, dict | list):
        return 0, 0
    inner = [counts(one) for one in (given.values() if isinstance(given, dict) else given)]
    return 1 + sum(one for one, _ in inner), max(0, len(given) - 1) + sum(one for _, one in inner)


def test_values_are_counted_outside_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(4)
    for step in (1, 2, 3, 7, 1_000):
        monkeypatch.setattr(json_values, "STEP_BYTES", step)
        for _ in range(200):
            given = [value(rnd), value(rnd)]
            body, (parts, commas) = json.dumps(given).encode(), counts(given)
            assert not json_values.has_more_values(body, parts, commas), body
            assert json_values.has_more_values(body, parts - 1, commas), body
            assert json_values.has_more_values(body, parts, commas - 1), body
