"""`GET /judge`: dollars, calls, share judged and agreement of the judge and of services."""

import re
from collections import defaultdict
from typing import Final, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.statistics.drift.sights import Sight
from ragtide_roles.judge_setup.own_traffic import read_own_traffic
from ragtide_roles.judge_setup.setting_up import USUAL_KAPPA, offered_rates
from ragtide_roles.kept.kappas import LEAST_ITEMS, LabelerKappa, labeler_kappas
from ragtide_runtime.calls.endpoint_states import EndpointState, read_calls
from ragtide_runtime.redis.keys import SPECIMEN_JUDGED
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, utc_now

from ...guard.viewers import Reader
from ...reading.context import Shared
from ..rendering import render
from .screen import (
    HOURS,
    ROWS,
    EndpointView,
    agreement_rows,
    endpoint_view,
    gold_error_rows,
    pipeline_usage,
    self_consistency_rows,
)

KAPPA_PIPELINES: Final = 50
"""Most pipelines whose kept items are read for kappa: decoding those of a pipeline takes tenths of a second."""
KAPPA_FRESH_S: Final = 300.0
"""Seconds for which kappa is shown before it is computed again."""

_NAME: Final = re.compile("[a-z][a-z0-9_]{0,63}")

router = APIRouter(include_in_schema=False)


async def read_endpoints(redis: Redis, deployment: Deployment, settings: Settings) -> list[EndpointView]:
    """Return the judge and every service that is configured, was called in the last month, or is called now.

    Raises:
        redis.RedisError: Redis failed.
    """
    states: defaultdict[str, dict[str, EndpointState]] = defaultdict(dict)
    for process, state in (await deployment.endpoints()).items():
        if _NAME.fullmatch(state.labeler):  # any client may write to Redis
            states[state.labeler][process] = state
    views = []
    for name in dict.fromkeys(("judge", *settings.services, *sorted(states))):
        remote = settings.judge if name == "judge" else settings.services.get(name)
        model = remote.model if remote is not None else None
        history = await read_calls(redis, settings.prefix, name, now=utc_now(), hours=HOURS)
        if name != "judge" or model or states[name] or any(history.days.values()):
            spend = await deployment.spend(name)
            views.append(endpoint_view(name, remote, history, model=model or "", spend=spend, states=states[name]))
    return views


async def read_kappas(redis: Redis, deployment: Deployment) -> list[LabelerKappa]:
    """Return the agreement of labelers on kept items drawn at random for both, of the pipelines with most of them.

    Raises:
        redis.RedisError: Redis failed.
    """
    kept = KeptSpecimens(redis, deployment.settings.layout)
    counts = {name: (await kept.lists(name)).get(SPECIMEN_JUDGED, 0) for name in await kept.pipelines()}
    most = sorted((name for name, count in counts.items() if count), key=lambda name: (-counts[name], name))
    return [kappa for name in most[:KAPPA_PIPELINES] for kappa in labeler_kappas(await kept.judged(name))]


async def read_paired(_: Redis, deployment: Deployment) -> list[Estimate]:
    """Return the prediction-powered means of whole pipelines; they need the whole state.

    Raises:
        CheckpointError: a checkpoint cannot be read.
        redis.RedisError: Redis failed.
    """
    everything = await deployment.estimates(windows=False)
    return [
        estimate for estimate in everything if estimate.estimator == "prediction_powered" and estimate.segment is None
    ]


class JudgeOffer(NamedTuple):
    """What a judge of a sample would cost and see, while there is none."""

    model: str
    """The model that a setup would choose."""
    answers_per_day: float | None
    """Answers of all pipelines at the traffic of now; None if they are not known."""
    rates: tuple[Sight, ...]
    priced_items: int
    """Kept answers whose texts the prices are of; 0 if they are those of the test item."""
    kappa: float = USUAL_KAPPA
    """Assumed agreement with people."""


async def _offer(redis: Redis, deployment: Deployment, settings: Settings) -> JudgeOffer:
    traffic = await read_own_traffic(redis, deployment)
    model, rates = await offered_rates(settings, traffic)
    return JudgeOffer(model, traffic.answers_per_day, rates, len(traffic.items))


@router.get("/judge")
async def get_judge(request: Request, shared: Shared, viewer: Reader) -> Response:
    """Show the judge and the services that labelers call."""
    endpoints = None if viewer.patterns else await read_endpoints(shared.redis, shared.deployment, shared.settings)
    overview = [mean for mean in await shared.deployment.overview() if viewer.may_use(mean.pipeline)]
    paired = await shared.paired.read()
    kappas = await shared.kappas.read()
    usage, consistency, errors = pipeline_usage(overview), self_consistency_rows(overview), gold_error_rows(overview)
    agreement = agreement_rows(mean for mean in paired.value or () if viewer.may_use(mean.pipeline))
    kappa_rows = [kappa for kappa in kappas.value or () if viewer.may_use(kappa.pipeline)][:ROWS]
    return render(
        request,
        viewer,
        "judge.html",
        endpoints=endpoints,
        offer=await _offer(shared.redis, shared.deployment, shared.settings) if endpoints == [] else None,
        usage=usage,
        paired=paired,
        agreement=agreement,
        kappas=kappas,
        kappa_rows=kappa_rows,
        consistency=consistency,
        errors=errors,
        has_judge=endpoints is None or bool(endpoints),
        least_items=LEAST_ITEMS,
    )
