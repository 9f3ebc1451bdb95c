"""Ending tasks."""

import asyncio
from typing import Any

AGAIN_S = 0.2
"""Seconds after which a task that is still running is cancelled again."""


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, with any result or error.

    Cancelling once is not enough: a cancellation that meets a reply which has just arrived can be lost inside the
    Redis client, and the task would go on.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)
    if not task.cancelled():
        task.exception()  # taken note of, so that asyncio does not report it as never retrieved
