"""Loads the states of a deployment's partitions from their checkpoints, again only after a commit."""

import asyncio
from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..service.checkpoint import load_checkpoint
from ..state.merging import merged
from ..state.state import AggregatorState, StateOptions

REVISION: Final = (CheckpointField.STEPS, CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION)
"""Fields of a checkpoint that change with every commit."""

Revision = tuple[bytes | None, ...]
"""The values of these fields, which identify a commit."""


class PartitionStates:
    """The state of every partition at its newest checkpoint.

    Args:
        redis: client.
        options: of the states.
        split: whether pipelines are split over partitions, so that several states are merged into one.
    """

    def __init__(self, redis: Redis, options: StateOptions, *, split: bool) -> None:
        self._redis = redis
        self._options = options
        self._split = split
        self._reading = asyncio.Lock()
        self._loaded: dict[Streams, tuple[Revision, AggregatorState]] = {}
        self._merged: dict[tuple[Streams, ...], tuple[list[Revision], AggregatorState]] = {}

    async def read(self, partitions: Sequence[Streams]) -> tuple[list[Revision], list[AggregatorState]]:
        """Return the revisions of checkpoints and their states; one merged state if pipelines are split.

        Without a commit since the last call this takes one round trip, whatever the number of partitions.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            await self._load_changed(partitions)
        loaded = [self._loaded[streams] for streams in partitions]
        revisions, states = [revision for revision, _ in loaded], [state for _, state in loaded]
        if not self._split or len(states) < 2:
            return revisions, states
        known = self._merged.get(tuple(partitions))
        if known is None or known[0] != revisions:
            known = self._merged[tuple(partitions)] = revisions, merged(states, self._options)
        return revisions, [known[1]]

    async def _load_changed(self, partitions: Sequence[Streams]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.hmget(streams.checkpoint, REVISION)
            found: list[list[bytes | None]] = await pipe.execute()
        changed = [
            streams
            for streams, revision in zip(partitions, found, strict=True)
            if streams not in self._loaded or self._loaded[streams][0] != tuple(revision)
        ]
        await asyncio.gather(*(self._load(streams) for streams in changed))

    async def _load(self, streams: Streams) -> None:
        checkpoint = await load_checkpoint(self._redis, streams, self._options)
        self._loaded[streams] = tuple(checkpoint.fields.get(name) for name in REVISION), checkpoint.state
