"""Reads for the page what is known of the judge and of services."""

import re
from collections import defaultdict
from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.agreement.kept import LabelerKappa, labeler_kappas
from ragtide_runtime.calls.endpoint_states import EndpointState, read_calls
from ragtide_runtime.redis.keys import SPECIMEN_JUDGED
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, utc_now

from .screen import HOURS, EndpointView, endpoint_view

KAPPA_PIPELINES: Final = 50
"""Most pipelines whose kept items are read for kappa: decoding those of a pipeline takes tenths of a second."""
KAPPA_FRESH_S: Final = 300.0
"""Seconds for which kappa is shown before it is computed again."""

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


async def read_kappas(redis: Redis, deployment: Deployment) -> list[LabelerKappa]:
    """Return the agreement of labelers on the kept items that chance drew for both, of the pipelines with most of them.

    Raises:
        redis.RedisError: Redis failed.
    """
    kept = KeptSpecimens(redis, deployment.settings.layout)
    counts = {name: (await kept.lists(name)).get(SPECIMEN_JUDGED, 0) for name in await kept.pipelines()}
    most = sorted((name for name, count in counts.items() if count), key=lambda name: (-counts[name], name))
    return [one for name in most[:KAPPA_PIPELINES] for one in labeler_kappas(await kept.judged(name))]


async def read_paired(_: Redis, deployment: Deployment) -> list[Estimate]:
    """Return the prediction-powered means of whole pipelines; they need the whole state.

    Raises:
        CheckpointError: a checkpoint cannot be read.
        redis.RedisError: Redis failed.
    """
    everything = await deployment.estimates(windows=False)
    return [one for one in everything if one.estimator == "prediction_powered" and one.segment is None]
