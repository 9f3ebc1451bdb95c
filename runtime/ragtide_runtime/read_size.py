"""How many entries one read takes: fewer where entries are large, because a read is held in memory as a whole.

Redis tells the size of a stream without reading it. `MEMORY USAGE` looks at the first `SAMPLES` nodes of the stream and
at its last node, so it is exact for a stream of up to about that many entries, and beyond that an estimate from the
oldest entries, which a reader that is behind reads next. The entries of the last read count too: they say how large the
next ones are where a stream keeps many old entries that were read long ago.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from redis import ResponseError
from redis.asyncio import Redis

READ_BYTES: Final = 32 * 1024 * 1024
"""About how many bytes one read takes at most. An entry that is larger is read alone."""

SAMPLES: Final = 1000
"""Nodes of a stream that are looked at; a node holds one entry or a few small ones."""


class ReadSize:
    """The number of entries the next read takes.

    Args:
        redis: client.
        streams: that are read, of one partition.
    """

    def __init__(self, redis: Redis, *streams: str) -> None:
        self._redis = redis
        self._streams = streams
        self._last_mean = 0.0
        self._asks = True

    async def next(self, most: int) -> int:
        """Return how many entries of each stream the next read takes, at most `most`.

        Raises:
            redis.RedisError: Redis failed.
        """
        mean = max([self._last_mean, *(await self._means() if self._asks else ())])
        return most if mean * most <= READ_BYTES else max(int(READ_BYTES / mean), 1)

    def took(self, entries: Iterable[Mapping[bytes, bytes]]) -> None:
        """Take note of the fields of the entries that a read took, if it took any."""
        sizes = [sum(map(len, fields.values())) for fields in entries]
        if sizes:
            self._last_mean = sum(sizes) / len(sizes)

    async def _means(self) -> list[float]:
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for stream in self._streams:
                    pipe.xlen(stream)
                    pipe.memory_usage(stream, samples=SAMPLES)
                found: list[Any] = await pipe.execute()
        except ResponseError:  # an ACL that does not allow it, or a service without it
            self._asks = False
            return []
        return [(usage or 0) / length if length else 0.0 for length, usage in zip(found[::2], found[1::2], strict=True)]
