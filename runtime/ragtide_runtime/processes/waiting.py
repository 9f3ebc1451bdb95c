"""Waits: a sleep that a stop ends, growing pauses between tries of a failed command, and the end of a task."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, Final, TypeVar

T = TypeVar("T")

FIRST_PAUSE_S = 0.1
"""Seconds after the first failure, by default."""

LONGEST_PAUSE_S = 1.0
"""Most seconds between two tries, by default."""


async def sleep_or_stop(stop: asyncio.Event, seconds: float) -> bool:
    """Sleep until the time is over or `stop` is set; return whether `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


class Backoff:
    """Pauses between tries: each is twice as long as the one before it, up to a limit.

    A part of each pause is random, so that processes that lost the same Redis do not return all at once.

    >>> backoff = Backoff(first_s=1.0, longest_s=3.0, random_share=0.0)
    >>> [backoff.pause_s() for _ in range(3)]
    [1.0, 2.0, 3.0]

    Args:
        first_s: the first pause.
        longest_s: the longest pause.
        random_share: share of each pause that is drawn at random; 0 for pauses that are known in advance.
    """

    def __init__(
        self, first_s: float | None = None, longest_s: float | None = None, *, random_share: float = 0.5
    ) -> None:
        self._first_s = FIRST_PAUSE_S if first_s is None else first_s
        self._longest_s = LONGEST_PAUSE_S if longest_s is None else longest_s
        self._random_share = random_share
        self._whole_s = 0.0

    @property
    def failing(self) -> bool:
        """Whether a try has failed since the last success."""
        return self._whole_s > 0

    def pause_s(self) -> float:
        """Return the seconds to wait after one more failure."""
        self._whole_s = min(max(2 * self._whole_s, self._first_s), self._longest_s)
        return self._whole_s * random.uniform(1 - self._random_share, 1)  # noqa: S311 - not for secrets

    def succeeded(self) -> None:
        """Begin with the first pause again."""
        self._whole_s = 0.0


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, also if an event loop runs already, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="ragtide") as thread:
        return thread.submit(asyncio.run, work).result()


AGAIN_S = 0.2
"""Seconds after which a task that is still running is cancelled again."""


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, with any result or error.

    A single cancellation is not enough: inside the Redis client it can be lost if a reply has just arrived, and the
    task would continue.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it as never retrieved


_AHEAD: Final = 1
"""Items that an asynchronous generator may be ahead of its reader."""

_JOIN_S: Final = 10.0
"""Seconds to wait for a closed generator to end."""


def blocking_iterator(make: Callable[[], AsyncGenerator[T]]) -> Generator[T]:
    """Yield the items of an asynchronous generator, also if an event loop runs already.

    The generator runs in a thread with an event loop of its own, one item ahead of the reader. It is closed when this
    iterator is closed or forgotten; the thread does not keep a process from ending.

    Args:
        make: returns the generator; called in the thread.

    Raises:
        Exception: any error of the generator, after the items before it.
    """
    queue: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    loop = asyncio.new_event_loop()
    room = asyncio.Semaphore(_AHEAD)

    async def fill() -> None:
        async with aclosing(make()) as items:
            async for item in items:
                queue.put((item,))
                await room.acquire()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(work())
            except BaseException as error:  # noqa: BLE001 - the reader raises it
                queue.put(error)
            else:
                queue.put(None)

    filling: list[asyncio.Task[None]] = []

    async def work() -> None:
        filling.append(asyncio.ensure_future(fill()))
        with suppress(asyncio.CancelledError):
            await filling[0]

    thread = Thread(target=run, name="ragtide iterator", daemon=True)
    thread.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
            with suppress(RuntimeError):  # the loop is closed: the generator has ended
                loop.call_soon_threadsafe(room.release)
    finally:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in filling])
        if thread is not current_thread():  # this iterator may be forgotten anywhere
            thread.join(_JOIN_S)
