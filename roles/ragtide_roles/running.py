"""Runs coroutines together until a signal comes or one of them fails."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ragtide_runtime.cancellation import end


@contextmanager
def on_signal(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` at the first SIGTERM or SIGINT; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()

    def act(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        action()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act, number)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def until_signal(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run roles together until SIGTERM or SIGINT sets `stop`, then wait until they have ended."""
    with on_signal(stop.set):
        await together(*roles, stop=stop)


async def cancelled_by_signal(endless: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has no end of its own; cancel it at SIGTERM or SIGINT."""
    task, stop = asyncio.ensure_future(endless), asyncio.Event()
    task.add_done_callback(lambda _: stop.set())
    with on_signal(stop.set):
        await stop.wait()
    if task.done():
        task.result()
    await end(task)


async def together(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run roles until all have ended. If a role fails, stop the others, wait for them, and raise its error."""
    tasks = [asyncio.create_task(role) for role in roles]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


@asynccontextmanager
async def in_background(*roles: Coroutine[Any, Any, None], stop: asyncio.Event) -> AsyncIterator[None]:
    """Run roles beside the body of an `async with`, and stop them at its end."""
    running = asyncio.create_task(together(*roles, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await running
