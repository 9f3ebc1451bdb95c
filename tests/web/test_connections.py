"""Connections: what a client owes has one limit of time, the one that waits longest makes room, and health answers."""

import asyncio
import resource
from collections import Counter
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.http_service import Service, http_service

from ragtide_runtime.settings.serve import ServeSettings
from ragtide_web.guard import connections

TOKEN, READER = "token-0123456789", "reader-0123456789"
TOKENS = [TOKEN, {"name": "reader", "token": READER, "access": ["read"]}]
BEGUN = b"Host: 127.0.0.1\r\nContent-Length: 1000000\r\nContent-Type: application/json\r\n\r\nx"
HELD = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: 127",
    "blank lines": b"\r\n",
    "401": b"POST /v1/interactions HTTP/1.1\r\n" + BEGUN,
    "404": b"POST /nowhere HTTP/1.1\r\n" + BEGUN,
    "405": b"PUT /healthz HTTP/1.1\r\n" + BEGUN,
    "chunks": b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    "pipelined": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3 + b"GET /he",
    "an upgrade": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nx",
    "half a form": b"POST /login HTTP/1.1\r\nSec-Fetch-Site: same-origin\r\n" + BEGUN,
}
"""What clients send before they fall silent, or send a byte from time to time."""


async def begun(service: Service, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def is_ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send a byte again and again until the server ends the connection."""
    try:
        while not reader.at_eof():
            try:
                async with asyncio.timeout(0.1):
                    await reader.read(1_000)
            except TimeoutError:
                writer.write(b"\r\n")
                await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
    return True


async def test_a_client_that_drips_or_falls_silent_is_cut_off_at_every_place(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEEP_ALIVE_S", 0.4)
    monkeypatch.setattr(connections, "LINGER_S", 0.2)
    monkeypatch.setattr(connections, "HEADER_S", 0.4)
    monkeypatch.setattr(connections, "BODY_S", 0.6)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        found = [await begun(service, sent) for sent in HELD.values()]
        async with asyncio.timeout(20):
            assert all(await asyncio.gather(*(is_ended(*one) for one in found)))


async def test_a_client_that_never_reads_its_answers_is_cut_off(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.5)
    monkeypatch.setattr(connections, "BODY_S", 0.3)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        wanted = b"GET /static/vendor/uPlot-1.6.32.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300
        reader, writer = await begun(service, wanted)
        async with asyncio.timeout(20):
            while True:  # nothing is read, so only the server can end this
                writer.write(b"x")
                try:
                    await writer.drain()
                except ConnectionError:
                    break
                await asyncio.sleep(0.05)
        del reader


async def test_strangers_never_keep_health_or_a_token_out(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS, "connections": 30}) as service:
        held = [await begun(service, sent) for _ in range(12) for sent in HELD.values()]
        for _ in range(3):
            assert (await service.get("/healthz"))[0] == 200
            assert (await service.get("/v1/alerts", TOKEN, Connection="close"))[0] == 200
        for _, writer in held:
            writer.close()


async def test_one_token_cannot_take_all_connections(async_redis: Any, redis_url: str) -> None:
    """Its event streams and its slow bodies are at most half of them; health and other tokens are answered."""
    streams = b"GET /live?follow=alerts HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: " + READER.encode() + b"\r\n\r\n"
    bodies = b"POST /v1/traces HTTP/1.1\r\nx-api-key: " + TOKEN.encode() + b"\r\n" + BEGUN
    async with http_service(redis_url, serve={"tokens": TOKENS, "connections": 40}) as service:
        for sent, other in ((streams, TOKEN), (bodies, READER)):
            held = [await begun(service, sent) for _ in range(35)]
            if sent is streams:
                heads = Counter([(await reader.read(12))[9:] for reader, _ in held])
                assert heads == {b"200": 20, b"429": 15}
            assert (await service.get("/v1/alerts", other, Connection="close"))[0] == 200
            assert (await service.get("/healthz"))[0] == 200
            for _, writer in held:
                writer.close()


@pytest.mark.pure
def test_a_process_may_open_as_many_files_as_it_has_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody is answered, not even a probe, long before the limit of connections."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    for limits, most, raised in (
        ((1_024, 4_096), 1_000, True),
        ((1_024, resource.RLIM_INFINITY), 1_000, True),
        ((65_536, 65_536), 1_000, False),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1_000, False),
        ((1_024, 1_024), 624, True),
        ((256, 256), 64, True),
    ):
        given.clear()
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert connections.connections_of(ServeSettings()) == most, limits
        assert [hard for _, hard in given] == [limits[1]] * raised
        assert all(soft >= min(limits[1] % 2**62, most + connections.RESERVED) for soft, _ in given)


async def answer_to(service: Service, sent: bytes) -> bytes:
    reader, writer = await begun(service, sent)
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_head_that_can_be_read_in_two_ways_is_refused_without_a_trace(async_redis: Any, redis_url: str) -> None:
    """Never 500: `urlsplit` raises ValueError for these, or two programs read other ends of the body."""
    close = "Connection: close\r\n\r\n"
    for serve in ({"tokens": TOKENS}, {}):
        async with http_service(redis_url, serve=serve) as service:
            origin = f"POST /look HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Length: 0\r\nOrigin: "
            with capture_logs() as logs:
                for sent in (
                    "GET / HTTP/1.1\r\nHost: [\r\n",
                    "GET / HTTP/1.1\r\nHost: [::1\r\n",
                    "GET / HTTP/1.1\r\nHost: [zz]:80\r\n",
                    "GET / HTTP/1.1\r\nHost: 127.0.0.1:99999999\r\n",
                    "GET / HTTP/1.1\r\nHost: 127.0.0.1:port\r\n",
                    "GET / HTTP/1.1\r\nHost: evil@127.0.0.1\r\n",
                    "GET [ HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                    "GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Host: [\r\n",
                    origin + "http://[\r\n",
                    origin + "http://[::1]x\r\n",
                    origin + "http://a:b:c\r\n",
                ):
                    found = await answer_to(service, (sent + close).encode())
                    assert found.split()[1] in (b"400", b"403"), sent
                for sent in (
                    "GET /login?next=http://[ HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                    "GET /?q=%ff%00%ed%a0%80&page=-1&range=%5B HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                    "GET /dead?page=99999999999999999999999 HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                    "GET /p/%5B%ff%2f%00 HTTP/1.1\r\nHost: 127.0.0.1\r\nReferer: http://[\r\n",
                    "GET /i?pipeline=%ff&id=%00 HTTP/1.1\r\nHost: [::1]:8080\r\nX-Forwarded-For: [,%,1.2\r\n",
                ):
                    found = await answer_to(service, (sent + close).encode())
                    assert found.split()[1] < b"500", sent
                both = b"POST /v1/interactions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: "
                found = await answer_to(service, both + b"chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n")
                assert (found.split()[1], found.count(b"HTTP/1.1 ")) == (b"400", 1)
            assert [line for line in logs if line["log_level"] == "error"] == []


KEPT = {"/static/icon.svg": "public, max-age=3600", "/live?follow=alerts": "no-store, no-transform"}
SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


async def test_every_answer_is_kept_by_nobody_and_head_answers_as_get(async_redis: Any, redis_url: str) -> None:
    """The API, health, errors and screens alike; only files of the page may be kept."""
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for path, token, status in (
            ("/healthz", None, 200),
            ("/readyz", None, 200),
            ("/metrics", TOKEN, 200),
            ("/v1/estimates", TOKEN, 200),
            ("/v1/alerts", TOKEN, 200),
            ("/v1/runs", TOKEN, 200),
            ("/v1/dead-letters", TOKEN, 200),
            ("/v1/alerts", "wrong-0123456789a", 401),
            ("/v1/alerts", None, 401),
            ("/v1/nowhere", TOKEN, 404),
            ("/v1/traces", TOKEN, 405),
            ("/v1/estimates?window=x", TOKEN, 422),
            ("/dead/export", TOKEN, 200),
            ("/login", None, 200),
            ("/", TOKEN, 200),
            ("/live?follow=alerts", TOKEN, 200),
            ("/openapi.json", None, 200),
            ("/asyncapi.json", None, 200),
            ("/asyncapi", None, 200),
            ("/static/icon.svg", None, 200),
        ):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            for method in ("GET", "HEAD"):
                async with service.session.request(method, service.url + path, headers=headers) as reply:
                    assert reply.status == status, (method, path)
                    kept = {**SAFE, "Cache-Control": KEPT.get(path, "no-store")}
                    assert {name: reply.headers[name] for name in kept} == kept, (method, path)
                    if method == "HEAD":
                        assert await reply.read() == b""
