"""Reads for the page what is known of the judge and of services."""

import re
from collections import defaultdict
from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.endpoint_calls import read_calls
from ragtide_runtime.endpoint_states import EndpointState
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, utc_now

from .judge import HOURS, EndpointView, endpoint_view

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
        history = await read_calls(redis, settings.prefix, name, now=utc_now(), hours=HOURS)
        if name != "judge" or model or states[name] or any(history.days.values()):
            spend = await deployment.spend(name)
            found.append(endpoint_view(name, remote, history, model=model or "", spend=spend, states=states[name]))
    return found


async def read_paired(_: Redis, deployment: Deployment) -> list[Estimate]:
    """Return the prediction-powered means of whole pipelines; they need the whole state.

    Raises:
        CheckpointError: a checkpoint cannot be read.
        redis.RedisError: Redis failed.
    """
    everything = await deployment.estimates(windows=False)
    return [one for one in everything if one.estimator == "prediction_powered" and one.segment is None]
