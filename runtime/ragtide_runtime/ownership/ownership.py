"""The ownership of partitions by one process: their leases, renewed together while the work on them makes progress."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

import structlog
from redis import RedisError

from ..errors import LeaseLostError
from ..processes.cancellation import end
from ..redis.keys import Streams
from .lease import Lease

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
    async def renewed(self) -> AsyncIterator[None]:
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
