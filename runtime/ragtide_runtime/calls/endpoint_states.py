"""Reads from Redis the state of the endpoints that labelers call, as each process wrote it, and the dollars spent."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from redis.asyncio import Redis

from ragtide_schemas import utc_now

from ..redis.keys import Streams, deployment_prefix


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
    states = {name: _decoded(data) for name, data in zip(names, stored, strict=True) if data is not None}
    return {name: state for name, state in states.items() if state is not None}


def _decoded(data: bytes) -> EndpointState | None:
    try:
        found: Any = json.loads(data)
        return EndpointState(
            str(found.get("labeler", "judge")),
            str(found["model"]),
            found["paused"] is True,
            found["busy"] is True,
            str(found["last_error"])[:1000],
            str(found.get("over_budget", "")),
            str(found.get("adapted", ""))[:1000],
            int(found.get("in_flight", 0)),
            int(found.get("calls_allowed", 0)),
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
    found = cast("list[bytes | None]", await redis.mget(hour, day))
    return EndpointSpend(*(float(amount or 0) for amount in found))


def spend_periods(now: datetime) -> tuple[str, str]:
    """Return the names of the clock hour and of the day in keys."""
    return now.strftime("%Y%m%d%H"), now.strftime("%Y%m%d")
