"""What Redis knows about the endpoints that labelers call: their states, the dollars spent, and counts of their calls.

Every process adds its counts about once a second, so a process that is killed loses the last second of them. The
account that a spend limit uses is exact and separate.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_schemas import utc_now

from ..redis.keys import CallField, Streams, deployment_prefix
from ..redis.scripts import Lua, ScriptCall
from .call_counts import CallCounts, CallHistory


@dataclass(frozen=True, slots=True)
class EndpointState:
    """The state of an endpoint, as one process sees it."""

    labeler: str
    """Name of the labeler that calls the endpoint, such as `judge`."""
    model: str
    paused: bool
    """Whether the circuit breaker is open."""
    busy: bool
    """Whether the endpoint asked for fewer calls in the last seconds."""
    last_error: str
    """The last failure; empty if a call has succeeded since."""
    over_budget: str = ""
    """The period whose spend limit is reached: `hour` or `day`; empty if no limit is reached."""
    adapted: str = ""
    """What the endpoint is asked for less after its refusals, in words; empty if nothing."""
    in_flight: int = field(default=0, compare=False)
    """Concurrent calls when the state was written: at its last change, or up to 15 seconds ago."""
    calls_allowed: int = field(default=0, compare=False)
    """Most concurrent calls that the process allowed then."""


async def read_endpoint_states(redis: Redis, prefix: str) -> dict[str, EndpointState]:
    """Return the state of each endpoint that a process of a deployment calls, by host, process id and labeler."""
    streams = Streams(deployment_prefix(prefix), 0)
    names = sorted(name.decode() for name in cast("set[bytes]", await redis.smembers(streams.endpoint_states)))
    if not names:
        return {}
    stored = cast("list[bytes | None]", await redis.mget([streams.endpoint_state(name) for name in names]))
    states = {name: _decode_state(data) for name, data in zip(names, stored, strict=True) if data is not None}
    return {name: state for name, state in states.items() if state is not None}


def _decode_state(data: bytes) -> EndpointState | None:
    try:
        fields: Any = json.loads(data)
        return EndpointState(
            str(fields.get("labeler", "judge")),
            str(fields["model"]),
            fields["paused"] is True,
            fields["busy"] is True,
            str(fields["last_error"])[:1000],
            str(fields.get("over_budget", "")),
            str(fields.get("adapted", ""))[:1000],
            int(fields.get("in_flight", 0)),
            int(fields.get("calls_allowed", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class EndpointSpend:
    """Dollars that were spent or are reserved."""

    hour_usd: float
    day_usd: float


async def read_spend(
    redis: Redis, prefix: str, *, labeler: str = "judge", now: datetime | None = None
) -> EndpointSpend:
    """Return the dollars that a deployment spent on a labeler in this clock hour and day."""
    streams = Streams(deployment_prefix(prefix), 0)
    hour, day = (streams.labeler_spend(labeler, name) for name in spend_periods(now or utc_now()))
    amounts = cast("list[bytes | None]", await redis.mget(hour, day))
    return EndpointSpend(*(float(amount or 0) for amount in amounts))


REACHED: Final = "reached"
"""Rest of the key with the spend limit of a labeler that is reached: its period, the key of the period, its amount."""


async def over_budget(redis: Redis, prefix: str, labeler: str, *, now: datetime | None = None) -> bool:
    """Return whether a spend limit of a labeler is reached in its present hour or day.

    Raises:
        redis.RedisError: Redis failed.
    """
    streams = Streams(deployment_prefix(prefix), 0)
    reached = cast("bytes | None", await redis.get(streams.labeler_spend(labeler, REACHED)))
    periods = (streams.labeler_spend(labeler, name) for name in spend_periods(now or utc_now()))
    return reached is not None and any(f" {key} ".encode() in reached for key in periods)


def spend_periods(now: datetime) -> tuple[str, str]:
    """Return the names of the clock hour and of the day in keys."""
    return now.strftime("%Y%m%d%H"), now.strftime("%Y%m%d")


COUNT: Final = Lua("count_calls")

HOURS_KEPT_S: Final = 3_600 * 50
"""Seconds for which the counts of an hour are kept."""
DAYS_KEPT_S: Final = 86_400 * 33
"""Seconds for which the counts of a day are kept."""
PIPELINES_MAX: Final = 100
"""Most pipelines whose dollars are counted apart in an hour or a day: the first ones that spend."""


def count_calls(
    streams: Streams, labeler: str, counts: CallCounts, *, at: datetime, process: str, batch: int
) -> ScriptCall[bool]:
    """Return the call that adds counts to an hour and a day; its reply says whether they were new.

    Args:
        streams: keys of partition 0 of the deployment.
        labeler: name of the labeler.
        counts: since the batch before.
        at: time of the counts.
        process: unique name of the process.
        batch: number of the batch, from 1; a batch that is sent twice is added once.
    """
    keys = tuple(streams.labeler_calls(labeler, name) for name in spend_periods(at))
    whole = [part for name, count in counts.whole.items() for part in (name, count)]
    sums = {name: amount for name, amount in counts.dollars.items() if not name.startswith(CallField.PIPELINE_USD)}
    # The most expensive pipelines come first, so these are named if there is no room for all.
    rest = sorted((item for item in counts.dollars.items() if item[0] not in sums), key=lambda item: -item[1])
    dollars = [part for name, amount in (*sums.items(), *rest) for part in (name, repr(amount))]
    limits = (HOURS_KEPT_S, DAYS_KEPT_S, CallField.PIPELINES, PIPELINES_MAX, len(whole) // 2, len(sums))
    return ScriptCall(COUNT, keys, (f"{CallField.BATCH}{process}", batch, *limits, *whole, *dollars), bool)


async def read_calls(
    redis: Redis, prefix: str, labeler: str, *, now: datetime, hours: int = 24, days: int = 30
) -> CallHistory:
    """Return the calls of a labeler in the last hours and days, the present ones included.

    Raises:
        redis.RedisError: Redis failed.
    """
    streams = Streams(deployment_prefix(prefix), 0)
    hour, day = now.replace(minute=0, second=0, microsecond=0), now.replace(hour=0, minute=0, second=0, microsecond=0)
    hour_times = [hour - timedelta(hours=back) for back in reversed(range(hours))]
    day_times = [day - timedelta(days=back) for back in reversed(range(days))]
    names = [*(spend_periods(at)[0] for at in hour_times), *(spend_periods(at)[1] for at in day_times)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(streams.labeler_calls(labeler, name))
        stored = [_read_counts(fields.items()) for fields in cast("list[dict[bytes, bytes]]", await pipe.execute())]
    return CallHistory(
        dict(zip(hour_times, stored[:hours], strict=True)), dict(zip(day_times, stored[hours:], strict=True))
    )


def _read_counts(stored: Iterable[tuple[bytes, bytes]]) -> CallCounts:
    """Return stored counts; fields of another form are skipped, because any client may write to Redis."""
    counts = CallCounts()
    for name, value in ((name.decode(errors="replace"), value) for name, value in stored):
        try:
            if (
                name.startswith((CallField.PURPOSE_USD, CallField.MODEL_USD, CallField.PIPELINE_USD))
                or name == CallField.SAVED_USD
            ):
                if math.isfinite(amount := float(value)):
                    counts.dollars[name] = amount
            elif name.startswith(CallField.LATENCY):
                counts.whole[f"{CallField.LATENCY}{int(name.removeprefix(CallField.LATENCY))}"] += int(value)
            elif not name.startswith(CallField.BATCH):
                counts.whole[name] = int(value)
        except ValueError:
            continue
    return counts
