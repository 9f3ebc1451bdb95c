"""Reads the progress of a running deployment from Redis, past the proxy: entries left, owners, pending entries."""

from collections.abc import Iterator
from typing import Any

from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.settings.model import Settings

COUNT = "return #redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+')"


class Observer:
    """A view of a deployment in Redis; typed loosely, since redis-py leaves open whether replies are bytes."""

    def __init__(self, redis: Any, settings: Settings) -> None:
        self.redis = redis
        self.partitions = [Streams(settings.prefix, partition) for partition in range(settings.partitions)]

    def scored(self) -> int:
        """Return the number of metric events."""
        return sum(self.redis.xlen(streams.metrics) for streams in self.partitions)

    def waiting(self) -> int:
        """Return the number of entries that no worker has finished."""
        return sum(self._waiting(streams) for streams in self.partitions)

    def _waiting(self, streams: Streams) -> int:
        if not self.redis.exists(streams.interactions):
            return 0
        for group in self.redis.xinfo_groups(streams.interactions):
            if group["name"].decode() == LABEL_GROUP:
                untaken = self.redis.eval(COUNT, 1, streams.interactions, group["last-delivered-id"])
                return int(group["pending"]) + int(untaken)
        return int(self.redis.xlen(streams.interactions))

    def behind(self) -> list[str]:
        """Return the partitions whose checkpoint is not at the end of the metric events."""
        return [
            f"partition {streams.partition}"
            for streams in self.partitions
            for last in [self.redis.xrevrange(streams.metrics, count=1)]
            if last and self.redis.hget(streams.checkpoint, "position") != last[0][0]
        ]

    def owners(self) -> list[int]:
        """Return the process ids of the aggregators that own a partition."""
        tokens = [self.redis.get(streams.lease) for streams in self.partitions]
        # A token is a number and the owner: host, process, and random characters.
        return [int(token.decode().split(":")[1].rpartition("-")[2]) for token in tokens if token is not None]

    def pending(self) -> dict[int, int]:
        """Return the number of pending entries of each worker, by process id."""
        found: dict[int, int] = {}
        for consumer in self._consumers():
            pid = int(consumer["name"].decode().split("-")[-2])
            found[pid] = found.get(pid, 0) + consumer["pending"]
        return found

    def _consumers(self) -> Iterator[Any]:
        for streams in self.partitions:
            if self.redis.exists(streams.interactions):
                for group in self.redis.xinfo_groups(streams.interactions):
                    yield from self.redis.xinfo_consumers(streams.interactions, group["name"])
