import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts import alert
from tests.support.redis_processes import RedisProcess

from ragtide import AlertSubscriber, RedisUnavailable
from ragtide_runtime.redis.keys import Streams

pytestmark = pytest.mark.processes

STREAM = Streams("ragtide", 0).alerts

TIMEOUT_S = 60.0


async def some(alerts: AsyncIterator[Any], count: int) -> list[str]:
    async with asyncio.timeout(TIMEOUT_S):
        return [(await anext(alerts)).alert_id for _ in range(count)]


@pytest.mark.parametrize(
    "fields",
    [
        {"data": '{"alert_id":"a"}'},
        {"data": "no JSON"},
        {"data": alert("newer").encode().replace(b'"schema_version":1', b'"schema_version":2')},
        {"else": "x"},
    ],
    ids=["incomplete", "not_json", "newer_schema", "no_data_field"],
)
async def test_an_alert_that_cannot_be_read_is_skipped_and_counted(
    redis: Any, redis_url: str, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    redis.xadd(STREAM, {"data": alert("first").encode()})
    for _ in range(3):
        redis.xadd(STREAM, fields)
    redis.xadd(STREAM, {"data": alert("second").encode()})
    async with AlertSubscriber(redis_url, from_start=True) as subscriber:
        alerts = aiter(subscriber)
        assert await some(alerts, 2) == ["first", "second"]
        assert subscriber.unreadable.count == 3
        redis.xadd(STREAM, {"data": alert("third").encode()})
        assert await some(alerts, 1) == ["third"]
    warnings = [record.getMessage() for record in caplog.records if record.name == "ragtide.alerts"]
    assert len(warnings) == 1
    assert "3 alerts cannot be read and are skipped" in warnings[0]


async def test_a_subscriber_begins_where_it_was_opened(redis: Any, redis_url: str) -> None:
    redis.xadd(STREAM, {"data": alert("before").encode()})
    async with AlertSubscriber(redis_url) as subscriber:
        # Nothing has asked for an alert yet.
        redis.xadd(STREAM, {"data": alert("after").encode()})
        assert await some(aiter(subscriber), 1) == ["after"]


async def test_a_subscriber_survives_a_restart_of_redis_and_loses_no_alert(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        async with AlertSubscriber(server.url) as subscriber:
            server.client.xadd(STREAM, {"data": alert("a").encode()})
            alerts = aiter(subscriber)
            assert await some(alerts, 1) == ["a"]
            waiting = asyncio.create_task(some(alerts, 3))
            for _ in range(2):
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            for name in "bcd":
                server.client.xadd(STREAM, {"data": alert(name).encode()})
            assert await waiting == ["b", "c", "d"]
    told = [record.getMessage() for record in caplog.records if record.name == "ragtide.alerts"]
    # One line says that an outage began and one that it ended, whatever the number of tries in between.
    assert len(told) <= 4
    assert "cannot be used" in told[0]
    assert "can be used again" in told[-1]


async def test_a_subscriber_goes_back_when_redis_has_lost_the_end_of_the_stream(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis", "save ''") as server:
        async with AlertSubscriber(server.url) as subscriber:
            # An id of the far future: whatever comes after the loss has a smaller one.
            server.client.xadd(STREAM, {"data": alert("a").encode()}, id="9999999999999-0")
            alerts = aiter(subscriber)
            assert await some(alerts, 1) == ["a"]
            waiting = asyncio.create_task(some(alerts, 1))
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            server.client.xadd(STREAM, {"data": alert("b").encode()})
            assert await waiting == ["b"]


async def test_a_subscriber_of_a_redis_that_is_not_there_says_so_at_once() -> None:
    with pytest.raises(RedisUnavailable, match="no usable Redis"):
        async with AlertSubscriber("redis://127.0.0.1:1/0"):
            pass
