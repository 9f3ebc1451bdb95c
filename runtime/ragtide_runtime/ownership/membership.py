"""The list of running aggregators, and the number of partitions that each should own."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ..redis.keys import Streams

BEAT_SCRIPT: Final = """
-- KEYS: aggregators. ARGV: holder, ms for which it counts, partitions it owns.
-- Returns every aggregator that counts, each with the number of partitions it owns.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], (now + ARGV[2]) .. ' ' .. ARGV[3])
local found = redis.call('HGETALL', KEYS[1])
local members = {}
for i = 1, #found, 2 do
    local ends, owned = string.match(found[i + 1], '(%d+) (%d+)')
    if tonumber(ends) < now then
        redis.call('HDEL', KEYS[1], found[i])
    else
        table.insert(members, found[i])
        table.insert(members, owned)
    end
end
return members
"""


class Share(NamedTuple):
    """How many more partitions an aggregator may take, and how many it should give up."""

    take: int
    give: int


def share(me: str, owned: Mapping[str, int], partitions: int) -> Share:
    """Return an aggregator's share of the partitions, so that all own equally many, give or take one.

    An aggregator gives up a partition only if another aggregator has too few. If the division leaves a remainder, that
    many aggregators may own one partition more than the others; aggregators that already own one more come first.

    Args:
        me: the aggregator.
        owned: number of partitions every aggregator owns, itself among them.
        partitions: number of partitions.
    """
    each, left_over = divmod(partitions, len(owned))
    richer = sorted(name for name, count in owned.items() if count > each and name != me)
    mine = owned[me]
    before_me = sorted([*richer, me]).index(me) if mine > each else len(richer)
    limit = each + (before_me < left_over)
    return Share(max(limit - mine, 0), max(mine - limit, 0))


class Membership:
    """Tells other aggregators that this one runs, and reads their list. A member silent for `silent_s` is removed."""

    def __init__(self, redis: Redis, prefix: str, *, holder: str, silent_s: float) -> None:
        # All partitions have one list of aggregators, in the slot of the first.
        self._key = Streams(prefix, 0).aggregators
        self._redis = redis
        self._holder = holder
        self._silent_ms = int(silent_s * 1000)
        self._script = redis.register_script(BEAT_SCRIPT)

    async def beat(self, owned: int) -> dict[str, int]:
        """Say that this aggregator is here, and return all with the number of partitions each owns."""
        reply = await self._script(keys=[self._key], args=[self._holder, self._silent_ms, owned])
        return {name.decode(): int(count) for name, count in zip(reply[::2], reply[1::2], strict=True)}

    async def leave(self) -> None:
        """Say that this aggregator is gone."""
        await self._redis.hdel(self._key, self._holder)
