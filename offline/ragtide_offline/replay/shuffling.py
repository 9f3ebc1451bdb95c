"""Puts a recording in random order in bounded memory: sorts by a hash of seed and interaction, through files."""

import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

BUCKETS: Final = 256
"""Number of files that are sorted one after the other, each in memory."""

_HEAD: Final = struct.Struct(">QII")


class ReplayPlace(NamedTuple):
    """A place in an order; as text it looks like the id of a stream entry."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"{self.first}-{self.second}"


def random_place(seed: int, pipeline: str, interaction_id: str) -> ReplayPlace:
    """Return the place of an interaction in the random order of a seed, the same in every process.

    >>> random_place(1, "shop", "i-1") == random_place(1, "shop", "i-1") != random_place(2, "shop", "i-1")
    True
    """
    digest = blake2b(f"{seed}\0{pipeline}\0{interaction_id}".encode(), digest_size=12).digest()
    return ReplayPlace(int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big"))


class Shuffled:
    """Added entries, sorted by place. About a 256th of the entries is in memory at once; the rest is in files.

    Use it as a context manager, whose end deletes the files. Places must be spread evenly over 64 bits.
    """

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ragtide-replay-"))
        paths = [Path(folder, str(number)) for number in range(BUCKETS)]
        self._files = [self._stack.enter_context(path.open("w+b")) for path in paths]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, place: ReplayPlace, data: bytes) -> None:
        """Add an entry as bytes at a place."""
        file = self._files[place.first * BUCKETS >> 64]
        file.write(_HEAD.pack(place.first, place.second, len(data)))
        file.write(data)

    def __iter__(self) -> Iterator[tuple[ReplayPlace, bytes]]:
        for file in self._files:
            file.seek(0)
            found = []
            while head := file.read(_HEAD.size):
                first, second, size = _HEAD.unpack(head)
                found.append((ReplayPlace(first, second), file.read(size)))
            found.sort()
            yield from found
            file.truncate(0)
