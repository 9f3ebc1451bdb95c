"""Alerts: the list, their causes, acknowledgements, silences and notifications."""

from datetime import timedelta
from typing import Annotated

import typer

from ..printing import err, fitted, out, print_json, warn
from ..running import ConfidenceOption, JsonOption, Role, WorkspaceOption, given, settings_with, user_name
from . import command, command_group, line_in_list

alerts = command_group("alerts")


@command("ragtide alerts --firing", "ragtide alerts --follow --json", runs=alerts)
def show_alerts(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new alerts, until Ctrl-C.")] = False,
    firing: Annotated[bool, typer.Option("--firing", help="Only alerts that are firing now.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the alerts, or wait for new ones.

    With --json each alert is one line.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_consumers.alert_subscriber import AlertSubscriber
    from ragtide_roles.running import cancelled_by_signal
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.alert_text import AlertText

    from ..printing.live import alert_panel, alerts_view
    from ..running.alerts import json_of_alert, read_alerts, text_of_new_alert, texts_of_alerts
    from ..running.redis import with_redis

    async def tail(redis: Redis) -> None:
        async with AlertSubscriber(settings=settings, from_start=True) as subscriber:
            async for alert in subscriber:
                if alert.status == "resolved" and firing:
                    continue
                text = await text_of_new_alert(redis, settings, alert)
                if as_json:
                    print_json(json_of_alert(text))
                else:
                    out.print(alert_panel(text))

    async def body(redis: Redis, _: RedisHandle) -> list[AlertText]:
        if follow:
            await cancelled_by_signal(tail(redis))
            return []
        alerts = await read_alerts(redis, settings)
        wanted = [alert for alert in alerts if alert.status != "resolved" or not firing]
        return await texts_of_alerts(redis, settings, wanted)

    texts = with_redis(settings, body)
    if as_json:
        for text in texts:
            print_json(json_of_alert(text))
    elif not follow:
        out.print(alerts_view(texts))


@command(
    "ragtide alerts explain shop",
    "ragtide alerts explain shop --metric trace.adherence --by lang --since 2026-11-01T12:00:00Z",
    of=alerts,
    name="explain",
)
def explain_change(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="The pipeline.")],
    metric: Annotated[
        str | None, typer.Option(help="Metric, such as trace.adherence; by default that of the alert.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Name of a segment, such as lang; by default the one that explains most.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Time of the change (ISO 8601, UTC).")] = None,
    alert: Annotated[
        str | None, typer.Option(help="Id of an alert that states the time; by default the latest of the pipeline.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Length of the stretch before, such as 12h; by default all that is kept.")
    ] = None,
    labeler: Annotated[str | None, typer.Option(help="Only scores of this labeler.")] = None,
    workspace: WorkspaceOption = None,
    confidence: ConfidenceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Split a change into changed traffic and changed quality.

    The first part is a change of the traffic's mix, such as more questions in German. The second part is a change
    within the segments.
    """
    settings = settings_with(context, workspace)
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_offline.replay.selection import selection
    from ragtide_offline.report.explaining import ExplainedDrift, alert_of_change, explain_drift
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Alert

    from ..printing.estimates import parts_table, segments_table
    from ..running.redis import with_redis

    if since is not None and alert is not None:
        raise typer.BadParameter("--since and --alert exclude each other: give one")
    if since is not None and metric is None:
        raise typer.BadParameter("give --metric with --since, such as trace.adherence")
    start = None if since is None else selection(since).since
    length = None if before is None else _length_ms(before)

    async def body(redis: Redis, _: RedisHandle) -> ExplainedDrift:
        deployment = Deployment(redis, settings)
        change = start or await alert_of_change(deployment, pipeline, metric=metric, alert_id=alert)
        return await explain_drift(
            deployment,
            pipeline,
            change,
            metric=change.metric if isinstance(change, Alert) else str(metric),
            by=by,
            before_ms=length,
            labeler=labeler,
            confidence=confidence,
        )

    drift = with_redis(settings, body)
    if as_json:
        print_json(drift.as_dict())
        return
    out.print(segments_table(drift.change, drift.segment, out.width))
    out.print(parts_table(drift.change))
    out.print(drift.sentence, highlight=False)
    for name, words in drift.others.items():
        out.print(f"By {name}: {words}.", style="bright_black", highlight=False)


def _length_ms(text: str) -> int:
    from pydantic import TypeAdapter, ValidationError

    from ragtide_schemas.alert_rule import Duration, duration_ms

    try:
        return duration_ms(TypeAdapter(Duration).validate_python(text))
    except ValidationError as error:
        raise typer.BadParameter(
            f"{text!r} is no length of time: write 30m, 12h or 7d", param_hint="--before"
        ) from error


notify = command_group("notify")


@command("ragtide notify", "ragtide notify --dry-run", runs=notify)
def run_notifier(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests for the alerts that fire now, and send nothing.")
    ] = False,
) -> None:
    """Run a notifier: it sends alerts to people and machines.

    The table notify of the settings names the destinations. A second notifier stands by. SIGTERM or Ctrl-C ends it.
    """
    settings = given(context).settings()
    from ragtide_consumers.notify.service import NO_DESTINATION
    from ragtide_runtime.errors import ConfigurationError

    from ..printing.live import print_destination
    from ..running.alerts import requests_of_firing_alerts
    from ..running.redis import with_redis
    from ..running.roles import run_until_signal

    if not settings.notify.destinations:
        raise ConfigurationError(NO_DESTINATION)
    if not dry_run:
        run_until_signal(settings, Role.NOTIFY)
        return
    for destination in with_redis(settings, lambda redis, _: requests_of_firing_alerts(redis, settings)):
        print_destination(destination)


@command(
    "ragtide notify test",
    "ragtide notify test ops --dry-run",
    exits="1 if a destination did not take it",
    of=notify,
    name="test",
)
def try_destinations(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Names of destinations; default: all.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests, with secrets masked, and send nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a test notification to destinations, and print the answer of each. Needs no Redis."""
    settings = given(context).settings()
    import asyncio

    from ragtide_runtime.errors import ConfigurationError
    from ragtide_schemas.suggestions import unknown

    from ..printing.live import print_destination
    from ..running.alerts import answers_of_destinations

    known = [destination.name for destination in settings.notify.destinations]
    if not known:
        raise ConfigurationError(
            "notify.destinations is empty: add [[notify.destinations]] to the settings (ragtide docs notify)"
        )
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(unknown("destination", name, known))
    answers = asyncio.run(answers_of_destinations(settings, names or known, dry_run=dry_run))
    if as_json:
        print_json(answers)
    else:
        for destination in answers:
            print_destination(destination)
    if not all(destination["ok"] for destination in answers):
        raise typer.Exit(1)


@command("ragtide alerts ack adherence-drift-0a1b2c3d4e5f", of=alerts)
def ack(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of alerts that fire.")],
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
) -> None:
    """Acknowledge alerts: they are not sent again while they fire.

    Their end is sent.
    """
    settings = given(context).settings()
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_consumers.notify.silences import acknowledge
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.suggestions import unknown

    from ..running.redis import with_redis

    async def body(redis: Redis, _: RedisHandle) -> None:
        deployment = Deployment(redis, settings)
        firing = [alert.alert_id for alert in await deployment.alerts() if alert.status != "resolved"]
        warn(*deployment.warnings())
        for alert_id in ids:
            if alert_id not in firing:
                raise typer.BadParameter(unknown("firing alert", alert_id, firing, listed_by="ragtide alerts --firing"))
        for alert_id in ids:
            acknowledgement = await acknowledge(redis, settings.prefix, alert_id, by or user_name())
            err.print(f"{alert_id} is acknowledged by {acknowledgement.by}", markup=False, highlight=False)

    with_redis(settings, body)


silence = command_group("silence")


@command("ragtide alerts silence", runs=silence)
def show_silences(context: typer.Context, as_json: JsonOption = False) -> None:
    """Silence alerts for a while, or list the silences.

    Without a command it shows the silences that hold now, the first to end first. Silenced alerts still fire and are
    shown, but are not sent.
    """
    settings = given(context).settings()
    from ragtide_consumers.notify.silences import read_silences
    from ragtide_schemas import utc_now

    from ..printing.live import SILENCE_COLUMNS
    from ..running.redis import with_redis

    silences = with_redis(settings, lambda redis, _: read_silences(redis, settings.prefix))
    silences = [entry for entry in silences if entry.until > utc_now()]
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in silences])
    elif not silences:
        err.print("No silences: ragtide alerts silence add sets one.")
    else:
        out.print(fitted(SILENCE_COLUMNS, silences, out.width))


