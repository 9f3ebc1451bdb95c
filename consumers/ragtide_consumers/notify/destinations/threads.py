"""Threads of a destination whose library waits for its server."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MOST_THREADS = 2
"""Threads of a destination: one may still wait for a server that hangs while another delivers."""


class DeliveryThreads:
    """Threads of one destination, so that a server that hangs takes no thread from other destinations.

    The event loop resolves names in its own threads, so a destination must not fill these.

    Args:
        name: of the destination.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=f"notify-{name}")

    async def run(self, deliver: Callable[[], T], timeout_s: float) -> T:
        """Return what `deliver` returns.

        Args:
            deliver: runs in a thread. It goes on after the time limit, and its result is ignored then.
            timeout_s: seconds to wait for it.

        Raises:
            TimeoutError: it took longer.
        """
        async with asyncio.timeout(timeout_s):
            return await asyncio.get_running_loop().run_in_executor(self._pool, deliver)

    def close(self) -> None:
        """Begin nothing more, and do not wait for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
