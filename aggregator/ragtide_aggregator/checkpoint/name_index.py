"""The list of the names of those fields of a checkpoint that readers look for, so that none walks through all fields.

A commit adds the names of new fields to the list, in the same script. The field `names` of the checkpoint holds the
length of the list and the number of all fields. A reader uses the list only if both are right: a checkpoint that was
repaired, moved to another layout or written by hand is walked through until its next owner writes the list anew. A
name may be there twice, or its field may be gone; then the owner writes the list anew when it is twice as long as
needed.
"""

from collections.abc import Mapping
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

LISTED: Final = frozenset(
    (
        CheckpointField.ESTIMATE, CheckpointField.CLUSTERS, CheckpointField.PAIR, CheckpointField.CLUSTER_SCOPE,
        CheckpointField.DECLARED, CheckpointField.RULE_STATE, CheckpointField.LEVEL, CheckpointField.HISTORY_SERIES,
        CheckpointField.RELEASE,
    )
)  # fmt: skip
"""Kinds of fields whose names are in the list."""


async def missing_names(redis: Redis, streams: Streams, fields: Mapping[str, bytes]) -> bytes | None:
    """Return the list of names that the next commit of an owner has to write; None if the stored one is right.

    Args:
        redis: client.
        streams: keys of the partition.
        fields: all fields of the checkpoint; no other process changes it meanwhile.
    """
    length = int(await redis.strlen(streams.field_names))
    names = [name for name in fields if name[: name.find(":") + 1] in LISTED]
    text = "".join(f"{name}\n" for name in names).encode()
    is_right = fields.get(CheckpointField.NAMES) == b"%d %d" % (length, len(fields))
    return None if is_right and length <= 2 * len(text) else text


async def listed_names(redis: Redis, streams: Streams) -> tuple[int, set[str]] | None:
    """Return the number of all fields of a checkpoint, and the names in the list; None if the list is not right."""
    async with redis.pipeline(transaction=True) as pipe:
        pipe.hget(streams.checkpoint, CheckpointField.NAMES)
        pipe.hlen(streams.checkpoint)
        pipe.get(streams.field_names)
        head, count, text = cast("tuple[bytes | None, int, bytes | None]", await pipe.execute())
    if head != b"%d %d" % (len(text or b""), count):
        return None
    return count, set((text or b"").decode(errors="replace").split("\n")) - {""}
