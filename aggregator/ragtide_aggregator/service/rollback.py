"""Stream rollback: a stream of Redis ends before the position up to which it was read.

Redis came back without its last writes, or the stream was deleted or restored from an older copy.
"""

import json
from collections.abc import Mapping

import structlog
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.log import end_at
from ragtide_schemas import utc_now

log = structlog.get_logger("ragtide.aggregator")


async def stream_ends(redis: Redis, streams: Streams, *, metrics: str, feedback: str) -> tuple[str, str]:
    """Return the positions or, where a stream has lost its tail, the ids of the last entries before them."""
    return await end_at(redis, streams.metrics, metrics), await end_at(redis, streams.feedback, feedback)


def rollback_record(
    streams: Streams, fields: Mapping[str, bytes], *, position: tuple[str, str], ends: tuple[str, str]
) -> bytes:
    """Return the field `STREAM_ROLLBACK` after one more rollback, and log the rollback.

    Args:
        streams: keys of the partition.
        fields: of the checkpoint.
        position: positions of the checkpoint in the metrics and feedback streams.
        ends: the last entries before them that the streams have.
    """
    earlier = json.loads(fields.get(CheckpointField.STREAM_ROLLBACK, b"{}"))
    record = {
        "times": earlier.get("times", 0) + 1,
        "at": utc_now().isoformat(),
        "from": list(position),
        "to": list(ends),
    }
    log.error(
        "a stream ends before the checkpoint: Redis lost its tail; continuing there",
        partition=streams.partition,
        **record,
    )
    return json.dumps(record).encode()
