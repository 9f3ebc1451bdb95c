"""Reads that take long: one at a time, in a thread of their own, and they hold nothing up."""

import asyncio
import threading
import time
from typing import Any

import pytest
from redis.asyncio import Redis
from tests.support.conditions import until

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.settings.model import Settings
from ragtide_web.reading import background
from ragtide_web.reading.background import BackgroundRead, ReadingThread


async def test_a_result_is_kept_for_a_while_and_pages_share_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    async def read() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return made

    shared = BackgroundRead("numbers", read)
    found = await asyncio.gather(*(shared.read() for _ in range(3)))
    assert {one.value for one in found} == {1}
    assert (await shared.read()).at == found[0].at
    monkeypatch.setattr(background, "FRESH_S", 0.0)

    async def is_new() -> bool:
        return (await shared.read()).value != 1

    await until(is_new)
    await shared.aclose()


async def test_a_failure_keeps_the_old_result_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "FRESH_S", 0.0)
    broken = False

    async def read() -> str:
        await asyncio.sleep(0)
        if broken:
            raise OSError("no Redis")
        return "well"

    shared = BackgroundRead("words", read)
    assert (await shared.read()).value == "well"
    broken = True

    async def has_failed() -> bool:
        return (await shared.read()).failed

    await until(has_failed)
    assert (await shared.read()).value == "well"
    await shared.aclose()


async def test_a_read_in_the_thread_holds_nothing_up(async_redis: Any, redis_url: str) -> None:
    await async_redis.set("x", "1")
    going = threading.Event()

    async def work(redis: Redis, deployment: Deployment) -> tuple[Any, int]:
        del deployment
        found = await redis.get("x")
        going.wait(60)  # as decoding does, it gives no other task of its loop a turn
        return found, threading.get_ident()

    thread = ReadingThread(redis_url, Settings())
    reading = asyncio.create_task(thread.run(work))
    await asyncio.sleep(0.01)  # this loop goes on
    going.set()
    found, ident = await reading
    assert found == b"1"
    assert ident != threading.get_ident()

    async def failing(*_: Any) -> None:
        raise OSError("no such thing")

    with pytest.raises(OSError, match="no such thing"):
        await thread.run(failing)
    await thread.aclose()


async def test_the_end_does_not_wait_for_a_read(redis_url: str) -> None:
    thread = ReadingThread(redis_url, Settings())
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def endless(*_: Any) -> None:
        loop.call_soon_threadsafe(began.set)
        await asyncio.Event().wait()

    shared = BackgroundRead("endless", lambda: thread.run(endless))
    reading = asyncio.create_task(shared.read())
    await began.wait()
    at = time.monotonic()
    await shared.aclose()
    await thread.aclose()
    await reading
    assert time.monotonic() - at < background.ENDING_S * 2
    await ReadingThread(redis_url, Settings()).aclose()
