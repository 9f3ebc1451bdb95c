"""Records and logs a stream rollback: a stream of Redis ends before the position up to which it was read.

Redis came back without its last writes, or the stream was deleted or restored from an older copy.
"""

import json
from collections.abc import Mapping

import structlog

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import utc_now

log = structlog.get_logger("ragtide.aggregator")


def rollback_record(
    streams: Streams, fields: Mapping[str, bytes], *, position: tuple[str, str], ends: tuple[str, str]
) -> bytes:
    """Return the field `STREAM_ROLLBACK` after one more rollback, and log the rollback.

    Args:
        streams: keys of the partition.
        fields: of the checkpoint.
        position: positions of the checkpoint in the metrics and feedback streams.
        ends: the last entries of the streams before these positions.
    """
    earlier = json.loads(fields.get(CheckpointField.STREAM_ROLLBACK, b"{}"))
    record = {
        "times": earlier.get("times", 0) + 1,
        "at": utc_now().isoformat(),
        "from": list(position),
        "to": list(ends),
    }
    log.error(
        "a stream ends before the checkpoint: Redis lost its end; continuing from the last entry",
        partition=streams.partition,
        **record,
    )
    return json.dumps(record).encode()
