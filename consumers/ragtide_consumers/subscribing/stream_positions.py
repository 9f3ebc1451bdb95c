"""Positions in streams that survive a Redis that lost the end of a stream."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.log import last_id, read_range

REMEMBERED: Final = 100
"""Ids of entries that are remembered for each stream, to find where the stream has lost its end."""


class StreamPositions:
    """The id of the last entry that was read in each of several streams."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._seen: dict[str, deque[str]] = {}

    def __getitem__(self, stream: str) -> str:
        """Return the position in a stream."""
        return self._last[stream]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the streams."""
        return iter(self._last)

    def all(self) -> dict[str, str]:
        """Return the position in each stream."""
        return dict(self._last)

    def advance(self, stream: str, entry_id: str) -> None:
        """Set the position in a stream to an entry that was read."""
        self._last[stream] = entry_id
        self._seen.setdefault(stream, deque(maxlen=REMEMBERED)).append(entry_id)

    async def go_back(self, redis: Redis) -> None:
        """Set the position in each stream whose end Redis lost back to the last remembered entry that is still there.

        The entries after it are gone, so no entry is read twice. Entries written after the loss may have smaller ids.
        """
        for stream, seen in self._seen.items():
            for entry_id in reversed(seen):
                if entry_id == START or await read_range(redis, stream, first=entry_id, last=entry_id, count=1):
                    self._last[stream] = entry_id
                    break
            else:
                # The stream holds no remembered entry: it was trimmed, or Redis lost all of them.
                if order(await last_id(redis, stream)) < order(self._last[stream]):
                    self._last[stream] = START
