"""The live tail of alerts: each subscriber gets every alert, and its position lives in its process."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START, Entry
from ragtide_runtime.redis.log import read_after, read_last

from .stream_positions import StreamPositions

AT_ONCE: Final = 100
"""Most alerts of a partition read at once."""

POLL_MS: Final = 1000
"""Milliseconds that one read waits for alerts."""


class AlertSource(Protocol):
    """Reads entries of the alerts streams, one after the other."""

    async def open(self) -> None:
        """Set the positions at which reading begins."""

    async def read(self) -> tuple[str, Entry] | None:
        """Return the next entry and its stream; None after a while without an entry, or if more must be read first."""

    def finish(self) -> None:
        """Count the entry that was read last as finished."""

    def restart(self) -> None:
        """Begin a new loop of the user: an entry that is not finished comes again."""

    async def recover(self) -> None:
        """Find the positions again after Redis failed."""

    async def close(self, *, finished: bool) -> None:
        """End reading; `finished` tells whether the user finished the entry that was read last."""


class AlertTail:
    """Reads every entry after a position.

    Args:
        redis: client.
        streams: keys of the alerts streams.
        from_start: begin with the first entry instead of the next entry.
    """

    def __init__(self, redis: Redis, streams: Sequence[str], *, from_start: bool) -> None:
        self._redis = redis
        self._streams = streams
        self._from_start = from_start
        self._positions = StreamPositions()
        self._waiting: deque[tuple[str, Entry]] = deque()

    async def open(self) -> None:
        """Set the positions now and not at the first read, so that no entry in between is missed."""
        for stream in self._streams:
            last = None if self._from_start else await read_last(self._redis, stream)
            self._positions.advance(stream, last.entry_id if last else START)

    async def read(self) -> tuple[str, Entry] | None:
        """Return the next entry; None if there was none, or if more must be read first."""
        if not self._waiting:
            found = await read_after(self._redis, self._positions.all(), count=AT_ONCE, block_ms=POLL_MS)
            self._waiting.extend((stream, entry) for stream, entries in found for entry in entries)
            return None
        stream, entry = self._waiting.popleft()
        self._positions.advance(stream, entry.entry_id)
        return stream, entry

    def finish(self) -> None:
        """Do nothing: an entry that was read counts as finished."""

    def restart(self) -> None:
        """Do nothing: the next entry comes."""

    async def recover(self) -> None:
        """Go back where Redis lost the end of a stream."""
        await self._positions.go_back(self._redis)

    async def close(self, *, finished: bool) -> None:
        """Do nothing."""
