"""Reads for the page what is known of the judge and of services."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.endpoint_calls import read_calls
from ragtide_runtime.endpoint_states import EndpointState
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, utc_now

from .judge import EndpointView, endpoint_view

FRESH_S: Final = 30.0
"""Seconds for which paired estimates are shown before they are computed again; they need the whole state."""


_NAME: Final = re.compile("[a-z][a-z0-9_]{0,63}")


async def read_endpoints(redis: Redis, deployment: Deployment, settings: Settings) -> list[EndpointView]:
    """Return the judge and every service that is configured, was called in the last month, or is called now.

    Raises:
        redis.RedisError: Redis failed.
    """
    states: defaultdict[str, dict[str, EndpointState]] = defaultdict(dict)
    for process, state in (await deployment.endpoints()).items():
        if _NAME.fullmatch(state.labeler):  # any client may write to Redis
            states[state.labeler][process] = state
    found = []
    for name in dict.fromkeys(("judge", *settings.services, *sorted(states))):
        remote = settings.judge if name == "judge" else settings.services.get(name)
        model = remote.model if remote is not None else None
        history = await read_calls(redis, settings.prefix, name, now=utc_now())
        if name != "judge" or model or states[name] or any(history.days.values()):
            spend = await deployment.spend(name)
            found.append(endpoint_view(name, remote, history, model=model or "", spend=spend, states=states[name]))
    return found


class PairedEstimates:
    """The estimates from pairs of two labelers, computed at most every `FRESH_S` seconds.

    Args:
        deployment: read model.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, clock: Callable[[], float] | None = None) -> None:
        self._deployment = deployment
        self._clock = clock
        self._lock = asyncio.Lock()
        self._found: Sequence[Estimate] = ()
        self._read_at = float("-inf")

    async def read(self) -> Sequence[Estimate]:
        """Return the prediction-powered means of whole pipelines.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            redis.RedisError: Redis failed.
        """
        now = (self._clock or asyncio.get_running_loop().time)()
        async with self._lock:
            if now - self._read_at >= FRESH_S:
                everything = await self._deployment.estimates(windows=False)
                self._found = [one for one in everything if one.estimator == "prediction_powered" and not one.segment]
                self._read_at = now
        return self._found
