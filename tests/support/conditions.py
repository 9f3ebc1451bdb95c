"""Waiting in tests: for a condition, never for a time."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Final

HANGS_S: Final = 120.0
"""Seconds after which a condition counts as never true: long, so that no test fails on a busy machine."""


def wait_until(condition: Callable[[], object], timeout_s: float = HANGS_S) -> None:
    """Return as soon as the condition holds; fail the test if it never does.

    Raises:
        AssertionError: it did not hold within the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition does not hold after {timeout_s} s")
        time.sleep(0.01)


async def until(condition: Callable[[], object], timeout_s: float = HANGS_S) -> None:
    """Return as soon as the condition holds; the condition may return an awaitable.

    Raises:
        TimeoutError: it did not hold within the timeout.
    """
    # The deadline is compared, not enforced by a cancellation: inside the Redis client a cancellation can be lost.
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition does not hold after {timeout_s} s")
        await asyncio.sleep(0.005)
