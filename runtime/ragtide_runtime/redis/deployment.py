"""Stores the layout of a deployment (number of partitions, splits), and refuses processes with another layout."""

import json
from typing import cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from ..errors import ConfigurationError
from .keys import Streams
from .layout import Layout


def layout_key(prefix: str) -> str:
    """Return the key that holds the layout of a deployment."""
    return Streams(prefix, 0).layout


def encode_layout(layout: Layout) -> bytes:
    """Return a layout as stored."""
    return json.dumps({"partitions": layout.partitions, "splits": dict(sorted(layout.splits.items()))}).encode()


def decode_layout(prefix: str, data: bytes) -> Layout:
    """Return a stored layout."""
    found = json.loads(data)
    return Layout(prefix, found["partitions"], found["splits"])


async def agree_on_layout(redis: AsyncRedis, layout: Layout) -> None:
    """Check that the deployment has this layout; the first process stores its own layout.

    Raises:
        ConfigurationError: the deployment has another layout, or a repartition is running.
    """
    await redis.set(layout_key(layout.prefix), encode_layout(layout), nx=True)
    await check_layout(redis, layout)


async def check_layout(redis: AsyncRedis, layout: Layout) -> None:
    """Check that the deployment has this layout or no stored layout.

    Raises:
        ConfigurationError: the deployment has another layout, or a repartition is running.
    """
    stored = cast("bytes | None", await redis.get(layout_key(layout.prefix)))
    _compare(layout, stored, changing=bool(await redis.exists(Streams(layout.prefix, 0).repartition)))


def check_layout_blocking(redis: Redis, layout: Layout) -> None:
    """Do as `check_layout`, with a blocking client."""
    stored = cast("bytes | None", redis.get(layout_key(layout.prefix)))
    _compare(layout, stored, changing=bool(redis.exists(Streams(layout.prefix, 0).repartition)))


def _compare(layout: Layout, stored: bytes | None, *, changing: bool) -> None:
    if changing:
        raise ConfigurationError(
            "this deployment is being repartitioned: wait for the end of `ragtide repartition`, or run it again if it "
            "was interrupted"
        )
    if stored is None or stored == encode_layout(layout):
        return
    found = decode_layout(layout.prefix, stored)
    raise ConfigurationError(
        f"this deployment has {found.partitions} partitions and splits {json.dumps(found.splits)}, but the settings "
        f"have {layout.partitions} and {json.dumps(dict(layout.splits))}: set RAGTIDE_PARTITIONS and RAGTIDE_SPLITS to "
        "the values of the deployment, or change the deployment with `ragtide repartition`"
    )
