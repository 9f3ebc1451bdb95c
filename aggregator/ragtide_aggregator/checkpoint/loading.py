"""Loads the checkpoint of a partition."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..errors import CheckpointError, DamagedFieldError
from ..state.feedback_joiner import PendingFeedback
from ..state.state import AggregatorState, StateOptions
from .commit import CHECKPOINT_VERSION
from .name_index import missing_names

FIELDS_AT_ONCE: Final = 5000
"""About how many fields of a checkpoint one command reads; more would block Redis for too long."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition, and the last entries that it contains."""

    state: AggregatorState
    position: str
    feedback_position: str
    steps: int
    """Number of steps since the start of the streams."""
    pending: PendingFeedback
    """Feedback that waits for its interaction."""
    fields: Mapping[str, bytes]
    """All fields; only the owner reads some of them."""
    names: bytes | None = None
    """For the owner: the list of names that its first commit writes (`name_index`); None if the stored one is right."""


async def load_checkpoint(redis: Redis, streams: Streams, options: StateOptions, *, owned: bool = False) -> Checkpoint:
    """Return the checkpoint of a partition; an empty state at the start of the stream if there is none.

    Args:
        redis: client.
        streams: keys of the partition.
        owned: whether the caller holds the lease. Then no field changes meanwhile, so the fields are read in pieces and
            decoded in a thread.

    Raises:
        CheckpointError: another version of ragtide wrote the checkpoint, or one of its fields is damaged.
    """
    if owned:
        scanned = redis.hscan_iter(streams.checkpoint, count=FIELDS_AT_ONCE)
        fields = {name.decode(errors="replace"): data async for name, data in scanned}
        checkpoint = await asyncio.to_thread(checkpoint_of_fields, streams, options, fields)
        return replace(checkpoint, names=await missing_names(redis, streams, fields))
    return checkpoint_of_fields(streams, options, await checkpoint_fields(redis, streams))


async def checkpoint_fields(redis: Redis, streams: Streams) -> dict[str, bytes]:
    """Return the fields of a partition's checkpoint."""
    stored = cast("dict[bytes, bytes]", await redis.hgetall(streams.checkpoint))
    return {name.decode(errors="replace"): data for name, data in stored.items()}


def checkpoint_of_fields(streams: Streams, options: StateOptions, fields: Mapping[str, bytes]) -> Checkpoint:
    """Return the checkpoint that the fields of a key hold; an empty state at the start of the stream without fields.

    Raises:
        CheckpointError: another version of ragtide wrote the checkpoint, or one of its fields is damaged.
    """
    version = fields.get(CheckpointField.VERSION, CHECKPOINT_VERSION)
    try:
        if version != CHECKPOINT_VERSION:
            raise ValueError(f"version {version.decode()}")  # noqa: TRY301 - one message for every unreadable field
        return Checkpoint(
            state=AggregatorState.from_fields(options, fields),
            position=_position(fields, CheckpointField.POSITION),
            feedback_position=_position(fields, CheckpointField.FEEDBACK_POSITION),
            steps=int(fields.get(CheckpointField.STEPS, b"0")),
            pending=PendingFeedback.from_fields(fields),
            fields=fields,
        )
    except DamagedFieldError as error:
        raise damaged(streams, error) from None
    except ValueError as error:
        raise CheckpointError(
            f"checkpoint {streams.checkpoint} cannot be read ({error}): run the ragtide version that wrote it, "
            "or delete the key to count the metrics stream again from its start"
        ) from None


def damaged(streams: Streams, error: DamagedFieldError) -> CheckpointError:
    """Return the error that names a damaged field of a partition's checkpoint, and the command that drops it."""
    return CheckpointError(
        f"checkpoint {streams.checkpoint} is damaged in its field {error}. Stop the aggregator and drop the "
        f"field with: ragtide doctor --repair {quote(error.field)}"
    )


def _position(fields: Mapping[str, bytes], name: CheckpointField) -> str:
    position = fields.get(name, START.encode()).decode()
    order(position)
    return position
