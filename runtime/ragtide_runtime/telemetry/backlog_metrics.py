"""Prometheus metrics of the backlog of every partition; each scrape reads the backlog from Redis."""

import asyncio
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from redis import RedisError
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException

from ..redis.backlog import Backlog, read_backlogs
from ..redis.keys import Streams
from . import catalogue
from .families import family
from .outages import redis_outage

READ_TIMEOUT_S: Final = 3.0
"""Seconds that Redis has to answer: a scrape has ten, and must get the process's own metrics even without Redis."""

_NUMBERS: Final = (
    (catalogue.WAITING, "waiting"),
    (catalogue.PENDING, "pending"),
    (catalogue.AWAITING, "awaiting"),
    (catalogue.OLDEST, "oldest_s"),
    (catalogue.EVENTS_WAITING, "events_waiting"),
    (catalogue.EVENTS_OLDEST, "events_oldest_s"),
    (catalogue.UNRECORDED, "unrecorded_s"),
    (catalogue.WORKERS, "workers"),
    (catalogue.OWNED, "owned"),
)
"""Metrics with one number for each partition, and the field of `Backlog` that holds it."""

_COUNTS: Final = ((catalogue.STREAM_ENTRIES, "lengths"), (catalogue.DROPPED, "dropped"))
"""Metrics with several named numbers for each partition, and the field of `Backlog` that holds them."""


class BacklogCollector(Collector):
    """Reports the backlog that `refresh` last read. While Redis is down, it reports only `ragtide_redis_up`, as 0."""

    def __init__(self, redis: Redis, prefix: str, partitions: int) -> None:
        self._redis = redis
        self._partitions = [Streams(prefix, partition) for partition in range(partitions)]
        self._found: list[tuple[str, Backlog]] | None = None
        self._outage = redis_outage(redis).attempt("reading streams for /metrics")

    async def refresh(self) -> None:
        """Read the backlog of every partition; without an answer of Redis there is no backlog to report."""
        self._found = None
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                found = await read_backlogs(self._redis, self._partitions)
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            self._outage.failed(error)
        else:
            self._outage.succeeded()
            self._found = [(str(streams.partition), one) for streams, one in zip(self._partitions, found, strict=True)]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the last `refresh`."""
        found = self._found
        yield family(catalogue.REDIS_UP, [((), float(found is not None))])
        if found is None:
            return
        for metric, attribute in _NUMBERS:
            yield family(metric, [((partition,), float(getattr(one, attribute) or 0)) for partition, one in found])
        for metric, attribute in _COUNTS:
            yield family(
                metric,
                [
                    ((partition, name), float(count))
                    for partition, one in found
                    for name, count in sorted(getattr(one, attribute).items())
                ],
            )
