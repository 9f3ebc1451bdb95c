"""A lease with a fencing token: at most one process owns a partition."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple
from uuid import uuid4

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ..redis.keys import Streams

ACQUIRE_SCRIPT: Final = """
-- KEYS: lease, counter of fencing tokens. ARGV: holder, lease ms.
-- Returns the token, or the ms for which somebody else still holds the lease. What this holder itself had and could not
-- give up, because Redis did not answer, it may take again at once.
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, -#ARGV[1] - 1) ~= ':' .. ARGV[1] then
    return redis.call('PTTL', KEYS[1])
end
local token = redis.call('INCR', KEYS[2]) .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
"""

RENEW_SCRIPT: Final = """
-- KEYS: lease. ARGV: token, lease ms. Returns 1 if it is still ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

RELEASE_SCRIPT: Final = """
-- KEYS: lease. ARGV: token. Returns 1 if it was still ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('DEL', KEYS[1])
"""


PATIENCE: Final = 60
"""After this many renewals without progress of the owner the lease may run out, so that a standby can take over."""

log = structlog.get_logger("ragtide.lease")


class Acquired(NamedTuple):
    """The result of a request for a lease."""

    token: str | None
    """The fencing token, None while another process holds the lease."""
    held_for_s: float = 0.0
    """Seconds until that lease runs out, unless it is prolonged."""


class Progress:
    """Counts the renewals of a lease since its owner last made progress."""

    def __init__(self) -> None:
        self.renewals = 0

    def made(self) -> None:
        """Take note that the owner made progress."""
        self.renewals = 0


class Lease:
    """The lease of one partition. Its token is a rising number and the holder's name, so that no two are equal.

    Args:
        redis: client.
        streams: keys of the partition.
        holder: name of the process that asks.
        lease_s: seconds for which it is given.
        recorder: whether it is the recorder's lease, and not the aggregator's.
    """

    def __init__(self, redis: Redis, streams: Streams, *, holder: str, lease_s: float, recorder: bool = False) -> None:
        self._keys = (
            [streams.recorder_lease, streams.recorder_fencing_tokens]
            if recorder
            else [streams.lease, streams.fencing_tokens]
        )
        # A few random letters, so that a token is unique even after a flush has reset the counter.
        self.holder = f"{holder}:{uuid4().hex[:6]}"
        self._lease_ms = int(lease_s * 1000)
        self._acquire = redis.register_script(ACQUIRE_SCRIPT)
        self._renew = redis.register_script(RENEW_SCRIPT)
        self._release = redis.register_script(RELEASE_SCRIPT)

    async def acquire(self) -> Acquired:
        """Ask for the lease."""
        reply = await self._acquire(keys=self._keys, args=[self.holder, self._lease_ms])
        return Acquired(None, reply / 1000) if isinstance(reply, int) else Acquired(reply.decode())

    async def renew(self, token: str) -> bool:
        """Prolong the lease and return whether it was still held with this token."""
        return bool(await self._renew(keys=self._keys[:1], args=[token, self._lease_ms]) == 1)

    @asynccontextmanager
    async def kept(self, token: str) -> AsyncIterator["Progress"]:
        """Renew the lease three times within its length, for the body of an `async with`, however long a step takes.

        Renewing ends when the lease is lost, and when the body has made no progress during `PATIENCE` renewals.
        """
        progress = Progress()
        keeper = asyncio.create_task(self._keep(token, progress))
        try:
            yield progress
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self, token: str, progress: "Progress") -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            progress.renewals += 1
            if progress.renewals > PATIENCE:
                log.error("a step makes no progress: its lease is no longer renewed", lease=self._keys[0])
                return
            try:
                if not await self.renew(token):
                    return
            except RedisError as error:
                # The owner meets the same failure and decides.
                log.debug("renewing a lease failed, trying again", lease=self._keys[0], error=str(error))

    async def release(self, token: str) -> bool:
        """Give the lease up if it is still held with this token, and return whether it was."""
        return bool(await self._release(keys=self._keys[:1], args=[token]) == 1)
