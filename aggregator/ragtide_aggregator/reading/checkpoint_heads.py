"""Reads where checkpoints are, and which pipelines changed since a reader looked last."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..checkpoint.change_log import STEPS_KEPT, ChangedPipelines, Revision, changed_pipelines, slots_since

REVISION: Final = (CheckpointField.STEPS, CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION)
"""Fields of a checkpoint that change with every commit."""

STEPS_AHEAD: Final = 8
"""Steps since the last look of which the changes are read at once; of more they take another round trip."""


class CheckpointHead(NamedTuple):
    """Where a checkpoint is."""

    version: bytes | None
    revision: Revision
    length: int
    """Number of all fields."""
    changed: ChangedPipelines | None
    """The pipelines that the steps since the given revision changed; None if these steps are not known."""


async def read_heads_of(redis: Redis, since: Mapping[Streams, Revision]) -> dict[Streams, CheckpointHead]:
    """Return the heads of checkpoints, in one round trip unless a reader did not look for many steps.

    Args:
        since: revision at the last look, empty for none, by partition.
    """
    rings = {streams: slots_since(revision, STEPS_AHEAD) if revision else [] for streams, revision in since.items()}
    async with redis.pipeline(transaction=False) as pipe:
        for streams, ring in rings.items():
            pipe.hmget(streams.checkpoint, CheckpointField.VERSION, *REVISION, *ring)
            pipe.hlen(streams.checkpoint)
        replies: list[Any] = await pipe.execute()
    heads = {}
    for streams, reply, length in zip(rings, replies[::2], replies[1::2], strict=True):
        version, *rest = reply
        revision, slots = tuple(rest[: len(REVISION)]), rest[len(REVISION) :]
        before, ring = since[streams], rings[streams]
        behind = int(revision[0] or 0) - int((before and before[0]) or 0)
        if ring and STEPS_AHEAD <= behind < STEPS_KEPT:
            ring = slots_since(before, STEPS_KEPT)
            slots = await redis.hmget(streams.checkpoint, ring)
        changed = changed_pipelines(before, revision, dict(zip(ring, slots, strict=True))) if ring else None
        heads[streams] = CheckpointHead(version, revision, length, changed)
    return heads
