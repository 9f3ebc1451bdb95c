"""`GET /`: the fleet."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.errors import CheckpointError, DamagedFieldError, TooManySegmentsError
from ragtide_aggregator.reading.partitions import RunningRoles
from ragtide_aggregator.reading.versions import Deploy
from ragtide_runtime.calls.endpoint_states import read_calls
from ragtide_runtime.settings.serve import DEFAULT_PORT
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.alert_rule import SEVERITIES
from ragtide_schemas.alert_text import AlertText
from ragtide_schemas.headline import HEADLINE_STATES

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ...proxy import address_seen
from ..alerts.texts import alert_texts, visible_alerts
from ..dead_letters.screen import may_see
from ..rendering import PageContent, lasting, render
from ..shown_headlines import CHOICES
from ..viewers import Reader, Viewer
from .history import Sparkline
from .screen import Fleet, fleet

IN_VIEW: Final = 50
"""Pipelines on one page."""
LARGE: Final = 2_000
"""Headlines from which on they are put in order in a thread: in the event loop they would hold other requests up."""

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
    range: str = ""
    """Name of a range; empty for the default range."""
    first: int = 0
    """Place of the first pipeline in view, from 0."""

    @property
    def scope(self) -> str | None:
        """The segment value; None for whole pipelines."""
        return self.segment or None


async def _filter(  # noqa: PLR0917 - each parameter of the address is described here
    metric: Annotated[
        list[str] | None, Query(max_length=20, description="Metrics with a column; the most important unless given.")
    ] = None,
    state: Annotated[str, Query(max_length=40, description="Only pipelines in this state, such as `firing`.")] = "",
    q: Annotated[str, Query(max_length=200, description="Only pipelines whose name contains this text.")] = "",
    pipeline: Annotated[str, Query(max_length=1000, description="Only this pipeline.")] = "",
    segment: Annotated[
        str, Query(max_length=1000, description="Numbers of this segment value, such as `lang=de`.")
    ] = "",
    span: Annotated[str, Query(alias="range", max_length=10, description="`1h`, `24h`, `7d`, `60d` or `all`.")] = "",
    first: Annotated[int, Query(ge=0, le=1_000_000, description="Place of the first pipeline, from 0.")] = 0,
) -> FleetChoice:
    return FleetChoice(
        tuple(metric or ()),
        state if state in HEADLINE_STATES else "",
        q,
        pipeline,
        segment.strip(),
        span if span in CHOICES else "",
        first,
    )


FleetFilter = Annotated[FleetChoice, Depends(_filter)]


def filter_of(chosen: FleetChoice) -> tuple[object, ...]:
    """Return the filters as a value that identifies them."""
    return tuple(chosen)


async def fleet_of(shared: Context, viewer: Viewer, chosen: FleetChoice, limit: int | None = IN_VIEW) -> Fleet:
    """Return the fleet that a viewer may see.

    Args:
        shared: objects of the service.
        viewer: who looks.
        chosen: the filters.
        limit: most rows; None for all.
    """
    headlines = await shared.shown.read(chosen.range, chosen.scope)
    alerts = await visible_alerts(shared, viewer)
    if chosen.scope is not None:
        alerts = [alert for alert in alerts if alert.segment == chosen.scope]

    def draw() -> Fleet:
        allowed = {name: viewer.may_use(name) for name in {headline.pipeline for headline in headlines}}
        return fleet(
            (
                headline
                for headline in headlines
                if allowed[headline.pipeline] and chosen.pipeline in ("", headline.pipeline)
            ),
            alerts,
            metrics=chosen.metrics,
            state=chosen.state,
            text=chosen.text,
            first=chosen.first,
            limit=limit,
        )

    return await asyncio.to_thread(draw) if len(headlines) > LARGE else draw()


async def _judge_today(shared: Context) -> float:
    """Return the dollars of the judge today: of the account of its limit if there is one, else as counted."""
    spend = await shared.deployment.spend()
    if spend.day_usd:
        return spend.day_usd
    counted = await read_calls(shared.redis, shared.settings.prefix, "judge", now=utc_now(), hours=0, days=1)
    return sum(day.cost_usd for day in counted.days.values())


class Facts(NamedTuple):
    """Numbers beside the pipelines. Those of the whole deployment are None for a user of some pipelines."""

    letters: int
    """Dead letters, of the pipelines that the user may see."""
    waiting: int | None = None
    oldest: str = ""
    judge_today: float | None = None
    limit: float | None = None


class FirstContact(NamedTuple):
    """What a reader needs to send the first interaction, while no pipeline has a score."""

    address: str
    """Of this service, as the browser sees it."""
    needs_token: bool
    """Whether a request must carry a token."""
    has_default_address: bool
    """Whether `ragtide.otel.configure` finds this service by itself."""
    running: RunningRoles


@dataclass(frozen=True, slots=True)
class FleetContent(PageContent):
    """The screen of all pipelines."""

    template = "fleet.html"
    fleet: Fleet
    sparklines: Mapping[str, Sparkline]
    """Drawings by pipeline."""
    deploys: Mapping[str, Deploy]
    """Newest versions by pipeline."""
    without_segment: str
    """Query of the same screen for whole pipelines."""
    chosen: FleetChoice
    firing: Sequence[Alert]
    recent: Sequence[AlertText]
    """Alerts beside the pipelines: those that fire, and the newest resolved ones."""
    facts: Facts
    first: FirstContact | None
    """Only for a deployment without a score."""
    before: str | None
    """Query of the page before; None without one."""
    after: str | None
    """Query of the next page; None without one."""
    states: Sequence[str] = HEADLINE_STATES
    ranges: Sequence[str] = CHOICES


async def _facts(shared: Context, viewer: Viewer) -> Facts:
    if viewer.patterns:
        indexed = await shared.letters.read()
        return Facts(sum(may_see(viewer, letter) for letter in indexed.letters))
    backlog = await shared.deployment.backlog()
    return Facts(
        letters=sum(partition.lengths["dead_letters"] for partition in backlog),
        waiting=sum(partition.waiting for partition in backlog),
        oldest=lasting(max((partition.oldest_s for partition in backlog), default=0.0)),
        judge_today=await _judge_today(shared),
        limit=shared.settings.judge.spend_per_day_usd,
    )


async def _first_contact(request: Request, shared: Context, chosen: FleetChoice) -> FirstContact | None:
    """Return what the empty screen shows; None if only a filter makes it empty."""
    if chosen.text or chosen.state or chosen.segment:
        return None
    address = address_seen(request)
    return FirstContact(
        address,
        needs_token=bool(shared.settings.serve.tokens),
        has_default_address=address in (f"http://{host}:{DEFAULT_PORT}" for host in ("127.0.0.1", "localhost")),
        running=RunningRoles.of(await shared.deployment.partitions()),
    )


@router.get("/")
async def get_fleet(request: Request, shared: Shared, viewer: Reader, chosen: FleetFilter) -> Response:
    """Show all pipelines, the worst first."""
    # Only some segments have a history.
    has_history = not chosen.segment or chosen.segment.partition("=")[0] in shared.settings.history.segments
    try:
        drawn = await fleet_of(shared, viewer, chosen)
        alerts = await visible_alerts(shared, viewer)
        firing = [alert for alert in alerts if alert.status != "resolved"]
        firing.sort(key=lambda alert: SEVERITIES.index(alert.severity))
        resolved = [alert for alert in alerts if alert.status == "resolved"]
        recent = await alert_texts(shared, firing[:20] + resolved[: max(0, 8 - len(firing))])
        facts = await _facts(shared, viewer)
        first = await _first_contact(request, shared, chosen) if not drawn.rows else None
        sparklines = await shared.sparklines.read(
            (
                (row.pipeline, cell.metric, cell.headline.labeler)
                for row in drawn.rows
                if has_history and (cell := next(iter(row.worst_first), None)) is not None
            ),
            chosen.scope,
        )
        deploys = await shared.deployment.deploys()
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except (CheckpointError, DamagedFieldError, TooManySegmentsError) as error:
        raise HttpProblem(503, f"{error}") from None
    query = [
        ("q", chosen.text),
        ("state", chosen.state),
        ("segment", chosen.segment),
        ("range", chosen.range),
        *(("metric", name) for name in chosen.metrics),
    ]
    content = FleetContent(
        fleet=drawn,
        before=urlencode([*query, ("first", max(drawn.first - IN_VIEW, 0))]) if drawn.first else None,
        after=urlencode([*query, ("first", drawn.first + IN_VIEW)]) if drawn.first + IN_VIEW < drawn.total else None,
        sparklines=sparklines,
        deploys=deploys,
        without_segment=urlencode([(name, value) for name, value in query if name != "segment"]),
        chosen=chosen,
        firing=firing,
        recent=recent,
        facts=facts,
        first=first,
    )
    return render(request, viewer, content)
