"""`GET /`: the fleet."""

from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.errors import CheckpointError, TooManySegmentsError
from ragtide_runtime.calls.endpoint_states import read_calls
from ragtide_schemas import Alert, utc_now

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..dead_letters.screen import may_see
from ..rendering import lasting, render
from ..viewers import Reader, Viewer
from .screen import STATES, Fleet, fleet

router = APIRouter(include_in_schema=False)


class FleetChoice(NamedTuple):
    """The filters in the address."""

    metrics: tuple[str, ...]
    state: str
    text: str
    pipeline: str
    """Exact name of one pipeline; empty for all."""
    segment: str = ""
    """Segment value such as `lang=de`; empty for whole pipelines."""

    @property
    def scope(self) -> str | None:
        """The segment value; None for whole pipelines."""
        return self.segment or None


async def _filter(
    metric: Annotated[list[str] | None, Query(max_length=20)] = None,
    state: Annotated[str, Query(max_length=40)] = "",
    q: Annotated[str, Query(max_length=200)] = "",
    pipeline: Annotated[str, Query(max_length=1000)] = "",
    segment: Annotated[str, Query(max_length=1000)] = "",
) -> FleetChoice:
    return FleetChoice(tuple(metric or ()), state if state in STATES else "", q, pipeline, segment.strip())


FleetFilter = Annotated[FleetChoice, Depends(_filter)]


def filter_of(chosen: FleetChoice) -> tuple[object, ...]:
    """Return the filters as a value that identifies them."""
    return tuple(chosen)


async def fleet_of(shared: Context, viewer: Viewer, chosen: FleetChoice) -> Fleet:
    """Return the fleet that a viewer may see."""
    means = await shared.deployment.means(chosen.scope)
    alerts = await visible_alerts(shared, viewer)
    if chosen.scope is not None:
        alerts = [one for one in alerts if one.segment == chosen.scope]
    return fleet(
        (one for one in means if viewer.may_use(one.pipeline) and chosen.pipeline in ("", one.pipeline)),
        alerts,
        metrics=chosen.metrics,
        state=chosen.state,
        text=chosen.text,
        now=utc_now(),
        # Suspicions are of rules on whole pipelines.
        suspicions=await shared.deployment.suspicions() if chosen.scope is None else (),
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


class Facts(NamedTuple):
    """Numbers beside the pipelines. Those of the whole deployment are None for a user of some pipelines."""

    letters: int
    """Dead letters, of the pipelines that the user may see."""
    waiting: int | None = None
    oldest: str = ""
    judge_today: float | None = None
    limit: float | None = None


async def _facts(shared: Context, viewer: Viewer) -> Facts:
    if viewer.patterns:
        indexed = await shared.letters.read()
        return Facts(sum(may_see(viewer, one) for one in indexed.letters))
    backlog = await shared.deployment.backlog()
    return Facts(
        letters=sum(one.lengths["dead_letters"] for one in backlog),
        waiting=sum(one.waiting for one in backlog),
        oldest=lasting(max((one.oldest_s for one in backlog), default=0.0)),
        judge_today=await _judge_today(shared),
        limit=shared.settings.judge.spend_per_day_usd,
    )


@router.get("/")
async def get_fleet(request: Request, shared: Shared, viewer: Reader, chosen: FleetFilter) -> Response:
    """Show all pipelines, the worst first."""
    # Only some segments have a history.
    has_history = not chosen.segment or chosen.segment.partition("=")[0] in shared.settings.history.segments
    try:
        drawn = await fleet_of(shared, viewer, chosen)
        alerts = await visible_alerts(shared, viewer)
        facts = await _facts(shared, viewer)
        sparklines = await shared.sparklines.read(
            (
                (row.pipeline, cell.metric, cell.labeler)
                for row in drawn.rows
                if has_history and (cell := next(iter(row.cells.values()), None)) is not None
            ),
            chosen.scope,
        )
        trends = await shared.trends.read(
            (row.pipeline, cell.metric, cell.labeler, chosen.scope)
            for row in drawn.rows
            for cell in row.cells.values()
            if has_history
        )
        deploys = await shared.deploys.read()
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except (CheckpointError, TooManySegmentsError) as error:
        raise HttpProblem(503, f"{error}") from None
    firing = [one for one in alerts if one.status != "resolved"]
    return render(
        request,
        viewer,
        "fleet.html",
        fleet=drawn,
        sparklines=sparklines,
        trends=trends,
        deploys=deploys,
        without_segment=urlencode(
            [("q", chosen.text), ("state", chosen.state), *(("metric", name) for name in chosen.metrics)]
        ),
        chosen=chosen,
        states=STATES,
        firing=firing,
        recent=firing[:20] + [one for one in alerts if one.status == "resolved"][: max(0, 8 - len(firing))],
        facts=facts,
    )
