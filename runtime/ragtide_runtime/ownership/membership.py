"""Shares partitions among the running aggregators: their list, and the number of partitions for each."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ..redis.keys import Streams
from ..redis.scripts import Lua, ScriptCall, run_script

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
    each, left_over = divmod(partitions, len(owned))
    richer = sorted(name for name, count in owned.items() if count > each and name != member)
    mine = owned[member]
    before_me = sorted([*richer, member]).index(member) if mine > each else len(richer)
    limit = each + (before_me < left_over)
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
