"""The memory of known interaction ids in Redis: now, and in the steady state of the present rate."""

from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import KNOWN_BUCKETS, KNOWN_SHARDS, Streams
from ragtide_runtime.redis.scripts import Run, run_together
from ragtide_runtime.settings.model import Settings

STORED_BYTES: Final = 26
"""Bytes of Redis's memory that a known id takes, about, as `benchmarks/known_ids.py` measures."""

SPAN: Final = 1.125
"""Average lifetime of an id in windows; it exceeds one, because a bucket expires as a whole."""

SIZE_SCRIPT: Final = """
-- KEYS: metrics, then all buckets of a shard. ARGV: how many metric events to look at.
-- Returns bytes of the buckets, metric events a minute among the last ones.
local bytes = 0
for i = 2, #KEYS do
    bytes = bytes + (redis.call('MEMORY', 'USAGE', KEYS[i]) or 0)
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])
if #last < 2 then
    return {bytes, 0}
end
local time = redis.call('TIME')
local since = time[1] - tonumber(string.match(last[#last][1], '^(%d+)')) / 1000
return {bytes, math.floor(60 * #last / math.max(since, 1))}
"""

LOOKED_AT: Final = 1000
"""Metric events from which the present rate is taken."""


def projected_bytes(rate_per_s: float, settings: Settings) -> float:
    """Return the bytes of Redis's memory that known ids take when interactions have come at a rate for long enough."""
    windows_s = settings.dedupe_window_s + settings.feedback_window_s
    return rate_per_s * windows_s * SPAN * STORED_BYTES


async def known_ids_size(redis: Redis, partitions: Sequence[Streams]) -> tuple[int, float]:
    """Return the bytes that known ids take now, by one of the shards, and interactions a second at present.

    Raises:
        redis.RedisError: Redis failed, or lets this user not ask for memory.
    """
    script = redis.register_script(SIZE_SCRIPT)
    runs = [Run(script, [streams.metrics, *_shard(streams)], [LOOKED_AT]) for streams in partitions]
    replies: list[Any] = await run_together(redis, runs)
    return sum(bytes_ for bytes_, _ in replies) * KNOWN_SHARDS, sum(rate for _, rate in replies) / 60


def _shard(streams: Streams) -> list[str]:
    return [family(f"0:{bucket}") for family in (streams.owners, streams.events) for bucket in range(KNOWN_BUCKETS)]
