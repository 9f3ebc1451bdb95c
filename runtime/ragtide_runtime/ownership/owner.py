"""The owner loop: acquires partitions, works on them while their leases are held, and takes over from dead owners.

The running aggregators share the partitions equally: each lists itself in Redis with the number that it owns.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final, NamedTuple

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ..errors import LeaseLostError, RagtideError, StreamRollbackError
from ..processes.waiting import Backoff, end, sleep_or_stop
from ..redis.keys import Streams, interaction_digest
from ..redis.scripts import Lua, ScriptCall, run_script
from ..telemetry.outages import redis_outage
from .ownership import Lease, Ownership
from .telemetry import OwnerTelemetry

HEARTBEAT: Final = Lua("heartbeat")


class Rebalance(NamedTuple):
    """How many more partitions a member may acquire, and how many it should release."""

    acquire: int
    release: int


def rebalance(member: str, owned: Mapping[str, int], partitions: int) -> Rebalance:
    """Return how a member changes the number of its partitions, so that all members own equally many, or one more.

    A member releases a partition only if another member has too few. If the division leaves a remainder, that many
    members may own one partition more than the others; members that already own one more come first.

    Args:
        member: its name.
        owned: number of partitions every member owns, this one among them.
        partitions: number of partitions.
    """
    share, left_over = divmod(partitions, len(owned))
    richer = sorted(name for name, count in owned.items() if count > share and name != member)
    mine = owned[member]
    before_me = sorted([*richer, member]).index(member) if mine > share else len(richer)
    limit = share + (before_me < left_over)
    return Rebalance(max(limit - mine, 0), max(mine - limit, 0))


def heartbeat(members: str, member: str, silent_ms: int, owned: int) -> ScriptCall[dict[str, int]]:
    """Return the call that lists a member; its reply is all members with the number of partitions each owns."""
    return ScriptCall(HEARTBEAT, (members,), (member, silent_ms, owned), _members)


def _members(reply: list[bytes]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in zip(reply[::2], reply[1::2], strict=True)}


class Membership:
    """Tells other members that this one runs, and reads their list. A member silent for `silent_s` is removed."""

    def __init__(self, redis: Redis, prefix: str, *, member: str, silent_s: float) -> None:
        # All partitions have one list of members, in the slot of the first.
        self._key = Streams(prefix, 0).aggregators
        self._redis = redis
        self.member = member
        self._silent_ms = int(silent_s * 1000)

    async def heartbeat(self, owned: int) -> dict[str, int]:
        """Report that this member runs, and return all members with the number of partitions each owns."""
        return await run_script(self._redis, heartbeat(self._key, self.member, self._silent_ms, owned))

    async def leave(self) -> None:
        """Report that this member has ended."""
        await self._redis.hdel(self._key, self.member)


SOON_S: Final = 0.2
"""Seconds until the next request for a partition whose owner keeps renewing the lease."""

MARGIN_S: Final = 0.05
"""Seconds added to the rest of a lease, so that the lease of a dead process has run out for certain."""

Work = Callable[[Ownership], Awaitable[None]]
"""The work on owned partitions. It ends soon after `stop` of the ownership is set, and calls `check` often."""

log = structlog.get_logger("ragtide.ownership")


class PartitionOwner:
    """Owns partitions for one role of a process.

    A service owns each partition by itself and serves it until `stop` is set. After its work on a partition ended, the
    lease was lost or Redis failed, it requests the partition again. Members share the partitions; without a membership
    each process takes every free partition.

    An exclusive owner (`refusal`) works on all partitions at once, until its work is done. It waits until the leases of
    a dead process have run out.

    Args:
        redis: client.
        membership: the processes that share the partitions.
        refusal: for an exclusive owner, raised if a live process owns a partition.
    """

    def __init__(
        self,
        redis: Redis,
        leases: Sequence[Lease],
        work: Work,
        *,
        telemetry: OwnerTelemetry,
        membership: Membership | None = None,
        refusal: RagtideError | None = None,
    ) -> None:
        self._groups = [(lease,) for lease in leases] if refusal is None else [tuple(leases)]
        self._work = work
        self._telemetry = telemetry
        self._membership = membership
        self._refusal = refusal
        self._refuse_at: dict[Lease, float] = {}
        self._poll_s = min(leases[0].lease_s / 6, 1.0)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._done = False
        self._standing_by = False
        self._outage = redis_outage(redis).attempt("looking for partitions")
        self._backoff = Backoff()
        self.owned: dict[int, Ownership] = {}
        """The partitions that are owned now, by their numbers; the only entry of an exclusive owner has number 0."""

    async def run(self, stop: asyncio.Event) -> None:
        """Own partitions until `stop` is set; an exclusive owner ends when its work is done.

        Raises:
            RagtideError: the work cannot continue, or a live process owns a partition of an exclusive owner.
            redis.RedisError: Redis failed an exclusive owner.
        """
        with self._telemetry.reporting():
            await self._run(stop)

    async def _run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        try:
            while not (stop.is_set() or self._done):
                wait_s = await self._turn()
                waits = [stopping, *self._tasks.values()]
                await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                self._reap()
        finally:
            await end(stopping)
            for ownership in self.owned.values():
                ownership.stop.set()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
            if self._membership is not None:
                with suppress(RedisError):
                    await self._membership.leave()
        self._reap()

    def _reap(self) -> None:
        for number, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[number], self.owned[number]
                task.result()

    async def _turn(self) -> float:
        try:
            wanted = len(self._groups) if self._membership is None else await self._rebalance(self._membership)
            wait_s = await self._acquire(wanted)
        except RedisError as error:
            if self._refusal is not None:
                raise
            self._telemetry.failed(error)
            self._outage.failed(error)
            return self._backoff.pause_s()
        self._outage.succeeded()
        self._backoff.succeeded()
        return wait_s

    async def _rebalance(self, membership: Membership) -> int:
        members = await membership.heartbeat(len(self.owned))
        change = rebalance(membership.member, members, len(self._groups))
        for number in sorted(self.owned, reverse=True)[: change.release]:
            log.info(f"this {self._telemetry.role} releases a partition for another one", partition=number)
            self.owned[number].stop.set()
        return change.acquire

    async def _acquire(self, wanted: int) -> float:
        waits = [self._poll_s]
        for number in self._free():
            if not wanted:
                break
            held_for_s = await self._acquire_group(number)
            if held_for_s is None:
                wanted -= 1
            else:
                # The next turn comes when the lease runs out, unless it is renewed.
                waits.append(max(held_for_s, 0.001) if held_for_s < self._poll_s else SOON_S)
        if not (self.owned or self._standing_by or self._refusal):
            log.info(f"standing by: other {self._telemetry.role}s own all partitions", partitions=len(self._groups))
        self._standing_by = not self.owned
        self._telemetry.turned(len(self.owned))
        return min(waits)

    def _free(self) -> Iterator[int]:
        # Each process has another first partition, so that processes that start together do not compete for one.
        first = int(interaction_digest("", self._groups[0][0].holder)[:8], 16)
        for number in range(len(self._groups)):
            candidate = (first + number) % len(self._groups)
            if candidate not in self.owned:
                yield candidate

    async def _acquire_group(self, number: int) -> float | None:
        leases, tokens, asked_s = self._groups[number], list[str](), monotonic()
        for lease in leases:
            outcome = await lease.acquire()
            if outcome.token is None:
                for taken, token in zip(leases, tokens, strict=False):
                    await taken.release(token)
                self._refuse(lease, outcome.held_for_s)
                return outcome.held_for_s
            tokens.append(outcome.token)
        self._refuse_at.clear()
        self.owned[number] = Ownership(leases, tokens, asked_s=asked_s)
        self._tasks[number] = asyncio.create_task(self._own(number, self.owned[number]))
        return None

    def _refuse(self, lease: Lease, held_for_s: float) -> None:
        """Raise the refusal of an exclusive owner, once the lease of a dead process would have run out."""
        if self._refusal is not None and monotonic() >= self._refuse_at.setdefault(
            lease, monotonic() + max(held_for_s, 0.0) + MARGIN_S
        ):
            raise self._refusal

    async def _own(self, number: int, ownership: Ownership) -> None:
        with self._telemetry.owning(number):
            try:
                async with ownership.renewing():
                    await self._work(ownership)
                self._done = self._refusal is not None
                await ownership.release()
            except (LeaseLostError, StreamRollbackError) as error:
                self._telemetry.lost()
                role = self._telemetry.role
                log.warning(f"partition lost: this {role} no longer owns it", partition=number, detail=str(error))
            except RedisError as error:
                if self._refusal is not None and not self._done:
                    raise
                # The next ownership reads again the entries that were not committed.
                self._telemetry.partition_failed(number, error)
                self._outage.failed(error, partition=number)
                await sleep_or_stop(ownership.stop, self._backoff.pause_s())
            finally:
                with suppress(RedisError, LeaseLostError):
                    await ownership.release()
