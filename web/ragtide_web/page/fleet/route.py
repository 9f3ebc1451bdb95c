"""`GET /`: the fleet."""

from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ragtide_aggregator.reading.partitions import RunningRoles
from ragtide_runtime.calls.endpoint_states import read_calls
from ragtide_runtime.settings.serve import DEFAULT_PORT
from ragtide_schemas import utc_now
from ragtide_schemas.alert_rule import SEVERITIES
from ragtide_schemas.headline import HEADLINE_STATES

from ...guard.proxy import address_seen
from ...guard.viewers import Reader
from ...reading.alerts import alert_texts, visible_alerts
from ...reading.context import Context, Shared
from ...reading.dead_letters import seen_by
from ...reading.fleet import IN_VIEW, FleetChoice, FleetFilter, fleet_of, worst_first
from ...reading.headlines import CHOICES
from ...reading.item_lists import duration_text
from ..release_card import release_card, released_pipelines
from ..rendering import render

ADHERENCE: Final = "trace.adherence"
"""The metric whose falls the local labeler hardly sees."""

router = APIRouter(include_in_schema=False)


async def _judge_today(shared: Context) -> float:
    spend = await shared.deployment.spend()
    if spend.day_usd:
        return spend.day_usd
    counted = await read_calls(shared.redis, shared.settings.prefix, "judge", now=utc_now(), hours=0, days=1)
    return sum(day.cost_usd for day in counted.days.values())


class FirstContact(NamedTuple):
    """What a reader needs to send the first interaction, while no pipeline has a score."""

    address: str
    """Of this service, as the browser sees it."""
    needs_token: bool
    """Whether a request must carry a token."""
    has_default_address: bool
    """Whether `ragtide.otel.configure` finds this service by itself."""
    running: RunningRoles


async def _first_contact(request: Request, shared: Context, chosen: FleetChoice) -> FirstContact | None:
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
    drawn = await fleet_of(shared, viewer, chosen)
    alerts = await visible_alerts(shared, viewer)
    firing = [alert for alert in alerts if alert.status != "resolved" and not alert.is_news]
    firing.sort(key=lambda alert: SEVERITIES.index(alert.severity))
    others = [alert for alert in alerts if alert.status == "resolved" or alert.is_news]
    recent = await alert_texts(shared, firing[:20] + others[: max(0, 8 - len(firing))])
    whole = not viewer.patterns  # these numbers are of the whole deployment
    backlogs = await shared.deployment.backlog() if whole else []
    first = await _first_contact(request, shared, chosen) if not drawn.rows else None
    sparklines = await shared.sparklines.read(
        (
            (row.pipeline, worst.metric, worst.labeler)
            for row in drawn.rows
            for worst in worst_first(row)[: int(has_history)]
        ),
        chosen.scope,
    )
    deploys = await shared.deployment.deploys()
    query = [
        ("q", chosen.text),
        ("state", chosen.state),
        ("segment", chosen.segment),
        ("range", chosen.range),
        *(("metric", name) for name in chosen.metrics),
    ]
    return render(
        request,
        viewer,
        "fleet.html",
        fleet=drawn,
        before=urlencode([*query, ("first", max(drawn.first - IN_VIEW, 0))]) if drawn.first else None,
        after=urlencode([*query, ("first", drawn.first + IN_VIEW)]) if drawn.first + IN_VIEW < drawn.total else None,
        sparklines=sparklines,
        deploys=deploys,
        releases={name: release_card(release) for name, release in released_pipelines(alerts).items()},
        without_segment=urlencode([(name, value) for name, value in query if name != "segment"]),
        chosen=chosen,
        firing=firing,
        recent=recent,
        letters=sum(backlog.lengths["dead_letters"] for backlog in backlogs)
        if whole
        else len(seen_by(viewer, await shared.letters.read()).letters),
        waiting=sum(backlog.waiting for backlog in backlogs) if whole else None,
        oldest=duration_text(max((backlog.oldest_s for backlog in backlogs), default=0.0)),
        judge_today=await _judge_today(shared) if whole else None,
        limit=shared.settings.judge.spend_per_day_usd,
        first=first,
        # Another process may have settings of its own, so the numbers decide, too.
        without_judge=whole
        and shared.settings.labelers == ("local",)
        and {number.labeler for row in drawn.rows for number in row.headlines if number.metric == ADHERENCE}
        == {"local"},
        states=HEADLINE_STATES,
        ranges=CHOICES,
    )
