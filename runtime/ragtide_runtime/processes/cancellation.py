"""Ends an asyncio task for certain, even if its first cancellation is lost."""

import asyncio
from typing import Any

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
