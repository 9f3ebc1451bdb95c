"""`ragtide doctor --repair KEY`: drops a damaged field of a checkpoint, and reports the loss."""

from dataclasses import asdict
from socket import gethostname
from typing import Any, cast

from redis.asyncio import Redis

from ragtide_aggregator.reading.partitions import damage
from ragtide_aggregator.service.repairing import Lost, checkpoint_fields, drop, lost, may_be_dropped
from ragtide_aggregator.service.state_options import reader_options
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.lease import Lease
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.settings.model import Settings

from .common import out, print_json


async def repaired(redis: Redis, settings: Settings, key: str) -> list[tuple[Streams, Lost]]:
    """Drop a field in every partition that has it, and return the losses.

    Args:
        redis: client.
        settings: of the deployment.
        key: name of the field, as the error names it, or the key in `estimate:KEY`.

    Raises:
        ConfigurationError: no checkpoint has the field, none can do without it, or an aggregator owns the partition.
        LeaseLostError: an aggregator has taken the partition meanwhile.
    """
    field = f"{CheckpointField.ESTIMATE}{key}" if key.startswith("[") else key
    if not may_be_dropped(field):
        raise ConfigurationError(
            f"--repair {key}: no checkpoint can do without this field; delete the checkpoint to count the metrics "
            "stream again from its start"
        )
    having = [streams for streams in settings.layout.all() if field in await checkpoint_fields(redis, streams)]
    if not having:
        raise ConfigurationError(f"--repair {key}: no checkpoint has this field; copy it whole from the error")
    options = reader_options(settings)
    damaged = [streams for streams in having if field in (await damage(redis, streams, options) or "")]
    return [(streams, await _repaired(redis, settings, streams, field)) for streams in damaged or having]


async def _repaired(redis: Redis, settings: Settings, streams: Streams, field: str) -> Lost:
    lease = Lease(redis, streams, holder=f"doctor-{gethostname()}", lease_s=settings.lease_s)
    acquired = await lease.acquire()
    if acquired.token is None:
        owner = cast("bytes | None", await redis.get(streams.lease)) or b"an aggregator"
        raise ConfigurationError(
            f"partition {streams.partition} is owned by {owner.decode()}: stop that aggregator and repair again (the "
            f"lease of one that was killed ends within {acquired.held_for_s:.0f} s)"
        )
    try:
        dropped = lost(await checkpoint_fields(redis, streams), field)
        await drop(redis, streams, dropped, lease, acquired.token)
    finally:
        await lease.release(acquired.token)
    return dropped


def print_repairs(repairs: list[tuple[Streams, Lost]], *, as_json: bool) -> None:
    """Print the dropped fields and their losses."""
    if as_json:
        print_json([_as_dict(streams, dropped) for streams, dropped in repairs])
        return
    for streams, dropped in repairs:
        for line in told(streams, dropped):
            out.print(line, markup=False, highlight=False, soft_wrap=True)


def _as_dict(streams: Streams, dropped: Lost) -> dict[str, Any]:
    times = {name: None if at is None else at.isoformat() for name, at in asdict(dropped).items() if name in _TIMES}
    return {
        "partition": streams.partition,
        "fields": list(dropped.fields),
        "n": dropped.n,
        "mean": dropped.mean,
        **times,
        "resolved": [alert.alert_id for alert in dropped.resolved],
    }


_TIMES = ("updated_at", "since")


def told(streams: Streams, dropped: Lost) -> list[str]:
    """Return sentences about the dropped fields and their losses."""
    field, more = dropped.fields[0], len(dropped.fields) - 1
    lines = [
        f"partition {streams.partition}: dropped {field}" + (f" and {more} fields that belong to it" if more else "")
    ]
    if field.startswith(CheckpointField.ESTIMATE):
        values = "an unreadable number of values" if dropped.n is None else f"{dropped.n:,} values"
        mean = "" if dropped.mean is None else f" with mean {dropped.mean:.6g}"
        newest = "" if dropped.updated_at is None else f", the newest of {dropped.updated_at:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"lost: {values}{mean}{newest}")
    if dropped.since is not None:
        since = f"{dropped.since:%Y-%m-%d %H:%M:%S} UTC"
        lines.append(f"What the field held is collected anew from metric events scored after {since}.")
    lines += [f"ended: alert {alert.alert_id}, whose rule begins anew" for alert in dropped.resolved]
    return lines
