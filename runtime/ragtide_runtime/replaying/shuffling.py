"""A recording in random order, in bounded memory: an order by a hash of seed and interaction, sorted through files."""

import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

BUCKETS: Final = 256
"""Files that are sorted one after the other: so many times the memory of one is what can be shuffled."""

_HEAD: Final = struct.Struct(">QII")


class Place(NamedTuple):
    """Where something comes in an order; as text like the id of a stream entry."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"{self.first}-{self.second}"


def random_place(seed: int, pipeline: str, interaction_id: str) -> Place:
    """Return where an interaction comes in the random order of a seed: the same in every process.

    >>> random_place(1, "shop", "i-1") == random_place(1, "shop", "i-1") != random_place(2, "shop", "i-1")
    True
    """
    digest = blake2b(f"{seed}\0{pipeline}\0{interaction_id}".encode(), digest_size=12).digest()
    return Place(int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big"))


def in_order_of_places(items: Iterable[tuple[Place, bytes]]) -> Iterator[tuple[Place, bytes]]:
    """Yield items sorted by place. At most about a 256th of them is in memory at once; the rest waits in files.

    Args:
        items: places, spread evenly over 64 bits, and anything as bytes.
    """
    with tempfile.TemporaryDirectory(prefix="ragtide-replay-") as folder, ExitStack() as stack:
        paths = [Path(folder, str(number)) for number in range(BUCKETS)]
        files = [stack.enter_context(path.open("w+b")) for path in paths]
        for place, data in items:
            file = files[place.first * BUCKETS >> 64]
            file.write(_HEAD.pack(place.first, place.second, len(data)))
            file.write(data)
        for file in files:
            file.seek(0)
            found = []
            while head := file.read(_HEAD.size):
                first, second, size = _HEAD.unpack(head)
                found.append((Place(first, second), file.read(size)))
            found.sort()
            yield from found
            file.truncate(0)
