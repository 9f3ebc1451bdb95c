"""Waiting in tests: for a condition, never for a time."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final

HANGS_S: Final = 120.0
"""Seconds after which a condition counts as one that never holds. No test fails because a machine is busy."""


def wait_until(condition: Callable[[], object], timeout_s: float = HANGS_S) -> None:
    """Return as soon as the condition holds; a test whose condition never holds fails here.

    Raises:
        AssertionError: it did not hold within the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {timeout_s} s")
        time.sleep(0.01)


async def until(condition: Callable[[], object], timeout_s: float = HANGS_S) -> None:
    """Return as soon as the condition holds, which may be a coroutine's result.

    Raises:
        TimeoutError: it did not hold within the timeout.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)
