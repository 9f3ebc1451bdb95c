"""Drops a damaged field of a checkpoint: its key starts again from zero, and all other keys stay.

A field `estimate:KEY` is dropped together with all other fields of its key: without the count of the key, its windows,
quantiles and alert rules would contradict each other. Any other field is dropped alone. The caller holds the lease of
the partition.
"""

import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from socket import gethostname
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError, LeaseLostError
from ragtide_runtime.ownership.ownership import Lease
from ragtide_runtime.redis.entries import START, order
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.scripts import Argument, Lua, ScriptCall, run_script
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, from_milliseconds

from ..alerts.rule_state import RuleState
from ..checkpoint.loading import checkpoint_fields
from ..checkpoint.options import reader_options
from ..events.keys import HIDDEN, UNBOUNDED
from ..reading.partitions import damage
from ..state.releases import firing_alerts_of
from ..state.rows import KeyRows

REPAIRED: Final = (
    CheckpointField.ESTIMATE, CheckpointField.RULE_STATE, CheckpointField.PANE, CheckpointField.PROCESSED,
    CheckpointField.QUANTILES, CheckpointField.PAIR, CheckpointField.DECLARED, CheckpointField.PENDING_FEEDBACK,
    CheckpointField.PIPELINE_HEALTH, CheckpointField.SEEN_IDS, CheckpointField.CAPPED, CheckpointField.CLUSTERS,
    CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER, CheckpointField.DEPENDENCE,
    CheckpointField.SEASON, CheckpointField.HISTORY, CheckpointField.HISTORY_SERIES, CheckpointField.LEVEL,
    CheckpointField.RELEASE,
)  # fmt: skip
"""Beginnings of the names of fields that may be dropped; `may_be_dropped` adds three fields."""

_BY_KEY: Final = (
    CheckpointField.QUANTILES, CheckpointField.PROCESSED, CheckpointField.PANE, CheckpointField.CLUSTERS,
    CheckpointField.DEPENDENCE, CheckpointField.SEASON, CheckpointField.HISTORY, CheckpointField.HISTORY_SERIES,
    CheckpointField.LEVEL,
)  # fmt: skip
"""Beginnings of the names of fields that end with a key."""

DROP: Final = Lua("drop_fields")


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A field to drop, the fields that depend on it, and the numbers that are lost."""

    fields: tuple[str, ...]
    n: int | None = None
    """Number of values of the key; None if it cannot be read, or the field has no key."""
    mean: float | None = None
    """Their mean, in the unit of the metric."""
    updated_at: datetime | None = None
    """Time of the newest interaction of the key."""
    since: datetime | None = None
    """Time of the last metric event before the repair: the key counts later events only."""
    resolved: tuple[Alert, ...] = ()
    """The firing alerts of the key, resolved."""


def may_be_dropped(field: str) -> bool:
    """Return whether a checkpoint can do without a field."""
    whole = (CheckpointField.ALERT_CLOCK, CheckpointField.LEVEL_BUDGET, CheckpointField.STREAM_ROLLBACK)
    return field.startswith(REPAIRED) or field in whole


def dropped_field(fields: Mapping[str, bytes], field: str) -> DroppedField:
    """Return the fields that are dropped with a field of a checkpoint, and the numbers that are lost.

    Args:
        fields: all fields of the checkpoint.
        field: name of the damaged field.
    """
    at_ms = order(fields.get(CheckpointField.POSITION, START.encode()).decode())[0]
    since = from_milliseconds(at_ms) if at_ms else None
    if field.startswith(CheckpointField.SEEN_IDS):
        seen = sorted(name for name in fields if name.startswith(CheckpointField.SEEN_IDS))
        return DroppedField(tuple(seen), since=since)
    names: tuple[str, ...] = (field,)
    if field.startswith(CheckpointField.ESTIMATE):
        names = (
            field,
            *sorted(name for name in fields if _belongs_to_key(name, field.removeprefix(CheckpointField.ESTIMATE))),
        )
    rules = [name for name in names if name.startswith(CheckpointField.RULE_STATE)]
    resolved: list[Alert] = []
    for name in rules:
        with suppress(ValueError, KeyError, TypeError):
            resolved.extend(RuleState.withdrawn(fields[name]))
    if field.startswith(CheckpointField.RELEASE):
        for name in firing_alerts_of(field.removeprefix(CheckpointField.RELEASE)):
            if name in fields:
                names = (*names, name)
                with suppress(ValueError):
                    alert = Alert.decode(fields[name])
                    resolved.append(alert.resolve(since or alert.fired_at, "The release was dropped from the counts."))
    n, mean, updated_at = _counted(field, fields[field])
    return DroppedField(names, n, mean, updated_at, since, tuple(resolved))


def _belongs_to_key(name: str, key: str) -> bool:
    kind, colon, rest = name.partition(":")
    kind += colon
    if kind in _BY_KEY:
        return rest == key or rest.endswith(":" + key)
    if kind == CheckpointField.RULE_STATE:
        return rest.endswith("," + key[1:])
    return kind == CheckpointField.PAIR and rest.startswith(f"[{key},")


def _counted(field: str, data: bytes) -> tuple[int | None, float | None, datetime | None]:
    if not field.startswith(CheckpointField.ESTIMATE):
        return None, None, None
    rows = KeyRows()
    try:
        row = rows.named(field.removeprefix(CheckpointField.ESTIMATE))
        rows.load_estimate(row, data)
    except (ValueError, TypeError, struct.error):
        return None, None, None
    n, mean = rows.moments.n(row), float(rows.moments.read([row]).mean[0])
    if not rows.keys[row].metric.startswith((*HIDDEN, *UNBOUNDED)):
        lowest, highest = rows.keys[row].value_range
        mean = lowest + (highest - lowest) * mean
    return n, mean if n > 0 and isfinite(mean) else None, from_milliseconds(int(rows.updated_ms[row]))


async def drop(redis: Redis, streams: Streams, dropped: DroppedField, lease: Lease, token: str) -> None:
    """Drop fields of a checkpoint, and resolve the alerts that fired on them, in one script.

    Raises:
        LeaseLostError: an aggregator has taken the partition; nothing was written.
    """
    if not await run_script(redis, drop_fields(streams, dropped, token)):
        raise LeaseLostError(f"an aggregator owns partition {streams.partition} now: stop it, and repair again")
    await lease.release(token)


def drop_fields(streams: Streams, dropped: DroppedField, token: str) -> ScriptCall[bool]:
    """Return the call of `drop`; its reply says whether the lease has this token and everything was written."""
    alerts = [alert.encode() for alert in dropped.resolved]
    keys = (streams.lease, streams.checkpoint, streams.alerts)
    arguments: list[Argument] = [token, len(dropped.fields), *dropped.fields, len(alerts), *alerts]
    return ScriptCall(DROP, keys, arguments, bool)


async def repair(redis: Redis, settings: Settings, key: str) -> list[tuple[Streams, DroppedField]]:
    """Drop a field in the partitions where it is damaged, or else in all that have it; return the dropped fields.

    Args:
        redis: client.
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
