"""Leases with a fencing token, and the ownership of partitions: at most one process owns each.

The leases of a process are renewed together while the work on their partitions makes progress.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final, Literal, NamedTuple
from uuid import uuid4

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ..errors import LeaseLostError
from ..processes.waiting import end
from ..redis.keys import Streams
from ..redis.scripts import Lua, ScriptCall, run_script

ACQUIRE: Final = Lua("acquire_lease")
RENEW: Final = Lua("renew_lease")
RELEASE: Final = Lua("release_lease")

TAKEN_BACK: Final = 2
"""Reply to a renewal of a lease that had run out."""

LeaseRole = Literal["aggregator", "recorder", "driver", "notifier", "sentinels"]
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
            "sentinels": (streams.sentinels_lease, streams.sentinels_fencing_tokens),
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


PATIENCE: Final = 60
"""Renewals without progress of the work, after which its leases may run out so that another process takes over."""

log = structlog.get_logger("ragtide.ownership")


class Ownership:
    """The right to work on partitions, until it is lost or released.

    The renewal law: a task renews the leases three times within their length, however long a step of the work takes. A
    lease that ran out because the process stood still is taken back, unless another process has acquired it. After
    `PATIENCE` renewals without progress of the work, the leases are no longer renewed. Renewal only saves work. The
    guarantee is in the scripts: each script that writes for an owner checks the token, or a number that owners advance.

    Args:
        leases: all of the same length.
        tokens: the fencing token of each lease.
        asked_s: monotonic time before the first lease was acquired; the present time unless given.
    """

    def __init__(self, leases: Sequence[Lease], tokens: Sequence[str], *, asked_s: float | None = None) -> None:
        self._leases = leases
        self._tokens = tokens
        self._held_until_s = (monotonic() if asked_s is None else asked_s) + leases[0].lease_s
        self._renewals = 0
        self._lost = False
        self.stop = asyncio.Event()
        """Set when the work is to end: the process stops, or another process is to take over."""

    @property
    def streams(self) -> list[Streams]:
        """The keys of the partitions."""
        return [lease.streams for lease in self._leases]

    @property
    def tokens(self) -> dict[int, str]:
        """The fencing token of each partition."""
        return {lease.streams.partition: token for lease, token in zip(self._leases, self._tokens, strict=True)}

    @property
    def certain(self) -> bool:
        """Whether no other process can own a partition now: the last answer of Redis is younger than the leases."""
        return not self._lost and monotonic() < self._held_until_s

    def check(self) -> None:
        """Report that the work makes progress.

        Raises:
            LeaseLostError: another process owns a partition; end the work.
        """
        self._renewals = 0
        if self._lost:
            raise LeaseLostError(f"the lease of {self._named()} ran out, and another process took it")

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew the leases for the body of an `async with`."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            await end(renewing)

    async def _renew(self) -> None:
        while not self._lost:
            await asyncio.sleep(self._leases[0].lease_s / 3)
            self._renewals += 1
            if self._renewals == PATIENCE + 1:
                log.error("a step makes no progress: its lease is no longer renewed", partitions=self._named())
            if self._renewals > PATIENCE:
                continue
            try:
                asked_s = monotonic()
                for lease, token in zip(self._leases, self._tokens, strict=True):
                    self._lost = self._lost or not await lease.renew(token)
                self._held_until_s = asked_s + self._leases[0].lease_s
            except RedisError as error:
                # The work meets the same failure and handles it.
                log.debug("renewing a lease failed, trying again", partitions=self._named(), error=str(error))

    async def release(self) -> None:
        """Release the leases.

        Raises:
            LeaseLostError: a lease was no longer held.
        """
        held = [await lease.release(token) for lease, token in zip(self._leases, self._tokens, strict=True)]
        if not all(held):
            raise LeaseLostError(f"the lease of {self._named()} had run out: another process may own it")

    def _named(self) -> str:
        numbers = [str(lease.streams.partition) for lease in self._leases]
        return f"partition{'s'[: len(numbers) > 1]} {', '.join(numbers)}"
