"""A lease with a fencing token: at most one process owns a partition."""

import os
import socket
from typing import Final, Literal, NamedTuple
from uuid import uuid4

from redis.asyncio import Redis

from ..redis.keys import Streams

ACQUIRE_SCRIPT: Final = """
-- KEYS: lease, counter of fencing tokens. ARGV: holder, lease ms.
-- Returns the token, or the ms for which another process still holds the lease. A holder that could not release its
-- lease, because Redis did not answer, may take it again at once.
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, -#ARGV[1] - 1) ~= ':' .. ARGV[1] then
    return redis.call('PTTL', KEYS[1])
end
local token = redis.call('INCR', KEYS[2]) .. ':' .. ARGV[1]
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
"""

RENEW_SCRIPT: Final = """
-- KEYS: lease, counter of fencing tokens. ARGV: token, lease ms.
-- Returns 1 if the lease is held with this token. A lease that ran out is taken back, unless another process has
-- acquired it since: the counter then has another number.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
    return 0
end
if not held and redis.call('GET', KEYS[2]) ~= string.match(ARGV[1], '^%d+') then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

RELEASE_SCRIPT: Final = """
-- KEYS: lease. ARGV: token. Returns 1 if the lease was still held with this token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('DEL', KEYS[1])
"""

Role = Literal["aggregator", "recorder", "driver"]
"""Each role has a lease of its own: an aggregator and a recorder work on one partition at the same time."""


class Acquired(NamedTuple):
    """The result of a request for a lease."""

    token: str | None
    """The fencing token, None while another process holds the lease."""
    held_for_s: float = 0.0
    """Seconds until that lease runs out, unless it is renewed."""


class Lease:
    """The lease of one partition. Its token is a rising number and the holder's name, so that no two are equal.

    Args:
        redis: client.
        streams: keys of the partition.
        holder: name of the process that asks.
        lease_s: seconds for which it is given.
        role: for which the partition is owned.
    """

    def __init__(
        self, redis: Redis, streams: Streams, *, holder: str, lease_s: float, role: Role = "aggregator"
    ) -> None:
        self._keys = {
            "aggregator": [streams.lease, streams.fencing_tokens],
            "recorder": [streams.recorder_lease, streams.recorder_fencing_tokens],
            "driver": [streams.driver, streams.driver_fencing_tokens],
        }[role]
        # A few random letters, so that a token is unique even after a flush has reset the counter.
        self.holder = f"{holder}:{uuid4().hex[:6]}"
        self.streams = streams
        self.lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._acquire = redis.register_script(ACQUIRE_SCRIPT)
        self._renew = redis.register_script(RENEW_SCRIPT)
        self._release = redis.register_script(RELEASE_SCRIPT)

    async def acquire(self) -> Acquired:
        """Ask for the lease."""
        reply = await self._acquire(keys=self._keys, args=[self.holder, self._lease_ms])
        return Acquired(None, reply / 1000) if isinstance(reply, int) else Acquired(reply.decode())

    async def renew(self, token: str) -> bool:
        """Prolong the lease and return whether it is held with this token."""
        return bool(await self._renew(keys=self._keys, args=[token, self._lease_ms]) == 1)

    async def release(self, token: str) -> bool:
        """Release the lease if it is still held with this token, and return whether it was."""
        return bool(await self._release(keys=self._keys[:1], args=[token]) == 1)


def process_name() -> str:
    """Return the name of this process on its host, as the holder of leases."""
    return f"{socket.gethostname()}-{os.getpid()}"
