"""The quarantine lane: an entry that was delivered too often is tried alone before it is given up.

A worker that dies fails a delivery of every entry that it held. The number of deliveries alone would give up the
innocent neighbours of a deadly entry with it. In the lane the worker labels nothing else: if it dies again, this entry
is the likely cause. Tries are counted in Redis before they begin.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams

TRIES_ALONE: Final = 3
"""Tries in the lane after which an entry is given up: something else than the entry may also kill the worker."""

REMEMBERED_MS: Final = 86_400_000
"""Milliseconds for which tries are remembered."""


class Lane:
    """Lets a worker label many entries at once, or a single suspect."""

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams
        self._together = 0
        self._nobody = asyncio.Event()
        self._nobody.set()
        self._occupied = False
        self._free = asyncio.Event()
        self._free.set()

    async def admitted(self, entry_id: str) -> bool:
        """Count a try of a suspect, and return whether it may be made.

        Raises:
            redis.RedisError: it may or may not have been counted.
        """
        key = self._streams.quarantine(entry_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.pexpire(key, REMEMBERED_MS)
            tries, _ = await pipe.execute()
        return int(tries) <= TRIES_ALONE

    async def not_tried(self, entry_id: str) -> None:
        """Take one try off a suspect, because its labeler was unavailable.

        Raises:
            redis.RedisError: it may or may not have been taken off.
        """
        await self._redis.decr(self._streams.quarantine(entry_id))

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Wait until no suspect is being tried, and keep one from being tried meanwhile."""
        while self._occupied:
            await self._free.wait()
        self._together += 1
        self._nobody.clear()
        try:
            yield
        finally:
            self._together -= 1
            if not self._together:
                self._nobody.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until nothing else is being labeled, and keep everything else waiting meanwhile."""
        while self._occupied:
            await self._free.wait()
        self._occupied = True
        self._free.clear()
        try:
            await self._nobody.wait()
            yield
        finally:
            self._occupied = False
            self._free.set()
