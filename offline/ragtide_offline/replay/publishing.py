"""Publishing what is replayed: together with the position in one script, so that each is published exactly once.

The dedupe window of ordinary publishing is not enough: a replay may be stopped and go on after longer than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_producers.errors import ReplayError
from ragtide_runtime.redis.keys import ReplayField, Streams, known_digest
from ragtide_runtime.redis.known_ids import KNOWN_IDS

from .interactions import Item

FEED_SCRIPT: Final = (
    KNOWN_IDS
    + """
-- KEYS: how far the replay is, interactions, feedback, then for each interaction the keys of its id's owner (7).
-- ARGV: position before, position after, dedupe window in ms, number of interactions, for each its digest and itself,
-- then feedback about them.
-- Returns 1 if they were published, 0 if they had been; nothing if the replay is elsewhere.
local at = redis.call('HGET', KEYS[1], 'position') or ''
if at == ARGV[2] then
    return 0
end
if at ~= ARGV[1] then
    return false
end
local count, added = tonumber(ARGV[4]), 0
for i = 1, count do
    local first, digest = 7 * i - 3, ARGV[3 + 2 * i]
    if not known_id(first, digest) then
        local entry = redis.call('XADD', KEYS[2], '*', 'data', ARGV[4 + 2 * i])
        remember_id(first, digest, entry, tonumber(ARGV[3]))
        added = added + 1
    end
end
for i = 5 + 2 * count, #ARGV do
    redis.call('XADD', KEYS[3], '*', 'data', ARGV[i])
end
redis.call('HINCRBY', KEYS[1], 'published', added)
redis.call('HINCRBY', KEYS[1], 'duplicates', count - added)
redis.call('HSET', KEYS[1], 'position', ARGV[2])
return 1
"""
)


class Fed(NamedTuple):
    """How far publishing is."""

    position: str | None
    published: int
    duplicates: int
    """Interactions of an id that had been published within the dedupe window: recorded twice, after longer than it."""


async def read_fed(redis: Redis, streams: Streams) -> Fed:
    """Return how far publishing into a run is."""
    fields = [ReplayField.POSITION, ReplayField.PUBLISHED, ReplayField.DUPLICATES]
    position, published, duplicates = cast("list[bytes | None]", await redis.hmget(streams.replay, fields))
    return Fed(None if position is None else position.decode(), int(published or 0), int(duplicates or 0))


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a replay says of the interactions that it publishes."""

    run: str
    size_of: Callable[[str], int]
    """Number of interactions of a pipeline."""


class Feeder:
    """Publishes items in their order.

    Args:
        redis: client.
        streams: the run's keys.
        stamp: what is said of them.
        dedupe_window_s: seconds for which a worker knows an id.
        position: the last item that was published.
    """

    def __init__(
        self, redis: Redis, streams: Streams, stamp: Stamp, *, dedupe_window_s: float, position: str | None
    ) -> None:
        self._streams = streams
        self._stamp = stamp
        self._window_ms = int(dedupe_window_s * 1000)
        self._position = position or ""
        self._script = redis.register_script(FEED_SCRIPT)

    async def publish(self, items: Sequence[Item]) -> None:
        """Publish items, at least one.

        Raises:
            ReplayError: another process publishes into this run.
            redis.RedisError: they may or may not have been published; publish them again.
        """
        interactions = [
            item.interaction.model_copy(
                update={"run": self._stamp.run, "population_size": self._stamp.size_of(item.interaction.pipeline)}
            )
            for item in items
        ]
        streams, after = self._streams, items[-1].position
        reply = await self._script(
            keys=[
                streams.replay,
                streams.interactions,
                streams.feedback,
                *(key for one in interactions for key in streams.owner_keys(one.pipeline, one.interaction_id)),
            ],
            args=[
                self._position,
                after,
                self._window_ms,
                len(interactions),
                *(
                    argument
                    for one in interactions
                    for argument in (known_digest(one.pipeline, one.interaction_id), one.encode())
                ),
                *(one.encode() for item in items for one in item.feedback),
            ],
        )
        if reply is None:
            raise ReplayError("another process replays this run: wait for its end, or give --run another name")
        self._position = after
