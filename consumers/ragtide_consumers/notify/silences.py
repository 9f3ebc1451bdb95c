"""Silences and acknowledgements: people mute alerts, or their repetitions. Both are stored in Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Final, TypeVar, cast
from uuid import uuid4

import structlog
from pydantic import Field, StringConstraints, ValidationError
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.base import Name, UtcTime, WireModel
from ragtide_schemas.printable import NAME_PATTERN

SILENCES_MAX: Final = 1000
"""Most silences of a deployment."""

KEPT: Final = timedelta(days=30)
"""Time for which acknowledgements are kept."""

Glob = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NAME_PATTERN)]

log = structlog.get_logger("ragtide.notify")

M = TypeVar("M", bound=WireModel)


class Silence(WireModel):
    """Alerts that are not sent until a time. They still fire, and every list shows them."""

    id: Name
    """Id of the silence."""
    pipeline: Glob = "*"
    """Shell-style pattern of pipelines."""
    rule: Glob = "*"
    """Shell-style pattern of rules."""
    metric: Glob = "*"
    """Shell-style pattern of metrics."""
    segment: Glob | None = None
    """Shell-style pattern of segment values; None matches alerts with and without a segment."""
    until: UtcTime
    """End of the silence."""
    by: Name
    """Person who set it."""
    reason: Annotated[str, Field(max_length=1000)] = ""
    """Reason, for other people."""
    created_at: UtcTime
    """Time at which it was set."""

    def silences(self, alert: Alert, now: datetime) -> bool:
        """Return whether an alert is muted now."""
        return (
            now < self.until
            and fnmatchcase(alert.pipeline, self.pipeline)
            and fnmatchcase(alert.rule, self.rule)
            and fnmatchcase(alert.metric, self.metric)
            and (self.segment is None or (alert.segment is not None and fnmatchcase(alert.segment, self.segment)))
        )


class Acknowledgement(WireModel):
    """A person works on an alert, so it is not sent again while it fires. It is sent when it resolves."""

    alert_id: Name
    """Id of the alert."""
    by: Name
    """Person who acknowledged it."""
    at: UtcTime
    """Time of the acknowledgement."""


@dataclass(frozen=True, slots=True)
class MutedAlerts:
    """The silences and acknowledgements of a deployment."""

    silences: Sequence[Silence] = ()
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)
    """By the id of the alert."""

    def silenced_until(self, alert: Alert, now: datetime) -> datetime | None:
        """Return the end of the last silence that holds for an alert now; None if none does."""
        return max((silence.until for silence in self.silences if silence.silences(alert, now)), default=None)

    def acknowledged_by(self, alert_id: str) -> str | None:
        """Return the person who acknowledged an alert; None if nobody did."""
        acknowledgement = self.acknowledged.get(alert_id)
        return None if acknowledgement is None else acknowledgement.by


async def add_silence(redis: Redis, prefix: str, silence: Silence) -> None:
    """Store a silence; remove silences that have ended.

    Raises:
        ValueError: there are `SILENCES_MAX` silences already.
        redis.RedisError: Redis failed.
    """
    key = Streams(prefix, 0).silences
    stored = await read_silences(redis, prefix)
    ended = [silence.id for silence in stored if silence.until <= utc_now()]
    if ended:
        await redis.hdel(key, *ended)
    if len(stored) - len(ended) >= SILENCES_MAX:
        raise ValueError(f"there are {SILENCES_MAX:,} silences: remove one with ragtide alerts silence remove ID")
    await redis.hset(key, silence.id, silence.encode())


async def remove_silence(redis: Redis, prefix: str, silence_id: str) -> bool:
    """Remove a silence, and return whether it was there."""
    return bool(await redis.hdel(Streams(prefix, 0).silences, silence_id))


async def read_silences(redis: Redis, prefix: str) -> list[Silence]:
    """Return the silences, the first to end first; those that have ended are among them until a new one is added."""
    silences = _readable(Silence, cast("dict[bytes, bytes]", await redis.hgetall(Streams(prefix, 0).silences)))
    return sorted(silences, key=lambda silence: (silence.until, silence.id))


async def acknowledge(redis: Redis, prefix: str, alert_id: str, by: str) -> Acknowledgement:
    """Store that a person works on an alert; forget acknowledgements older than `KEPT`."""
    key, now = Streams(prefix, 0).acknowledged, utc_now()
    old = [
        acknowledgement.alert_id
        for acknowledgement in (await read_acknowledged(redis, prefix)).values()
        if acknowledgement.at < now - KEPT
    ]
    if old:
        await redis.hdel(key, *old)
    new = Acknowledgement(alert_id=alert_id, by=by, at=now)
    await redis.hset(key, alert_id, new.encode())
    return new


async def read_acknowledged(redis: Redis, prefix: str) -> dict[str, Acknowledgement]:
    """Return the acknowledgements, by the id of the alert."""
    acknowledgements = _readable(
        Acknowledgement, cast("dict[bytes, bytes]", await redis.hgetall(Streams(prefix, 0).acknowledged))
    )
    return {acknowledgement.alert_id: acknowledgement for acknowledgement in acknowledgements}


async def read_muted(redis: Redis, prefix: str) -> MutedAlerts:
    """Return the silences and acknowledgements.

    Raises:
        redis.RedisError: Redis failed.
    """
    return MutedAlerts(await read_silences(redis, prefix), await read_acknowledged(redis, prefix))


def new_silence_id() -> str:
    """Return a new id of a silence, short enough to type."""
    return uuid4().hex[:8]


def _readable(model: type[M], fields: Mapping[bytes, bytes]) -> list[M]:
    entries = []
    for name, data in fields.items():
        try:
            entries.append(model.model_validate_json(data))
        except ValidationError as error:
            log.warning("a stored entry cannot be read and is skipped", entry=name.decode(), detail=str(error))
    return entries
