"""The number of entries in one read: fewer if entries are large, because a read is held in memory as a whole.

Redis reports the size of a stream without reading it. If one read may take the whole stream, no entry is looked at.
`MEMORY USAGE` is exact for a stream of up to `SAMPLES` nodes; a node holds one entry or a few small ones. For more
nodes it is an estimate from the oldest nodes. If a stream is larger than one read may take, the script looks at the
next entries.
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

NOT_TOLD: Final = ("permission", "ACL failure", "can't run this command", "nknown")
"""Words in the answer of a Redis that does not tell sizes: an ACL forbids it, or a service has no `MEMORY USAGE`."""

SIZE: Final = Lua("read_size")


def read_size(positions: Mapping[str, str], most: int, most_bytes: int, group: str = "") -> ScriptCall[int]:
    """Return the call that counts the entries that one read of streams may take.

    Args:
        positions: by stream of one partition, the id after which it is read; with a group any text.
        most: most entries of a stream.
        most_bytes: most bytes of them, unless a single entry has more.
        group: consumer group that reads; empty for a reader with positions of its own.
    """
    return ScriptCall(SIZE, tuple(positions), (most, most_bytes, SAMPLES, group, *positions.values()), int)


class ReadSize:
    """The number of entries the next read takes.

    Args:
        redis: client.
        group: consumer group that reads; None for a reader with positions of its own.
        read_bytes: about how many bytes one read takes at most; None for `READ_BYTES`.
    """

    def __init__(self, redis: Redis, group: str | None = None, *, read_bytes: int | None = None) -> None:
        self._group = group or ""
        self._read_bytes = READ_BYTES if read_bytes is None else read_bytes
        self._redis = redis
        self._told = True

    async def next(self, positions: Mapping[str, str], most: int) -> int:
        """Return how many entries of each stream the next read takes, at most `most`.

        Args:
            positions: by stream of one partition, the id after which it is read; with a group any text.
            most: entries, however small they are.

        Raises:
            redis.RedisError: Redis failed.
        """
        if not self._told:
            return most
        try:
            return await run_script(self._redis, read_size(positions, most, self._read_bytes, self._group))
        except ResponseError as error:
            if not any(words in str(error) for words in NOT_TOLD):
                raise
            self._told = False
            return most
