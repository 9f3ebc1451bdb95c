"""Counts of traces by hour, service and outcome: an interaction, or the reason why there is none."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import OutcomeField, Streams
from ragtide_schemas.times import from_milliseconds, to_milliseconds

INTERACTION: Final = "interaction"
"""Outcome of a trace that gave an interaction."""
HOUR_MS: Final = 3_600_000


def outcomes_key(streams: Streams, now_ms: int) -> str:
    """Return the key of the numbers of one hour."""
    return streams.trace_outcomes(str(now_ms // HOUR_MS))


@dataclass(frozen=True, slots=True)
class ServiceTraces:
    """The traces of one service that are over."""

    service: str
    """Name of the service that sent the first span; empty without one, and for services beyond the first thousands."""
    since: datetime
    """Time since which they are counted: the last hour and its beginning."""
    traces: Counter[str] = field(default_factory=Counter)
    """Number of traces by outcome: `interaction`, or why there is none."""
    newest: dict[str, str] = field(default_factory=dict)
    """The newest trace of each outcome."""
    refused: Counter[str] = field(default_factory=Counter)
    """Number of interactions that cannot be used, by reason; only the first are dead letters."""

    @property
    def without(self) -> Counter[str]:
        """Number of traces that gave no interaction, by reason."""
        return Counter({outcome: number for outcome, number in self.traces.items() if outcome != INTERACTION})


async def read_outcomes(redis: Redis, partitions: Sequence[Streams], now: datetime) -> list[ServiceTraces]:
    """Return what the traces of this hour and of the one before gave, the service with the most traces first.

    Args:
        now: time of Redis.

    Raises:
        redis.RedisError: Redis failed.
    """
    since = now - timedelta(hours=1)
    times = (to_milliseconds(since), to_milliseconds(now))
    async with redis.pipeline(transaction=False) as pipe:
        for now_ms in times:
            for streams in partitions:
                pipe.hgetall(outcomes_key(streams, now_ms))
        hours = cast("list[dict[bytes, bytes]]", await pipe.execute())
    since = from_milliseconds(times[0] // HOUR_MS * HOUR_MS)
    by_service: dict[str, ServiceTraces] = {}
    for name, value in (item for fields in hours for item in fields.items()):
        kind, _, rest = name.decode("utf-8", "replace").partition(":")
        outcome, _, service = rest.partition(":")
        if not rest:
            continue
        counts = by_service.setdefault(service, ServiceTraces(service, since))
        if f"{kind}:" == OutcomeField.TRACES:
            counts.traces[outcome] += int(value)
        elif f"{kind}:" == OutcomeField.REFUSED:
            counts.refused[outcome] += int(value)
        elif f"{kind}:" == OutcomeField.NEWEST:
            counts.newest[outcome] = value.decode()
    return sorted(by_service.values(), key=lambda counts: (-counts.traces.total(), counts.service))
