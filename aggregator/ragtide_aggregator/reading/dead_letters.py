"""Reads the dead letters of a deployment page by page, because together they may be gigabytes."""

import re
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import Entry, Unreadable, order
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import READ_BYTES, read_all, read_range
from ragtide_schemas import DeadLetter

ENTRY_ID: Final = re.compile(r"\d{1,19}-\d{1,19}")
"""The form of an entry id that Redis accepts."""


@dataclass(frozen=True, slots=True)
class StoredDeadLetter:
    """A dead letter with its place, and what its whole entry says."""

    letter_id: str
    """Id in the stream of dead letters."""
    partition: int
    letter: DeadLetter
    source: str
    """Kind of the entry: `interactions`, `feedback`, `metrics` or `alerts`; `unknown` of another stream."""
    pipeline: str | None
    """Pipeline that the payload names; None if it names none or cannot be read."""
    size: int
    """Bytes of the entry's payload."""

    @classmethod
    def of(cls, streams: Streams, letter_id: str, letter: DeadLetter) -> "StoredDeadLetter":
        """Return a dead letter of a partition."""
        kinds = {getattr(streams, name): name for name in ("interactions", "feedback", "metrics", "alerts")}
        size = len(letter.payload) if letter.size_bytes is None else letter.size_bytes
        source = kinds.get(letter.stream, "unknown")
        return cls(letter_id, streams.partition, letter, source, letter.pipeline, size)

    @property
    def can_be_retried(self) -> bool:
        """Whether the entry can be published again: an interaction or feedback that is stored whole."""
        return self.source in ("interactions", "feedback") and not self.letter.truncated

    @property
    def place(self) -> tuple[tuple[int, int], int]:
        """Sort key: time and number of the id, then the partition."""
        return order(self.letter_id), self.partition

    def without_payload(self) -> "StoredDeadLetter":
        """Return the dead letter with an empty payload, so that many fit into memory."""
        return replace(self, letter=self.letter.model_copy(update={"payload": ""}))


async def read_dead_letters(
    redis: Redis, partitions: Sequence[Streams], unreadable: Unreadable, *, ids: Collection[str] | None = None
) -> AsyncIterator[StoredDeadLetter]:
    """Yield dead letters, the oldest first; only one page of them is in memory.

    Args:
        redis: client.
        partitions: keys of the partitions.
        unreadable: counts the entries that hold no dead letter.
        ids: of the wanted dead letters; all of them unless given.
    """
    page_bytes = READ_BYTES // len(partitions)
    sources = [
        read_all(redis, streams.dead_letters, page_bytes=page_bytes)
        if ids is None
        else _read_ids(redis, streams.dead_letters, ids)
        for streams in partitions
    ]
    heads: list[tuple[tuple[int, int], int, Entry]] = []

    async def advance(place: int) -> None:
        entry = await anext(sources[place], None)
        if entry is not None:
            heappush(heads, (order(entry.entry_id), place, entry))

    for place in range(len(sources)):
        await advance(place)
    while heads:
        _, place, entry = heappop(heads)
        streams = partitions[place]
        letter = unreadable.decode(DeadLetter, streams.dead_letters, entry)
        if letter is not None:
            yield StoredDeadLetter.of(streams, entry.entry_id, letter)
        await advance(place)


async def _read_ids(redis: Redis, stream: str, ids: Collection[str]) -> AsyncIterator[Entry]:
    for entry_id in sorted((item_id for item_id in set(ids) if ENTRY_ID.fullmatch(item_id)), key=order):
        for entry in await read_range(redis, stream, first=entry_id, last=entry_id, count=1):
            yield entry
