"""Checks that a partition is at rest, so that its deployment may be repartitioned."""

from typing import cast

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.backlog import read_backlogs
from ragtide_runtime.redis.entries import START
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.log import last_id


async def check_at_rest(redis: Redis, streams: Streams) -> None:
    """Check that a partition has no owner, and no entry that waits to be labeled, aggregated or recorded.

    Raises:
        ConfigurationError: the partition is not at rest; the message names the remedy.
    """
    name = f"partition {streams.partition}"
    owner = cast("bytes | None", await redis.get(streams.lease))
    if owner is not None:
        raise ConfigurationError(f"{name} is owned by aggregator {owner.decode()}: stop all roles and producers first")
    recorder = cast("bytes | None", await redis.get(streams.recorder_lease))
    if recorder is not None:
        raise ConfigurationError(f"{name} has the recorder {recorder.decode()}: stop all roles and producers first")
    (backlog,) = await read_backlogs(redis, [streams])
    if backlog.unrecorded_s:
        raise ConfigurationError(
            f"{name} has entries that are not recorded: start ragtide recorder and stop it again, which records them, "
            "or release them with ragtide recorder --forget"
        )
    if backlog.waiting:
        raise ConfigurationError(
            f"{name} has {backlog.waiting} interactions that wait: stop the producers, let workers and aggregators "
            "finish, and then stop them (ragtide doctor shows the backlog)"
        )
    if traces := await redis.zcard(streams.open_traces):
        raise ConfigurationError(
            f"{name} has {traces} traces that wait to be read: stop the senders, let ragtide serve read them, which "
            "takes up to ingest.hold_s, and then stop it"
        )
    for field, stream in positions(streams):
        last = await last_id(redis, stream)
        position = cast("bytes | None", await redis.hget(streams.checkpoint, field))
        if last != START and (position is None or position.decode() != last):
            raise ConfigurationError(
                f"{name} has entries in {stream} that are not aggregated: let an aggregator finish before you stop it"
            )


async def delete_read_traces(redis: Redis, streams: Streams) -> None:
    """Delete the spans of traces that were read: in a new layout their partition is another."""
    for name in cast("list[bytes]", await redis.zrange(streams.read_traces, 0, -1)):
        await redis.delete(streams.trace(name.decode()))
    await redis.delete(streams.read_traces, streams.traces_bytes)


def positions(streams: Streams) -> tuple[tuple[CheckpointField, str], ...]:
    """Return the fields of a checkpoint that hold positions, each with its stream."""
    return (CheckpointField.POSITION, streams.metrics), (CheckpointField.FEEDBACK_POSITION, streams.feedback)