@command("ragtide alerts silence add --pipeline 'shop*' --for 2h --reason 'new index'", of=silence, name="add")
def silence_alerts(
    context: typer.Context,
    pipeline: Annotated[str, typer.Option(help="Shell-style pattern of pipelines.")] = "*",
    rule: Annotated[str, typer.Option(help="Shell-style pattern of rules.")] = "*",
    metric: Annotated[str, typer.Option(help="Shell-style pattern of metrics.")] = "*",
    segment: Annotated[str | None, typer.Option(help="Shell-style pattern of segment values, such as lang=*.")] = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Length, such as 30m, 2h or 1d.")] = "2h",
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
    reason: Annotated[str, typer.Option(help="Reason, for other people.")] = "",
) -> None:
    """Silence the alerts that match every pattern. It prints the id of the silence."""
    from pydantic import ValidationError
    from redis.asyncio import Redis

    from ragtide_consumers.notify.silences import Silence, add_silence, new_silence_id
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import utc_now
    from ragtide_schemas.alert_rule import duration_ms
    from ragtide_schemas.base import describe

    from ..printing.live import matched_alerts
    from ..running.redis import with_redis

    settings, now = given(context).settings(), utc_now()
    try:
        length = timedelta(milliseconds=duration_ms(duration))
        added = Silence(
            id=new_silence_id(),
            pipeline=pipeline,
            rule=rule,
            metric=metric,
            segment=segment,
            until=now + length,
            by=by or user_name(),
            reason=reason,
            created_at=now,
        )
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None
    except (ValueError, KeyError, OverflowError):
        raise typer.BadParameter(f"{duration!r} is no length: write 30m, 2h or 1d", param_hint="--for") from None

    async def body(redis: Redis, _: RedisHandle) -> None:
        await add_silence(redis, settings.prefix, added)

    try:
        with_redis(settings, body)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    out.print(added.id, highlight=False)
    err.print(f"silent until {added.until:%Y-%m-%d %H:%M} UTC: {matched_alerts(added)}", markup=False, highlight=False)


@command("ragtide alerts silence remove 0a1b2c3d", of=silence, name="remove")
def remove_silences(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of silences.")],
) -> None:
    """End silences. Alerts that fire and were not sent are sent now."""
    settings = given(context).settings()
    from ragtide_consumers.notify.silences import remove_silence

    from ..running.redis import with_redis

    missing = []
    for silence_id in ids:
        removed = with_redis(
            settings,
            lambda redis, _, silence_id=silence_id: remove_silence(redis, settings.prefix, silence_id),  # type: ignore[misc]
        )
        if not removed:
            missing.append(silence_id)
    if missing:
        raise typer.BadParameter(f"there is no silence {', '.join(missing)}: ragtide alerts silence lists them")


alerts.add_typer(silence, short_help=line_in_list(silence))
