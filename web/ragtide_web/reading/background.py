"""Reads that take long: in a thread of their own, one at a time, and only while a page asks for them.

Decoding a large checkpoint takes seconds of processor time. In the event loop of the service it would hold up every
request, so it happens in a thread with an event loop and a Redis client of its own.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.processes.waiting import end
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now

FRESH_S: Final = 30.0
"""Seconds for which a result is shown before it is read again."""
FIRST_WAIT_S: Final = 5.0
"""Most seconds that a page waits for the first result."""
LIMIT_S: Final = 60.0
"""Seconds after which a read is given up."""
ENDING_S: Final = 5.0
"""Most seconds that the end of the service waits for the thread."""

T = TypeVar("T")
Work = Callable[[Redis, Deployment], Awaitable[T]]
"""A read, with a client and a read model for it alone."""

log = structlog.get_logger("ragtide.web")


class ReadingThread:
    """A thread with an event loop, which begins with the first read."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def run(self, work: Work[T]) -> T:
        """Return the result of a read, made in the thread; errors are raised here."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # A daemon: a read in the middle of decoding must not keep the process from ending.
            self._thread = threading.Thread(target=self._loop.run_forever, name="reading", daemon=True)
            self._thread.start()

        async def read() -> T:
            async with connect_async(self._url) as redis:
                return await work(redis, Deployment(redis, self._settings))

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(read(), self._loop))

    async def aclose(self) -> None:
        """End the thread; a read that is being made is given up."""
        if self._loop is None or self._thread is None:
            return

        async def end_reads() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                await end(task)

        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S):
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(end_reads(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, ENDING_S)
        if not self._thread.is_alive():
            self._loop.close()


@dataclass(frozen=True, slots=True)
class BackgroundResult(Generic[T]):
    """The newest result of a read."""

    value: T | None
    """None before the first result."""
    at: datetime | None
    """Time of the result; None before the first."""
    failed: bool = False
    """Whether the last read failed, or took too long."""


class BackgroundRead(Generic[T]):
    """A read that pages share, made only while a page asks.

    Args:
        read: makes it.
        fresh_s: seconds for which a result is shown before it is read again; `FRESH_S` unless given.
        wait_s: most seconds that a page waits for a new result; unless given it shows the old one meanwhile, and waits
            for the first one only.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[T]],
        fresh_s: float | None = None,
        *,
        wait_s: float | None = None,
    ) -> None:
        self._name = name
        self._read = read
        self._fresh_s = fresh_s
        self._wait_s = wait_s
        self._task: asyncio.Task[None] | None = None
        self._result: BackgroundResult[T] = BackgroundResult(None, None)
        self._ends_at = float("-inf")

    async def read(self) -> BackgroundResult[T]:
        """Return the newest result, and begin a new read if it is old."""
        loop = asyncio.get_running_loop()
        fresh_s = FRESH_S if self._fresh_s is None or self._result.failed else self._fresh_s
        if self._task is None and loop.time() - self._ends_at >= fresh_s:
            self._task = asyncio.create_task(self._run())
        wait_s = FIRST_WAIT_S if self._wait_s is None else self._wait_s
        if self._task is not None and (self._result.at is None or self._wait_s is not None):
            await asyncio.wait((self._task,), timeout=wait_s)
        return self._result

    async def aclose(self) -> None:
        """Give a read that is being made up."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                value = await self._read()
            self._result = BackgroundResult(value, utc_now())
        except Exception as error:  # noqa: BLE001 - a page with old numbers that says so is better than no page
            log.warning("a read for the page failed", read=self._name, error=f"{type(error).__name__}: {error}")
            self._result = BackgroundResult(self._result.value, self._result.at, failed=True)
        finally:
            self._ends_at = asyncio.get_running_loop().time()
            self._task = None
