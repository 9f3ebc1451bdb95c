"""Reading a partition's checkpoint."""

from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from ragtide_schemas import Streams

from .commit import CHECKPOINT_VERSION, START
from .errors import CheckpointError
from .feedback import PendingFeedback
from .state import AggregatorState, StateOptions


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a partition, and the last metric event in it."""

    state: AggregatorState
    position: str
    feedback_position: str
    pending: PendingFeedback
    """Feedback that waits for its interaction."""


async def load_checkpoint(redis: Redis, streams: Streams, options: StateOptions) -> Checkpoint:
    """Return the checkpoint of a partition; an empty state at the start of the stream if there is none.

    Raises:
        CheckpointError: it was written by another version of ragtide.
    """
    stored = cast("dict[bytes, bytes]", await redis.hgetall(streams.checkpoint))
    fields = {name.decode(): data for name, data in stored.items()}
    version = fields.pop("version", CHECKPOINT_VERSION)
    position = fields.pop("position", START.encode()).decode()
    feedback_position = fields.pop("feedback", START.encode()).decode()
    try:
        if version != CHECKPOINT_VERSION:
            raise ValueError(f"version {version.decode()}")  # noqa: TRY301 - one message for every unreadable field
        pending = PendingFeedback.from_fields(fields)
        return Checkpoint(AggregatorState.from_fields(options, fields), position, feedback_position, pending)
    except ValueError as error:
        raise CheckpointError(
            f"checkpoint {streams.checkpoint} cannot be read ({error}): run the ragtide version that wrote it, "
            "or delete the key to count the metrics stream again from its start"
        ) from None
