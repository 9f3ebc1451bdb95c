"""`/a`: alerts; one alert with its change, its causes, its items and its orders."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.notify.grouping import NotificationGroup
from ragtide_consumers.notify.outbox import GROUP
from ragtide_consumers.notify.silences import Silence, acknowledge, add_silence, new_silence_id
from ragtide_roles.kept.choosing import chosen_of_alert
from ragtide_runtime.settings_reports import destinations_in_force, read_reports
from ragtide_schemas import Alert, RagInteraction, Specimen, utc_now
from ragtide_schemas.alert_text import AlertText
from ragtide_schemas.base import describe
from ragtide_schemas.details import KeptItem

from ...guard.headers import HEADERS
from ...guard.orders import form_of, reason_in, record_order, same_site
from ...guard.problems import HttpProblem
from ...guard.viewers import Operator, Reader, Viewer
from ...reading.alerts import alert_texts, alert_with_items, find_alert, visible_alerts
from ...reading.bands import LEAST_N, BandChart, Level, Mark, chart_start
from ...reading.context import Context, Shared
from ...reading.items import item_view
from ...reading.rule_replays import ReplayIsRunningError, ReplayOrder, rule_of
from ..data_set import data_set
from ..release_card import release_card
from ..rendering import render
from .screen import REPLAYS, SILENCES, EvidenceChart, alert_list, chart_range, timeline

POINTS_MAX = 200

ANSWER_CHARS: Final = 900
"""Most characters of the texts of an answer beside others."""

router = APIRouter(include_in_schema=False)


@router.get("/a")
@router.get("/a/")
async def get_alerts(
    request: Request,
    shared: Shared,
    viewer: Reader,
    state: Annotated[str, Query(max_length=20, description="Only alerts in this state: `firing` or `resolved`.")] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000, description="Page of the list, from 1.")] = 1,
) -> Response:
    """Show the alerts, those that fire first."""
    alerts = await visible_alerts(shared, viewer)
    listed = alert_list(alerts, state=state, page=page)
    texts = await alert_texts(shared, listed.rows)
    firing = sum(alert.status != "resolved" and not alert.is_news for alert in alerts)
    return render(request, viewer, "alerts.html", listed=listed, texts=texts, state=state, firing=firing)


async def _alert_page(
    request: Request, shared: Context, viewer: Viewer, alert_id: str, *, status: int = 200, problem: str = ""
) -> Response:
    alert, now = await find_alert(shared, viewer, alert_id), utc_now()
    parts = await alert_with_items(shared, alert, now, texts=viewer.sees_texts)
    text, muted = parts.text, parts.muted
    worst = [_worst_answer(viewer, alert, specimen) for kept in parts.specimens.values() for specimen in kept]
    replay, evidence = shared.rule_replays.of(alert.alert_id), None
    if replay is not None and replay.result is not None and any(point.once_in for point in replay.result.points):
        evidence = EvidenceChart(replay.result.points, replay.order.start, replay.order.end)
    return render(
        request,
        viewer,
        "alert.html",
        status=status,
        alert=alert,
        text=text,
        card=None if alert.release is None else release_card(alert.release),
        problem=problem,
        chart=await _chart(shared, text, now),
        timeline=timeline(
            alert,
            acknowledged=muted.acknowledged.get(alert.alert_id),
            silences=[silence for silence in muted.silences if silence.silences(alert, now)],
            sent=await _sent_at(shared, alert.alert_id),
        ),
        worst=worst,
        marks_support=is_about_support(alert),
        not_kept=parts.not_kept,
        notifies=bool(destinations_in_force(shared.settings, await read_reports(shared.redis, shared.settings.prefix))),
        query={"alert": alert.alert_id},
        replay=replay,
        evidence=evidence,
        replayed_rule=rule_of(shared.settings, alert),
        recording=None if shared.laboratory is None else shared.settings.recorder.url,
        lengths=tuple(SILENCES),
        replay_lengths=tuple(REPLAYS),
    )


def _worst_answer(
    viewer: Viewer, alert: Alert, specimen: Specimen
) -> tuple[RagInteraction, KeptItem, float | None, str | None]:
    """Return an answer, its texts with marks, its score of the alert's metric, and the judge's reason of the score."""
    view = item_view(
        specimen,
        alert.labeler,
        sees_texts=viewer.sees_texts,
        chars=ANSWER_CHARS,
        marks_support=is_about_support(alert),
    )
    reason = specimen.reason_of(alert) if viewer.sees_texts else None
    return specimen.interaction, view, specimen.score_of(alert), reason


def is_about_support(alert: Alert) -> bool:
    """Return whether marks of supported sentences explain the scores that an alert is about."""
    return alert.metric.partition(".")[0] in ("trace", "sentences", "ragchecker")


async def _chart(shared: Context, text: AlertText, now: datetime) -> BandChart | None:
    alert = text.alert
    if alert.observed is None or alert.run is not None:
        return None
    start, end = chart_range(alert, now)
    histories: Sequence[History] = await shared.deployment.history(
        alert.pipeline,
        alert.metric,
        start=start,
        end=end,
        points_max=POINTS_MAX,
        segment=alert.segment,
        labeler=alert.labeler,
        labeler_version=alert.labeler_version,
        profile=alert.profile,
        least_n=LEAST_N,
        apart=[text.began_at],
    )
    history = next((candidate for candidate in histories if candidate.points), None)
    if history is None:
        return None
    start = chart_start(history, start)
    lowest, highest = history.key.value_range
    is_mean = alert.quantity == "mean"
    marks = [
        Mark(at, kind, "")
        for kind, at in (("began", text.began_at), ("fired", text.fired_at), ("resolved", text.resolved_at))
        if at is not None and start <= at < end and not (kind == "began" and alert.began_at is None)
    ]
    levels = []
    if is_mean and text.from_value is not None and text.to_value is not None:
        until = min(text.resolved_at or end, end)
        levels = [Level(text.began_at, max(until, text.began_at), text.to_value, "since")]
        if alert.baseline_source != "target":  # a target says nothing about the level before
            levels.append(Level(start, text.began_at, text.from_value, "before"))
    return BandChart(
        points=history.points,
        start=start,
        end=end,
        lowest=lowest,
        highest=highest,
        target=alert.baseline if is_mean and alert.baseline_source == "target" else None,
        marks=marks,
        levels=levels,
        changed_at=text.began_at if alert.status != "resolved" else None,
    )


async def _sent_at(shared: Context, alert_id: str) -> Mapping[str, datetime]:
    sent: dict[str, datetime] = {}
    for streams in shared.settings.layout.all():
        async for name, data in shared.redis.hscan_iter(streams.outbox, match=f"{GROUP}*", count=1000):
            if alert_id.encode() not in data:
                continue
            try:
                group = NotificationGroup.model_validate_json(data)
            except ValidationError:  # the notifier reports it
                continue
            del name
            if alert_id in group.members and group.last_sent_ms is not None:
                sent[group.destination] = datetime.fromtimestamp(group.last_sent_ms / 1000, UTC)
    return sent


@router.get("/a/{alert_id:path}/dataset")
async def get_dataset(shared: Shared, viewer: Reader, alert_id: str) -> Response:
    """Return the kept items that an alert names, as a data set of JSON lines."""
    alert = await find_alert(shared, viewer, alert_id)
    chosen = await chosen_of_alert(KeptSpecimens(shared.redis, shared.settings.layout), alert)
    return data_set(viewer, chosen.chosen, alert_id)


@router.get("/a/{alert_id:path}")
async def get_alert(request: Request, shared: Shared, viewer: Reader, alert_id: str) -> Response:
    """Show one alert."""
    return await _alert_page(request, shared, viewer, alert_id)


@router.post("/a/{alert_id:path}/acknowledge", dependencies=[Depends(same_site)])
async def post_acknowledge(request: Request, shared: Shared, viewer: Operator, alert_id: str) -> Response:
    """Acknowledge an alert: no message repeats it while it fires."""
    return await _ordered(request, shared, viewer, alert_id, "acknowledge")


@router.post("/a/{alert_id:path}/silence", dependencies=[Depends(same_site)])
async def post_silence(request: Request, shared: Shared, viewer: Operator, alert_id: str) -> Response:
    """Silence the alerts of the rule, pipeline and metric of an alert for a while."""
    return await _ordered(request, shared, viewer, alert_id, "silence")


@router.post("/a/{alert_id:path}/replay", dependencies=[Depends(same_site)])
async def post_replay(request: Request, shared: Shared, viewer: Operator, alert_id: str) -> Response:
    """Replay the rule of an alert over the recording; it changes nothing."""
    return await _ordered(request, shared, viewer, alert_id, "replay")


async def _ordered(request: Request, shared: Context, viewer: Viewer, alert_id: str, action: str) -> Response:
    fields = await form_of(request)
    try:
        alert = await find_alert(shared, viewer, alert_id)
        if action == "replay":
            done = await _begin_replay(shared, viewer, alert, fields.get("last", ""))
        elif action == "silence":
            done = await _silence(shared, viewer, alert, fields.get("for", ""), reason_in(fields))
        else:
            done = await _acknowledge(shared, viewer, alert, reason_in(fields))
    except HttpProblem as problem:
        if problem.status != 422:
            raise
        return await _alert_page(request, shared, viewer, alert_id, status=422, problem=problem.detail)
    return RedirectResponse(f"/a/{quote(alert_id)}?done={quote(done)}", 303, headers=HEADERS)


async def _begin_replay(shared: Context, viewer: Viewer, alert: Alert, length: str) -> str:
    if shared.laboratory is None:
        raise HttpProblem(422, "this service replays no rules: it runs without ragtide_offline")
    if length not in REPLAYS:
        raise HttpProblem(422, f"the length of the replay is {length[:20]!r}: take one of {', '.join(REPLAYS)}")
    now = utc_now()
    start, end = chart_range(alert, now)
    settings, replays = shared.settings, shared.rule_replays
    order = ReplayOrder(settings, alert, now - REPLAYS[length], start, end, replays.limit_s)
    try:
        replays.check()
        await record_order(shared, viewer, action="replay", subject=f"alert {alert.alert_id}", details={"last": length})
        replays.begin(order, viewer.name)
    except ReplayIsRunningError as error:
        raise HttpProblem(422, str(error)) from None
    return "The replay of the rule has begun."


async def _acknowledge(shared: Context, viewer: Viewer, alert: Alert, reason: str) -> str:
    if alert.status == "resolved":
        raise HttpProblem(422, "the alert is resolved, so there is nothing to acknowledge")
    await record_order(shared, viewer, action="acknowledge", subject=f"alert {alert.alert_id}", reason=reason)
    await acknowledge(shared.redis, shared.settings.prefix, alert.alert_id, viewer.name)
    return "The alert is acknowledged."


async def _silence(shared: Context, viewer: Viewer, alert: Alert, length: str, reason: str) -> str:
    if length not in SILENCES:
        raise HttpProblem(422, f"the length of the silence is {length[:20]!r}: take one of {', '.join(SILENCES)}")
    now = utc_now()
    try:
        silence = Silence(
            id=new_silence_id(),
            pipeline=_literal(alert.pipeline),
            rule=_literal(alert.rule),
            metric=_literal(alert.metric),
            segment=None if alert.segment is None else _literal(alert.segment),
            until=now + SILENCES[length],
            by=viewer.name,
            reason=reason,
            created_at=now,
        )
    except ValidationError as error:
        raise HttpProblem(422, describe(error)) from None
    await record_order(
        shared,
        viewer,
        action="silence",
        subject=f"alert {alert.alert_id}",
        reason=reason,
        details={"silence": silence.id, "for": length},
    )
    try:
        await add_silence(shared.redis, shared.settings.prefix, silence)
    except ValueError as error:
        raise HttpProblem(422, str(error)) from None
    return "The alert is silenced."


def _literal(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)
