"""Ownership of partitions: leases that are held together and renewed while the work on the partitions goes on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog
from redis import RedisError

from ..cancellation import end
from ..errors import LeaseLostError
from ..redis.keys import Streams
from .lease import Lease

PATIENCE: Final = 60
"""Renewals without progress of the work after which its leases may run out, so that another process takes over."""

log = structlog.get_logger("ragtide.ownership")


class Ownership:
    """The right to work on partitions, until it is lost or given up.

    The renewal law: a task renews the leases three times within their length, however long a step of the work takes. A
    lease that ran out because the process stood still is taken back, unless another process acquired it since. Once
    the work has made no progress during `PATIENCE` renewals, its leases are no longer renewed. Renewing saves work and
    guarantees nothing: every script that writes for an owner checks the token, or a number that each owner advances.

    Args:
        leases: with the same length.
        tokens: with which they are held.
    """

    def __init__(self, leases: Sequence[Lease], tokens: Sequence[str]) -> None:
        self._leases = leases
        self._tokens = tokens
        self._renewals = 0
        self._lost = False
        self.stop = asyncio.Event()
        """Set when the work is to end: the process stops, or another process is to take the partition over."""

    @property
    def streams(self) -> list[Streams]:
        """The keys of the partitions."""
        return [lease.streams for lease in self._leases]

    @property
    def tokens(self) -> dict[int, str]:
        """The fencing token of each partition."""
        return {lease.streams.partition: token for lease, token in zip(self._leases, self._tokens, strict=True)}

    def check(self) -> None:
        """Take note that the work makes progress.

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
                for lease, token in zip(self._leases, self._tokens, strict=True):
                    self._lost = self._lost or not await lease.renew(token)
            except RedisError as error:
                # The work meets the same failure and decides.
                log.debug("renewing a lease failed, trying again", partitions=self._named(), error=str(error))

    async def release(self) -> None:
        """Give the partitions up.

        Raises:
            LeaseLostError: a lease was no longer held.
        """
        held = [await lease.release(token) for lease, token in zip(self._leases, self._tokens, strict=True)]
        if not all(held):
            raise LeaseLostError(f"the lease of {self._named()} had run out: another process may own it")

    def _named(self) -> str:
        numbers = [str(lease.streams.partition) for lease in self._leases]
        return f"partition{'s'[: len(numbers) > 1]} {', '.join(numbers)}"
