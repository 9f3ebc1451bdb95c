"""A lease with a fencing token: at most one process owns a partition."""

import os
import socket
from typing import Final, Literal, NamedTuple
from uuid import uuid4

import structlog
from redis.asyncio import Redis

from ..redis.keys import Streams
from ..redis.scripts import Lua, ScriptCall, run_script

ACQUIRE: Final = Lua("acquire_lease")
RENEW: Final = Lua("renew_lease")
RELEASE: Final = Lua("release_lease")

TAKEN_BACK: Final = 2
"""Reply to a renewal of a lease that had run out."""

log = structlog.get_logger("ragtide.ownership")

LeaseRole = Literal["aggregator", "recorder", "driver", "notifier"]
"""Each role has a lease of its own: an aggregator and a recorder work on one partition at the same time."""


class Acquired(NamedTuple):
    """The result of a request for a lease."""

    token: str | None
    """The fencing token; None while another process holds the lease."""
    held_for_s: float = 0.0
    """Seconds until that lease runs out, unless it is renewed."""


def acquire_lease(lease: str, fencing_tokens: str, holder: str, lease_ms: int) -> ScriptCall[Acquired]:
    """Return the call that takes a lease that is free, or that this holder could not release."""
    return ScriptCall(ACQUIRE, (lease, fencing_tokens), (holder, lease_ms), _acquired)


def _acquired(reply: bytes | int) -> Acquired:
    return Acquired(None, reply / 1000) if isinstance(reply, int) else Acquired(reply.decode())


def renew_lease(lease: str, fencing_tokens: str, token: str, lease_ms: int) -> ScriptCall[int]:
    """Return the call that prolongs a lease; its reply is 1, `TAKEN_BACK`, or 0 if another process has the lease."""
    return ScriptCall(RENEW, (lease, fencing_tokens), (token, lease_ms), int)


def release_lease(lease: str, token: str) -> ScriptCall[bool]:
    """Return the call that removes a lease if it still has this token; its reply says whether it had."""
    return ScriptCall(RELEASE, (lease,), (token,), bool)


class Lease:
    """The lease of one partition. Its token is a rising number with the holder's name, so no two tokens are equal.

    Args:
        redis: client.
        streams: keys of the partition.
        holder: name of this process.
        lease_s: seconds until the lease runs out, unless it is renewed.
        role: for which the partition is owned.
    """

    def __init__(
        self, redis: Redis, streams: Streams, *, holder: str, lease_s: float, role: LeaseRole = "aggregator"
    ) -> None:
        self._keys = {
            "aggregator": (streams.lease, streams.fencing_tokens),
            "recorder": (streams.recorder_lease, streams.recorder_fencing_tokens),
            "notifier": (streams.notifier_lease, streams.notifier_fencing_tokens),
            "driver": (streams.driver, streams.driver_fencing_tokens),
        }[role]
        # The random letters keep a token unique even after a flush has reset the counter.
        self.holder = f"{holder}:{uuid4().hex[:6]}"
        self.streams = streams
        self.lease_s = lease_s
        self._lease_ms = int(lease_s * 1000)
        self._redis = redis

    async def acquire(self) -> Acquired:
        """Take the lease if it is free."""
        return await run_script(self._redis, acquire_lease(*self._keys, self.holder, self._lease_ms))

    async def renew(self, token: str) -> bool:
        """Prolong the lease and return whether it is held with this token."""
        reply = await run_script(self._redis, renew_lease(*self._keys, token, self._lease_ms))
        if reply == TAKEN_BACK:
            log.warning("a lease ran out and was taken back: no other process had acquired it", lease=self._keys[0])
        return reply > 0

    async def release(self, token: str) -> bool:
        """Release the lease if it is still held with this token, and return whether it was."""
        return await run_script(self._redis, release_lease(self._keys[0], token))


def process_name() -> str:
    """Return the name of this process as a holder of leases."""
    return f"{socket.gethostname()}-{os.getpid()}"
