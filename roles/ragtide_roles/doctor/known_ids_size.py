"""Measures the memory of known interaction ids in Redis, and projects it to the steady state of the present rate."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import KNOWN_BUCKETS, KNOWN_SHARDS, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_runtime.settings.model import Settings

STORED_BYTES: Final = 26
"""About how many bytes of Redis's memory a known id takes, as `benchmarks/known_ids.py` measures."""

SPAN: Final = 1.125
"""Average lifetime of an id in windows; it exceeds one, because a bucket expires as a whole."""

SIZE: Final = Lua("known_ids_size")

LOOKED_AT: Final = 1000
"""Metric events from which the present rate is computed."""


def projected_bytes(rate_per_s: float, settings: Settings) -> float:
    """Return the bytes of Redis's memory that known ids take in the steady state of a rate of interactions."""
    windows_s = settings.dedupe_window_s + settings.feedback_window_s
    return rate_per_s * windows_s * SPAN * STORED_BYTES


async def known_ids_size(redis: Redis, partitions: Sequence[Streams]) -> tuple[int, float]:
    """Return the bytes that known ids take now, estimated from one shard, and the present interactions a second.

    Raises:
        redis.RedisError: Redis failed, or its ACL forbids `MEMORY` to this user.
    """
    sizes = await run_scripts(redis, [shard_size(streams) for streams in partitions])
    return sum(one.bytes for one in sizes) * KNOWN_SHARDS, sum(one.events_per_min for one in sizes) / 60


class ShardSize(NamedTuple):
    """The size of one shard of the known ids of a partition, and the rate of the partition's metric events."""

    bytes: int
    events_per_min: int


def shard_size(streams: Streams) -> ScriptCall[ShardSize]:
    """Return the call that measures the first shard of a partition."""
    return ScriptCall(SIZE, (streams.metrics, *_shard(streams)), (LOOKED_AT,), ShardSize._make)


def _shard(streams: Streams) -> list[str]:
    return [family(f"0:{bucket}") for family in (streams.owners, streams.events) for bucket in range(KNOWN_BUCKETS)]
