"""`ragtide doctor --repair`: drops the damaged field of a checkpoint, under the lease of the partition."""

from socket import gethostname
from typing import cast

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings

from ..checkpoint.options import reader_options
from ..reading.partitions import damage
from .damaged_field import DroppedField, checkpoint_fields, drop, dropped_field, may_be_dropped


async def repair(redis: Redis, settings: Settings, key: str) -> list[tuple[Streams, DroppedField]]:
    """Drop a field in the partitions where it is damaged, or else in all that have it; return the dropped fields.

    Args:
        redis: client.
        settings: of the deployment.
        key: name of the field in the error message, or the key in `estimate:KEY`.

    Raises:
        ConfigurationError: no checkpoint has the field, every checkpoint needs it, or an aggregator owns the partition.
        LeaseLostError: an aggregator took the partition during the repair.
    """
    field = f"{CheckpointField.ESTIMATE}{key}" if key.startswith("[") else key
    if not may_be_dropped(field):
        raise ConfigurationError(
            f"--repair {key}: every checkpoint needs this field; delete the checkpoint to count the metrics "
            "stream again from its start"
        )
    having = [streams for streams in settings.layout.all() if field in await checkpoint_fields(redis, streams)]
    if not having:
        raise ConfigurationError(f"--repair {key}: no checkpoint has this field; copy it whole from the error")
    options = reader_options(settings)
    damaged = [streams for streams in having if field in (await damage(redis, streams, options) or "")]
    return [(streams, await _repair_partition(redis, settings, streams, field)) for streams in damaged or having]


async def _repair_partition(redis: Redis, settings: Settings, streams: Streams, field: str) -> DroppedField:
    lease = Lease(redis, streams, holder=f"doctor-{gethostname()}", lease_s=settings.lease_s)
    acquired = await lease.acquire()
    if acquired.token is None:
        owner = cast("bytes | None", await redis.get(streams.lease)) or b"an aggregator"
        raise ConfigurationError(
            f"partition {streams.partition} is owned by {owner.decode()}: stop that aggregator and repair again (the "
            f"lease of a killed aggregator ends within {acquired.held_for_s:.0f} s)"
        )
    try:
        dropped = dropped_field(await checkpoint_fields(redis, streams), field)
        await drop(redis, streams, dropped, lease, acquired.token)
    finally:
        await lease.release(acquired.token)
    return dropped
