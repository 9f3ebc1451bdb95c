"""Runs coroutines together until a signal comes or one of them fails."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import structlog

from ragtide_runtime.processes.waiting import end

END_S: Final = 17.0
"""Seconds after a signal at which the process ends in any case, before an orchestrator kills it (20 to 30 s).

An outage of Redis may hold up several commands of a role, each for the time limit of a reply.
"""

log = structlog.get_logger("ragtide")


@contextmanager
def on_signal(action: Callable[[], object], *, parent: Connection | None = None) -> Iterator[None]:
    """Call `action` at the first SIGTERM or SIGINT; a second signal ends the process at once, and so does `END_S`.

    From the first SIGTERM on, and after the body, the handler of the process holds: `cli.run` sets one where the kernel
    would drop the signal.

    Args:
        action: called at most once for each signal.
        parent: in a process of several, its connection to their parent, whose end counts as a signal. Such a process
            leaves SIGINT to the parent, and a second SIGTERM changes nothing, because a supervisor of the machine may
            send it to each process as the parent does. The parent kills a process that does not end.
    """
    loop = asyncio.get_running_loop()
    limit = threading.Timer(END_S, _end_at_once)
    limit.daemon = True
    numbers = (signal.SIGTERM, signal.SIGINT) if parent is None else (signal.SIGTERM,)
    before = signal.getsignal(signal.SIGTERM)
    stopping = False

    def act(number: signal.Signals) -> None:
        nonlocal stopping
        if parent is None:
            restore(number)
        else:
            loop.remove_reader(parent)
            if stopping:
                return
        if not stopping:
            limit.start()
        stopping = True
        action()

    def restore(number: signal.Signals) -> None:
        if loop.remove_signal_handler(number) and number == signal.SIGTERM:
            signal.signal(number, before)

    for number in numbers:
        loop.add_signal_handler(number, act, number)
    if parent is not None:
        loop.add_reader(parent, act, signal.SIGTERM)
    try:
        yield
    finally:
        limit.cancel()
        if parent is not None:
            loop.remove_reader(parent)
        for number in numbers:
            restore(number)


def _end_at_once() -> None:
    # Whatever is unfinished is done again by another process, as after a power cut.
    log.warning(f"ending now: a role did not end within {END_S:g} s, because Redis or a labeler does not answer")
    sys.stderr.flush()
    os._exit(0)


async def until_signal(
    *roles: Coroutine[Any, Any, object], stop: asyncio.Event, parent: Connection | None = None
) -> None:
    """Run roles together until a signal (`on_signal`) sets `stop`, then wait until they have ended."""
    with on_signal(stop.set, parent=parent):
        await together(*roles, stop=stop)


async def cancelled_by_signal(endless: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that has no end of its own; cancel it at SIGTERM or SIGINT."""
    task, stop = asyncio.ensure_future(endless), asyncio.Event()
    task.add_done_callback(lambda _: stop.set())
    with on_signal(stop.set):
        await stop.wait()
    if task.done():
        task.result()
    await end(task)


async def together(*roles: Coroutine[Any, Any, object], stop: asyncio.Event) -> None:
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
async def in_background(*roles: Coroutine[Any, Any, object], stop: asyncio.Event) -> AsyncIterator[None]:
    """Run roles beside the body of an `async with`, and stop them at its end."""
    running = asyncio.create_task(together(*roles, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await running
