"""Work ends with its request: a client that leaves cancels what it asked for, unless that changes something."""

import asyncio
from typing import Any

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send
from tests.support.http_service import http_service

from ragtide import Deployment
from ragtide_runtime.redis.client import connect_async
from ragtide_web.guard.middleware import answer_while_connected
from ragtide_web.guard.problems import RedisProblem, redis_is_away


async def no_send(_: Any) -> None:
    """Send nothing."""


async def test_a_request_is_cancelled_when_its_client_is_gone() -> None:
    messages: asyncio.Queue[Message] = asyncio.Queue()
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        assert (await receive())["type"] == "http.request"
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    answering = asyncio.create_task(answer_while_connected(app, {}, messages.get, no_send))
    await began.wait()
    assert not answering.done()
    messages.put_nowait({"type": "http.disconnect"})
    with pytest.raises(ClientDisconnect):
        await answering
    assert cancelled.is_set()


async def test_an_answer_and_an_error_come_through() -> None:
    sent: list[Any] = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "answer"})
        raise KeyError("a defect")

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(KeyError):
        await answer_while_connected(app, {}, asyncio.Queue[Message]().get, send)
    assert sent == [{"type": "answer"}]


@pytest.mark.parametrize("path", ["/", "/v1/fleet", "/v1/headlines"])
async def test_no_reading_continues_after_its_only_viewer_has_left(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def standings(*_: Any, **__: Any) -> list[Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return []

    monkeypatch.setattr(Deployment, "standings", standings)
    async with http_service(redis_url) as service:
        _, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await began.wait()
        assert not cancelled.is_set()
        writer.close()
        await cancelled.wait()


async def test_a_slow_answer_is_not_a_redis_that_is_away(async_redis: Any) -> None:
    problem, away = redis_is_away(RedisTimeoutError("Timeout reading from socket")), redis_is_away(OSError())
    assert isinstance(problem, RedisProblem)
    assert problem.detail == away.detail
    await problem.name_cause(async_redis)
    await away.name_cause(async_redis)
    assert (problem.status, away.status) == (504, 503)
    assert problem.detail != away.detail


async def test_a_redis_that_does_not_answer_is_named_as_such() -> None:
    async with connect_async("redis://127.0.0.1:1/0") as nowhere:
        problem = redis_is_away(RedisTimeoutError("Timeout reading from socket"))
        before = problem.detail
        await problem.name_cause(nowhere)
        assert problem.detail == before
