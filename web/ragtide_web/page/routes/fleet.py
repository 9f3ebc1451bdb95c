"""`GET /`: the fleet."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.errors import CheckpointError
from ragtide_runtime.endpoint_calls import read_calls
from ragtide_schemas import Alert, utc_now

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..fleet import STATES, Fleet, fleet
from ..rendering import lasting, render
from ..viewers import Reader, Viewer

router = APIRouter(include_in_schema=False)


class FleetChoice(NamedTuple):
    """The filters in the address."""

    metrics: tuple[str, ...]
    state: str
    text: str
    pipeline: str
    """Exact name of one pipeline; empty for all."""


async def _filter(
    metric: Annotated[list[str] | None, Query(max_length=20)] = None,
    state: Annotated[str, Query(max_length=40)] = "",
    q: Annotated[str, Query(max_length=200)] = "",
    pipeline: Annotated[str, Query(max_length=1000)] = "",
) -> FleetChoice:
    return FleetChoice(tuple(metric or ()), state if state in STATES else "", q, pipeline)


FleetFilter = Annotated[FleetChoice, Depends(_filter)]


def filter_of(chosen: FleetChoice) -> tuple[object, ...]:
    """Return the filters as a value that identifies them."""
    return tuple(chosen)


async def fleet_of(shared: Context, viewer: Viewer, chosen: FleetChoice) -> Fleet:
    """Return the fleet that a viewer may see."""
    means = await shared.deployment.means()
    alerts = await visible_alerts(shared, viewer)
    return fleet(
        (one for one in means if viewer.may_use(one.pipeline) and chosen.pipeline in ("", one.pipeline)),
        alerts,
        metrics=chosen.metrics,
        state=chosen.state,
        text=chosen.text,
        now=utc_now(),
        suspicions=await shared.deployment.suspicions(),
    )


async def visible_alerts(shared: Context, viewer: Viewer) -> list[Alert]:
    """Return the alerts that a viewer may see, in their latest state, the newest first."""
    return [one for one in reversed(await shared.deployment.alerts()) if viewer.may_use(one.pipeline)]


async def _judge_today(shared: Context) -> float:
    """Return the dollars of the judge today: of the account of its limit if there is one, else as counted."""
    spend = await shared.deployment.spend()
    if spend.day_usd:
        return spend.day_usd
    counted = await read_calls(shared.redis, shared.settings.prefix, "judge", now=utc_now(), hours=0, days=1)
    return sum(one.cost_usd for one in counted.days.values())


@router.get("/")
async def get_fleet(request: Request, shared: Shared, viewer: Reader, chosen: FleetFilter) -> Response:
    """Show all pipelines, the worst first."""
    try:
        drawn = await fleet_of(shared, viewer, chosen)
        alerts = await visible_alerts(shared, viewer)
        backlog = await shared.deployment.backlog()
        sparklines = await shared.sparklines.read(
            (row.pipeline, cell.metric, cell.labeler)
            for row in drawn.rows
            if (cell := next(iter(row.cells.values()), None)) is not None
        )
        judge_today = await _judge_today(shared)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except CheckpointError as error:
        raise HttpProblem(503, f"{error}") from None
    firing = [one for one in alerts if one.status != "resolved"]
    return render(
        request,
        viewer,
        "fleet.html",
        fleet=drawn,
        sparklines=sparklines,
        chosen=chosen,
        states=STATES,
        firing=firing,
        recent=firing[:20] + [one for one in alerts if one.status == "resolved"][: max(0, 8 - len(firing))],
        waiting=sum(one.waiting for one in backlog),
        oldest=lasting(max((one.oldest_s for one in backlog), default=0.0)),
        letters=sum(one.lengths["dead_letters"] for one in backlog),
        judge_today=judge_today,
        limit=shared.settings.judge.spend_per_day_usd,
    )
