"""Quarantine: an entry that was delivered too often is labeled alone before it becomes a dead letter.

A worker that dies fails a delivery of every entry that it held. By the number of deliveries alone, all these entries
would become dead letters, not only the entry that crashed the worker. In quarantine the worker labels nothing else: if
it dies again, this entry is the likely cause. Each attempt is counted in Redis before it begins.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams

EXCLUSIVE_ATTEMPTS: Final = 3
"""Attempts in quarantine after which an entry becomes a dead letter. There are several, because a worker may also die
of another cause."""

REMEMBERED_MS: Final = 86_400_000
"""Milliseconds for which attempts are remembered."""


class RetryBudget:
    """The attempts in quarantine of the entries of a partition, counted in Redis."""

    def __init__(self, redis: Redis, streams: Streams) -> None:
        self._redis = redis
        self._streams = streams

    async def spend(self, entry_id: str) -> bool:
        """Count an attempt at an entry, and return whether the budget allows it.

        Raises:
            redis.RedisError: the attempt may or may not have been counted.
        """
        key = self._streams.quarantine(entry_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.pexpire(key, REMEMBERED_MS)
            attempts, _ = await pipe.execute()
        return int(attempts) <= EXCLUSIVE_ATTEMPTS

    async def refund(self, entry_id: str) -> None:
        """Uncount an attempt, because the labeler was unavailable.

        Raises:
            redis.RedisError: the attempt may or may not have been uncounted.
        """
        await self._redis.decr(self._streams.quarantine(entry_id))


class ExclusiveExecution:
    """Lets a worker label many entries at once, or a single suspect."""

    def __init__(self) -> None:
        self._shared = 0
        self._none_shared = asyncio.Event()
        self._none_shared.set()
        self._exclusive = False
        self._not_exclusive = asyncio.Event()
        self._not_exclusive.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Wait until no suspect is being labeled; keep suspects waiting for the body of the `async with`."""
        while self._exclusive:
            await self._not_exclusive.wait()
        self._shared += 1
        self._none_shared.clear()
        try:
            yield
        finally:
            self._shared -= 1
            if not self._shared:
                self._none_shared.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Wait until nothing else is being labeled; keep everything else waiting for the body of the `async with`."""
        while self._exclusive:
            await self._not_exclusive.wait()
        self._exclusive = True
        self._not_exclusive.clear()
        try:
            await self._none_shared.wait()
            yield
        finally:
            self._exclusive = False
            self._not_exclusive.set()
