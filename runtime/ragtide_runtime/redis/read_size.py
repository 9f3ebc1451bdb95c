"""Limits the number of entries in one read by their size, because a read is held in memory as a whole.

`MEMORY USAGE` reports the size of a stream without reading it. If one read may take the whole stream, no entry is
looked at; otherwise the script looks at the next entries. The size is exact for a stream of up to `SAMPLES` nodes (a
node holds one entry or a few small ones), and estimated from the oldest nodes for a longer stream.
"""

from collections.abc import Mapping
from typing import Final

from redis import ResponseError
from redis.asyncio import Redis

from .scripts import Lua, ScriptCall, run_script

READ_BYTES: Final = 32 * 1024 * 1024
"""About how many bytes one read takes at most. An entry that is larger is read alone."""

SAMPLES: Final = 1000
"""Nodes of a stream that are looked at."""

NO_SIZES: Final = ("permission", "ACL failure", "can't run this command", "nknown")
"""Words in the error of a Redis that reports no sizes: an ACL forbids it, or a service has no `MEMORY USAGE`."""

SIZE: Final = Lua("read_size")


def read_size(positions: Mapping[str, str], most: int, most_bytes: int, group: str = "") -> ScriptCall[int]:
    """Return the call that counts the entries that one read of streams may take.

    Args:
        positions: the id after which each stream of a partition is read; any text for a group.
        most: most entries of a stream.
        most_bytes: most bytes of these entries, unless a single entry has more.
        group: consumer group that reads; empty for a reader with positions of its own.
    """
    return ScriptCall(SIZE, tuple(positions), (most, most_bytes, SAMPLES, group, *positions.values()), int)


class ReadSize:
    """Determines the number of entries that the next read takes.

    Args:
        redis: client.
        group: consumer group that reads; None for a reader with positions of its own.
        read_bytes: about how many bytes one read takes at most; None for `READ_BYTES`.
    """

    def __init__(self, redis: Redis, group: str | None = None, *, read_bytes: int | None = None) -> None:
        self._group = group or ""
        self._read_bytes = READ_BYTES if read_bytes is None else read_bytes
        self._redis = redis
        self._sizes_known = True

    async def next(self, positions: Mapping[str, str], most: int) -> int:
        """Return how many entries of each stream the next read takes, at most `most`.

        Args:
            positions: the id after which each stream of a partition is read; any text for a group.
            most: most entries, however small they are.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._sizes_known:
            return most
        try:
            return await run_script(self._redis, read_size(positions, most, self._read_bytes, self._group))
        except ResponseError as error:
            if not any(words in str(error) for words in NO_SIZES):
                raise
            self._sizes_known = False
            return most
