"""Reading a partition's checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from ragtide_runtime.stream_reads import START
from ragtide_schemas import Streams

from .commit import CHECKPOINT_VERSION
from .errors import CheckpointError
from .feedback import PendingFeedback
from .state import AggregatorState, StateOptions


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a partition's aggregator knows, and the last entries in it."""

    state: AggregatorState
    position: str
    feedback_position: str
    steps: int
    """Number of steps that led to it."""
    pending: PendingFeedback
    """Feedback that waits for its interaction."""
    fields: Mapping[str, bytes]
    """All its fields, for what only the owner keeps."""


async def load_checkpoint(redis: Redis, streams: Streams, options: StateOptions) -> Checkpoint:
    """Return the checkpoint of a partition; an empty state at the start of the stream if there is none.

    Raises:
        CheckpointError: it was written by another version of ragtide.
    """
    stored = cast("dict[bytes, bytes]", await redis.hgetall(streams.checkpoint))
    fields = {name.decode(): data for name, data in stored.items()}
    version = fields.get("version", CHECKPOINT_VERSION)
    try:
        if version != CHECKPOINT_VERSION:
            raise ValueError(f"version {version.decode()}")  # noqa: TRY301 - one message for every unreadable field
        return Checkpoint(
            state=AggregatorState.from_fields(options, fields),
            position=fields.get("position", START.encode()).decode(),
            feedback_position=fields.get("feedback", START.encode()).decode(),
            steps=int(fields.get("steps", b"0")),
            pending=PendingFeedback.from_fields(fields),
            fields=fields,
        )
    except ValueError as error:
        raise CheckpointError(
            f"checkpoint {streams.checkpoint} cannot be read ({error}): run the ragtide version that wrote it, "
            "or delete the key to count the metrics stream again from its start"
        ) from None
