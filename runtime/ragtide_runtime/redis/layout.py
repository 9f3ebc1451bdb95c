"""The layout of a deployment: it assigns each interaction of a pipeline to a partition.

Redis stores it, and processes with another layout are refused. Settings need it, so this module imports no client.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, cast

from ..errors import ConfigurationError
from .keys import Streams

if TYPE_CHECKING:
    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis


PIPELINES_REMEMBERED: Final = 1024
"""Most pipelines whose partition is cached."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitions of a deployment, and the pipelines that are split over several of them.

    Attributes:
        prefix: first part of every key.
        partitions: number of partitions.
        splits: for each pipeline that is too large for one partition, the number of partitions it is split over.
    """

    prefix: str
    partitions: int = 1
    splits: Mapping[str, int] = field(default_factory=dict)

    def of(self, pipeline: str, interaction_id: str) -> Streams:
        """Return the keys of the partition of an interaction, and of everything about it."""
        return Streams(self.prefix, self.partition_of(pipeline, interaction_id))

    def partition_of(self, pipeline: str, interaction_id: str) -> int:
        """Return the partition of an interaction."""
        partition = partition_of(pipeline, self.partitions)
        parts = self.splits.get(pipeline, 1)
        if parts > 1:
            part = int.from_bytes(blake2b(interaction_id.encode(), digest_size=8).digest(), "big") % parts
            partition = (partition + part) % self.partitions
        return partition

    def all_of(self, pipeline: str) -> list[Streams]:
        """Return the keys of every partition that a pipeline may be in."""
        first = partition_of(pipeline, self.partitions)
        parts = min(self.splits.get(pipeline, 1), self.partitions)
        return [Streams(self.prefix, (first + part) % self.partitions) for part in range(parts)]

    def all(self) -> list[Streams]:
        """Return the keys of every partition."""
        return [Streams(self.prefix, partition) for partition in range(self.partitions)]


@lru_cache(PIPELINES_REMEMBERED)
def partition_of(pipeline: str, partitions: int) -> int:
    """Return the partition of a pipeline: the same in every process, release and language.

    The first 8 bytes of BLAKE2b of the UTF-8 name, big-endian, modulo the number of partitions.

    >>> partition_of("shop", 1)
    0
    """
    return int.from_bytes(blake2b(pipeline.encode(), digest_size=8).digest(), "big") % partitions


def layout_key(prefix: str) -> str:
    """Return the key that holds the layout of a deployment."""
    return Streams(prefix, 0).layout


def encode_layout(layout: Layout) -> bytes:
    """Return a layout as stored."""
    return json.dumps({"partitions": layout.partitions, "splits": dict(sorted(layout.splits.items()))}).encode()


def decode_layout(prefix: str, data: bytes) -> Layout:
    """Return a stored layout."""
    fields = json.loads(data)
    return Layout(prefix, fields["partitions"], fields["splits"])


async def agree_on_layout(redis: "AsyncRedis", layout: Layout) -> None:
    """Check that the deployment has this layout; the first process stores its own layout.

    Raises:
        ConfigurationError: the deployment has another layout, or a repartition is running.
    """
    await redis.set(layout_key(layout.prefix), encode_layout(layout), nx=True)
    await check_layout(redis, layout)


async def check_layout(redis: "AsyncRedis", layout: Layout) -> None:
    """Check that the deployment has this layout or no stored layout.

    Raises:
        ConfigurationError: the deployment has another layout, or a repartition is running.
    """
    stored = cast("bytes | None", await redis.get(layout_key(layout.prefix)))
    _compare(layout, stored, changing=bool(await redis.exists(Streams(layout.prefix, 0).repartition)))


def check_layout_blocking(redis: "Redis", layout: Layout) -> None:
    """Do as `check_layout`, with a blocking client."""
    stored = cast("bytes | None", redis.get(layout_key(layout.prefix)))
    _compare(layout, stored, changing=bool(redis.exists(Streams(layout.prefix, 0).repartition)))


def _compare(layout: Layout, stored: bytes | None, *, changing: bool) -> None:
    if changing:
        raise ConfigurationError(
            "this deployment is being repartitioned: wait for the end of `ragtide capacity repartition`, or run it "
            "again if it was interrupted"
        )
    if stored is None or stored == encode_layout(layout):
        return
    deployed = decode_layout(layout.prefix, stored)
    with_splits = bool(deployed.splits or layout.splits)
    settings = "RAGTIDE_PARTITIONS and RAGTIDE_SPLITS" if with_splits else "RAGTIDE_PARTITIONS"
    raise ConfigurationError(
        f"this deployment has {_describe_layout(deployed, with_splits=with_splits)}, but the settings have "
        f"{_describe_layout(layout, with_splits=with_splits)}: set {settings} to the values of the deployment, or "
        "change the deployment with `ragtide capacity repartition`"
    )


def _describe_layout(layout: Layout, *, with_splits: bool) -> str:
    partitions = f"{layout.partitions} partition{'' if layout.partitions == 1 else 's'}"
    if not with_splits:
        return partitions
    splits = f"the splits {json.dumps(dict(layout.splits))}" if layout.splits else "no split pipeline"
    return f"{partitions} and {splits}"
