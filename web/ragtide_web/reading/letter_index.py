"""What the page remembers of each dead letter: everything except its payload, so that thousands fit into memory."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_runtime.redis.entries import START, Entry, Unreadable, order
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.log import read_all
from ragtide_schemas import DeadLetter

LETTERS_INDEXED: Final = 10_000
"""Most dead letters that are listed and counted by reason; the newest."""
BYTES_INDEXED: Final = 268_435_456
"""Bytes of dead letters after which no older ones are read."""
AT_ONCE: Final = 64
"""Most dead letters in one read; each may have 4 MiB."""
PAGE_BYTES: Final = 33_554_432
PAUSE: Final = 4.0
"""Pause after a reading of everything, in durations of it. Letters that another process retried stay listed then."""


class StreamEnd(NamedTuple):
    """A cheap sign of whether a stream of dead letters has changed."""

    length: int
    last: str


class PartitionLetters:
    """The newest dead letters of one partition.

    Args:
        redis: client.
        streams: keys of the partition.
        most: dead letters that are remembered.
        most_bytes: bytes that one reading takes.
    """

    def __init__(self, redis: Redis, streams: Streams, most: int, most_bytes: int) -> None:
        self._redis = redis
        self._streams = streams
        self._most = most
        self._most_bytes = most_bytes
        self._end = StreamEnd(0, START)
        self._read_at: float | None = None
        self._took_s = 0.0
        self.letters: dict[str, StoredDeadLetter] = {}
        self.unreadable = 0
        """Entries that hold no dead letter."""
        self._read_entries = 0

    @property
    def total(self) -> int:
        """Entries of the stream at the last look."""
        return self._end.length

    async def refresh(self, end: StreamEnd) -> None:
        """Read what has changed since the last look."""
        if end == self._end:
            return
        added = 0
        if self._read_at is not None and order(end.last) > order(self._end.last):
            added = await self._read_new(end.last)
        if self._read_at is not None and self._end.length + added == end.length:
            self._end = end
        elif self._read_at is None or monotonic() - self._read_at >= PAUSE * self._took_s:
            began = monotonic()
            await self._read_everything()
            self._read_at = monotonic()
            self._took_s = self._read_at - began
            self._end = end
        else:  # some were deleted: the length stays as it was, so that the next look reads again
            self._end = StreamEnd(self._end.length + added, end.last)

    def forget(self, letter_ids: Iterable[str]) -> None:
        """Leave out dead letters that were published again."""
        gone = [letter_id for letter_id in letter_ids if self.letters.pop(letter_id, None) is not None]
        self._end = self._end._replace(length=self._end.length - len(gone))

    async def _read_new(self, last: str) -> int:
        count, page = 0, list[Entry]()
        async for entry in read_all(
            self._redis, self._streams.dead_letters, after=self._end.last, page_bytes=PAGE_BYTES
        ):
            if order(entry.entry_id) > order(last):
                break
            count += 1
            page.append(entry)
            if len(page) == AT_ONCE:
                await self._take(page)
                page = []
        await self._take(page)
        return count

    async def _read_everything(self) -> None:
        self.letters, self.unreadable, self._read_entries = {}, 0, 0
        last, count, left = "+", 8, self._most_bytes
        while self._read_entries < self._most and left > 0:
            reply: Any = await self._redis.xrevrange(self._streams.dead_letters, max=last, count=count)
            page = [Entry(entry_id.decode(), fields) for entry_id, fields in reply]
            if not page:
                return
            size = sum(len(value) for entry in page for value in entry.fields.values())
            await self._take(page)
            left -= size
            count = max(1, min(AT_ONCE, self._most, PAGE_BYTES * len(page) // max(size, 1)))
            last = f"({page[-1].entry_id}"

    async def _take(self, page: Sequence[Entry]) -> None:
        self._read_entries += len(page)
        unreadable = Unreadable("dead letter")
        letters = await asyncio.to_thread(self._decode, page, unreadable)
        self.unreadable += unreadable.count
        self.letters |= {letter.letter_id: letter for letter in letters}
        if len(self.letters) > self._most:
            newest = sorted(self.letters.values(), key=lambda letter: letter.place)[-self._most :]
            self.letters = {letter.letter_id: letter for letter in newest}

    def _decode(self, page: Sequence[Entry], unreadable: Unreadable) -> list[StoredDeadLetter]:
        streams = self._streams
        letters = ((entry, unreadable.decode(DeadLetter, streams.dead_letters, entry)) for entry in page)
        return [
            StoredDeadLetter.of(streams, entry.entry_id, letter).without_payload()
            for entry, letter in letters
            if letter is not None
        ]


@dataclass(frozen=True, slots=True)
class IndexedLetters:
    """The newest dead letters of a deployment."""

    letters: Sequence[StoredDeadLetter]
    """The newest first."""
    total: int
    """Entries of the streams of dead letters."""
    unreadable: int
    """Entries among those read that hold no dead letter."""


class LetterIndex:
    """The newest dead letters of all partitions. A look reads only what has changed.

    Args:
        redis: client.
        partitions: keys of the partitions.
    """

    def __init__(self, redis: Redis, partitions: Sequence[Streams]) -> None:
        self._redis = redis
        most = max(100, LETTERS_INDEXED // len(partitions))
        most_bytes = max(8_388_608, BYTES_INDEXED // len(partitions))
        self._streams = partitions
        self._partitions = [PartitionLetters(redis, streams, most, most_bytes) for streams in partitions]
        self._lock = asyncio.Lock()

    async def read(self) -> IndexedLetters:
        """Return the newest dead letters.

        Raises:
            redis.RedisError: Redis failed.
        """
        async with self._lock:
            for partition, end in zip(self._partitions, await self._ends(), strict=True):
                await partition.refresh(end)
            letters = [letter for partition in self._partitions for letter in partition.letters.values()]
            return IndexedLetters(
                sorted(letters, key=lambda letter: letter.place, reverse=True),
                sum(partition.total for partition in self._partitions),
                sum(partition.unreadable for partition in self._partitions),
            )

    def forget(self, letters: Iterable[StoredDeadLetter]) -> None:
        """Leave out dead letters that were published again."""
        for letter in letters:
            for streams, partition in zip(self._streams, self._partitions, strict=True):
                if streams.partition == letter.partition:
                    partition.forget((letter.letter_id,))

    async def _ends(self) -> list[StreamEnd]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in self._streams:
                pipe.xlen(streams.dead_letters)
                pipe.xrevrange(streams.dead_letters, count=1)
            replies: list[Any] = await pipe.execute()
        return [
            StreamEnd(length, last[0][0].decode() if last else START)
            for length, last in zip(replies[::2], replies[1::2], strict=True)
        ]
