"""Whether anything has been aggregated: before that, no reader of numbers is needed, nor imported."""

from collections.abc import Sequence

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams


async def has_commits(redis: Redis, partitions: Sequence[Streams]) -> bool:
    """Return whether a partition has a checkpoint; without one there are no estimates, headlines and levels."""
    async with redis.pipeline(transaction=False) as pipe:
        for streams in partitions:
            pipe.exists(streams.checkpoint)
        return any(await pipe.execute())
