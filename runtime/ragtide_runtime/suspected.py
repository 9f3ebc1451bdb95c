"""Suspected pipelines: those whose alert rules have evidence of a change that is not enough for an alert yet.

The aggregator of a partition writes since when each is suspected, and label workers read it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import cast

from redis.asyncio import Redis

from ragtide_schemas import from_milliseconds, to_milliseconds

from .redis.keys import Streams


async def read_suspected(redis: Redis, partitions: Iterable[Streams]) -> dict[str, datetime]:
    """Return since when each suspected pipeline is suspected; of a split pipeline the latest time.

    Raises:
        redis.RedisError: Redis failed.
    """
    suspected: dict[str, datetime] = {}
    for streams in partitions:
        stored = cast("dict[bytes, bytes]", await redis.hgetall(streams.suspected))
        for pipeline, since in stored.items():
            name, time = pipeline.decode(), from_milliseconds(int(since))
            suspected[name] = max(time, suspected.get(name, time))
    return suspected


async def write_suspected(redis: Redis, streams: Streams, begun: Mapping[str, datetime], ended: Iterable[str]) -> None:
    """Add pipelines of a partition that are suspected from now on, and remove those that no longer are.

    Raises:
        redis.RedisError: Redis failed.
    """
    if begun:
        await redis.hset(streams.suspected, mapping={name: to_milliseconds(at) for name, at in begun.items()})
    if names := list(ended):
        await redis.hdel(streams.suspected, *names)
