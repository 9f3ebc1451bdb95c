"""The layout of a deployment: it assigns each interaction of a pipeline to a partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from .keys import Streams


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
        partition = partition_of(pipeline, self.partitions)
        parts = self.splits.get(pipeline, 1)
        if parts > 1:
            part = int.from_bytes(blake2b(interaction_id.encode(), digest_size=8).digest(), "big") % parts
            partition = (partition + part) % self.partitions
        return Streams(self.prefix, partition)

    def all_of(self, pipeline: str) -> list[Streams]:
        """Return the keys of every partition that a pipeline may be in."""
        first = partition_of(pipeline, self.partitions)
        parts = min(self.splits.get(pipeline, 1), self.partitions)
        return [Streams(self.prefix, (first + part) % self.partitions) for part in range(parts)]

    def all(self) -> list[Streams]:
        """Return the keys of every partition."""
        return [Streams(self.prefix, partition) for partition in range(self.partitions)]


def partition_of(pipeline: str, partitions: int) -> int:
    """Return the partition of a pipeline: the same in every process, release and language.

    The first 8 bytes of BLAKE2b of the UTF-8 name, big-endian, modulo the number of partitions.

    >>> partition_of("shop", 1)
    0
    """
    return int.from_bytes(blake2b(pipeline.encode(), digest_size=8).digest(), "big") % partitions
