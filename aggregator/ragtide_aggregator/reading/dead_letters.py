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
    """A dead letter with its partition and its id in the stream."""

    letter_id: str
    partition: int
    letter: DeadLetter

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
        else _with_ids(redis, streams.dead_letters, ids)
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
            yield StoredDeadLetter(entry.entry_id, streams.partition, letter)
        await advance(place)


async def _with_ids(redis: Redis, stream: str, ids: Collection[str]) -> AsyncIterator[Entry]:
    for entry_id in sorted((item_id for item_id in set(ids) if ENTRY_ID.fullmatch(item_id)), key=order):
        for entry in await read_range(redis, stream, first=entry_id, last=entry_id, count=1):
            yield entry
