"""The status of every partition: its backlog, its owners, and the keys, rollbacks and damage of its checkpoint."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from redis.asyncio import Redis

from ragtide_runtime.redis.backlog import Backlog, read_backlogs
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings

from ..errors import CheckpointError

if TYPE_CHECKING:
    from ..state.options import StateOptions


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The status of one partition."""

    streams: Streams
    backlog: Backlog
    owner: str | None
    """Aggregator that holds the lease."""
    recorder: str | None
    """Recorder that holds the lease."""
    keys: dict[str, Any] | None
    """Number of keys and the pipelines above their limit; None before the first commit."""
    rollback: dict[str, Any] | None
    """Number and last time of stream rollbacks; None if there was no rollback."""
    damage: str | None
    """Why the checkpoint cannot be read, and how to repair it; None if it can be read."""


@dataclass(frozen=True, slots=True)
class RunningRoles:
    """The roles that run, judged by their traces in Redis alone."""

    workers: int
    """Workers that asked for entries within the last minute."""
    owned: int
    """Partitions that an aggregator owns."""
    partitions: int

    @classmethod
    def of(cls, partitions: Sequence[PartitionStatus]) -> Self:
        """Return the roles that the status of all partitions shows."""
        return cls(
            workers=max(status.backlog.workers for status in partitions),
            owned=sum(status.owner is not None for status in partitions),
            partitions=len(partitions),
        )


async def read_partitions(redis: Redis, settings: Settings) -> list[PartitionStatus]:
    """Return the status of all partitions; each checkpoint is loaded to find damage."""
    partitions = settings.layout.all()
    backlogs = await read_backlogs(redis, partitions)
    async with redis.pipeline(transaction=False) as pipe:
        for streams in partitions:
            pipe.get(streams.lease)
            pipe.get(streams.recorder_lease)
            pipe.hmget(streams.checkpoint, CheckpointField.KEYS_SUMMARY, CheckpointField.STREAM_ROLLBACK)
            pipe.exists(streams.checkpoint)
        replies: list[Any] = await pipe.execute()
    statuses = []
    for place, (streams, backlog) in enumerate(zip(partitions, backlogs, strict=True)):
        owner, recorder, (keys, rollback), committed = replies[4 * place : 4 * place + 4]
        statuses.append(
            PartitionStatus(
                streams,
                backlog,
                owner=None if owner is None else owner.decode(),
                recorder=None if recorder is None else recorder.decode(),
                keys=None if keys is None else json.loads(keys),
                rollback=None if rollback is None else json.loads(rollback),
                damage=await _damage(redis, streams, settings) if committed else None,
            )
        )
    return statuses


async def _damage(redis: Redis, streams: Streams, settings: Settings) -> str | None:
    from ..checkpoint.options import reader_options  # noqa: PLC0415 - imports NumPy

    return await damage(redis, streams, reader_options(settings))


async def damage(redis: Redis, streams: Streams, options: "StateOptions") -> str | None:
    """Return the error of a checkpoint that cannot be read, with the repair; None if it can be read."""
    from ..checkpoint.loading import load_checkpoint  # noqa: PLC0415 - imports NumPy

    try:
        await load_checkpoint(redis, streams, options)
    except CheckpointError as error:
        return str(error)
    return None
