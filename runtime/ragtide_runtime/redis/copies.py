"""Recognizes the entries that a repartition copied, so that the recorder, which recorded the originals, skips them.

A copy has a field `moved`. A client that may add entries could add that field too, to keep an entry out of the archive.
So the field counts only if its value is the token of a repartition, and the entry lies between the ends that the stream
had before and after that repartition: an entry that is added later has a later id. The token and the ends are stored in
a hash of the partition, which a client that may only add entries cannot write.
"""

from collections.abc import Mapping
from typing import Final, cast

from redis.asyncio import Redis

from .entries import Entry, order
from .keys import MOVED_FIELD, Streams, copies_field
from .log import last_id

COPIED: Final = ("metrics", "alerts")
"""Streams that a repartition adds copies to."""


async def begin_copies(redis: Redis, streams: Streams, token: str) -> None:
    """Store where the streams of a partition end before copies are added; a repeated call changes nothing."""
    for name in COPIED:
        end = await last_id(redis, getattr(streams, name))
        await redis.hsetnx(streams.copies, copies_field(name, token, "after"), end)


async def end_copies(redis: Redis, streams: Streams, token: str) -> None:
    """Store where the streams of a partition end after the last copy; until then no entry counts as a copy."""
    for name in COPIED:
        end = await last_id(redis, getattr(streams, name))
        await redis.hset(streams.copies, copies_field(name, token, "until"), end)


class Copies:
    """The copies in the streams of one partition.

    Args:
        fields: of the partition's hash `copies`.
    """

    def __init__(self, fields: Mapping[bytes, bytes] | None = None) -> None:
        self._ends = {name.decode(): end.decode() for name, end in (fields or {}).items()}

    @classmethod
    async def read(cls, redis: Redis, streams: Streams) -> "Copies":
        """Return the copies in a partition. Their number is final while a role runs."""
        return cls(cast("dict[bytes, bytes]", await redis.hgetall(streams.copies)))

    def has(self, name: str, entry: Entry) -> bool:
        """Return whether an entry of the stream `metrics`, `alerts` or another is a copy."""
        token = entry.fields.get(MOVED_FIELD)
        if token is None:
            return False
        text = token.decode(errors="replace")
        after = self._ends.get(copies_field(name, text, "after"))
        until = self._ends.get(copies_field(name, text, "until"))
        return after is not None and until is not None and order(after) < order(entry.entry_id) <= order(until)
