"""The memory of all bodies that are received and worked on."""

import asyncio
from typing import Final

from .problems import RETRY_AFTER_S, HttpProblem

INLINE_BYTES: Final = 65_536
"""Bodies up to this are worked on in the event loop: a thread would cost more."""


class Memory:
    """Counts the bytes of bodies.

    Args:
        most: bytes of all bodies that are received, and as many of those that are decoded.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._received = 0
        self._kept = 0
        self._freed = asyncio.Condition()

    def receive(self, size: int) -> None:
        """Count bytes that came.

        Raises:
            HttpProblem: 429, the bodies of all requests have too many. Then nothing was counted.
        """
        if self._received + size > self._most:
            detail = "the bodies of all requests fill the memory (serve.bodies_bytes): send the request again later"
            raise HttpProblem(429, detail, retry_after_s=RETRY_AFTER_S, close=True)
        self._received += size

    def release(self, size: int) -> None:
        """Count bytes as gone."""
        self._received -= size

    async def keep(self, size: int) -> None:
        """Wait until a decoded body may stay in memory; a single one always may."""
        async with self._freed:
            await self._freed.wait_for(lambda: self._kept == 0 or self._kept + size <= self._most)
            self._kept += size

    async def let_go(self, size: int) -> None:
        """Count a decoded body as gone."""
        async with self._freed:
            self._kept -= size
            self._freed.notify_all()
