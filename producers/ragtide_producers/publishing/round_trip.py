"""Publishes commands of any partitions in one round trip."""

from collections.abc import Sequence
from itertools import chain

from redis.asyncio import Redis

from ragtide_runtime.redis.scripts import run_scripts

from .batch_publisher import first_batch
from .routes import Publication, PublishCommand, Route


async def publish_commands(redis: Redis, route: Route, commands: Sequence[PublishCommand]) -> list[Publication | None]:
    """Publish items and return the outcome of each, in order; None for an item that found no room.

    Raises:
        redis.RedisError: some or all items may not have been published; it is safe to publish all again.
    """
    # A stable sort: items of one partition come together and keep their order.
    order = sorted(range(len(commands)), key=lambda place: commands[place].partition)
    waiting = [commands[place] for place in order]
    calls = []
    while waiting:
        batch = first_batch(waiting)
        calls.append(route.call(batch))
        del waiting[: len(batch)]
    found = chain.from_iterable(await run_scripts(redis, calls) if calls else ())
    by_place = dict(zip(order, found, strict=True))
    return [by_place[place] for place in range(len(commands))]
