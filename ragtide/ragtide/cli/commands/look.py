"""`ragtide watch`, `explain`, `alerts`, `trace` and `dead-letters`: a look at a deployment."""

from collections import deque
from dataclasses import asdict
from typing import Annotated

import typer

from ..command import command, command_group
from ..console import err, out, print_json, warn
from ..options import JsonOption, PipelineOption, SegmentsOption, WorkspaceOption, given


@command("ragtide watch", "ragtide watch --pipeline shop --segments")
def watch(
    context: typer.Context,
    pipeline: PipelineOption = None,
    segments: SegmentsOption = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of Redis.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one screen and exit; so does a pipe or a file.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show numbers, states and alerts live, until Ctrl-C.

    The last line lists the keys: choose and open a pipeline, sort the pipelines, filter, quit. A pipeline's own view
    has its segment values, too.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_consumers.notify.silences import read_muted
    from ragtide_roles.running import cancelled_by_signal
    from ragtide_runtime.redis.url import RedisHandle

    from ..screen import Screen
    from ..watch_screen import LiveWatch
    from ..with_redis import settings_with, with_redis

    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> None:
        printed = once or not out.is_terminal
        screen = Screen(
            Deployment(redis, settings),
            pipeline=pipeline,
            segments=segments,
            live=workspace is None,
            read_muted=lambda: read_muted(redis, settings.prefix),
        )
        if printed:
            await screen.refresh()
            out.print(screen.render(out.width))
        else:
            await cancelled_by_signal(LiveWatch(out, screen, segments=segments).run(interval))

    with_redis(settings, body)
    if not out.is_terminal and not once:
        err.print("The output is no terminal, so this is one screen of now: --once says so.", highlight=False)


@command("ragtide explain", "ragtide explain trace.adherence", exits="1 if there is no such metric")
def explain(
    context: typer.Context,
    metric: Annotated[
        str | None, typer.Argument(help="Name of a metric, such as trace.adherence or adherence; default: list all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Explain a metric: formula, direction, limits and labelers.

    It also names the conclusions that the metric does not support, and the metrics to read beside it. A criterion that
    an operator stored is known while Redis can be read.
    """
    from ..metric_explanations import KnownMetrics, UnknownMetricError, explanation, given_by, metrics_table

    settings, unread = given(context).settings(), None
    metrics = KnownMetrics.of(settings)
    if metric is None or not metrics.knows(metric):
        from ..asked_criteria import asked_criteria

        asked = asked_criteria(settings)
        metrics, unread = KnownMetrics.of(asked.settings), asked.unread
    if metric is None:
        if as_json:
            print_json([metrics.fields(name) for name in metrics.listed])
        else:
            out.print(metrics_table(metrics.listed, out.width))
            out.print("ragtide explain METRIC explains one of them.", style="bright_black")
        warn(*filter(None, [unread]))
        return
    try:
        name = metrics.named(metric)
    except UnknownMetricError as error:
        warn(str(error), *filter(None, [unread]))
        raise typer.Exit(1) from None
    if as_json:
        print_json(metrics.fields(name))
    else:
        out.print(explanation(metrics.known[name], given_by(name, metrics.own, metrics.optional)))


@command("ragtide alerts --firing", "ragtide alerts --follow --json")
def alerts(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new alerts, until Ctrl-C.")] = False,
    firing: Annotated[bool, typer.Option("--firing", help="Only alerts that are firing now.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the alerts, or wait for new ones.

    With --json each alert is one line.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_consumers.alert_subscriber import AlertSubscriber
    from ragtide_roles.running import cancelled_by_signal
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.alert_text import AlertText

    from ..alert_reading import json_of_alert, text_of_new_alert, texts_of_alerts
    from ..alert_views import alert_panel, alerts_view
    from ..with_redis import settings_with, with_redis

    settings = settings_with(context, workspace)

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
        deployment = Deployment(redis, settings)
        found = await deployment.alerts()
        warn(*deployment.warnings())
        wanted = [alert for alert in found if alert.status != "resolved" or not firing]
        return await texts_of_alerts(redis, settings, wanted)

    found = with_redis(settings, body)
    if as_json:
        for text in found:
            print_json(json_of_alert(text))
    elif not follow:
        out.print(alerts_view(found))


@command("ragtide trace i-17", "ragtide trace i-17 --pipeline shop --json", exits="1 if the id is not known")
def trace(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of the interaction or trace.")],
    pipeline: Annotated[str | None, typer.Option(help="Its pipeline; faster.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow one interaction: published, taken, labeled, aggregated.

    With --json each fact is one line.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.reading.interaction_trace import SCANNED, InteractionTrace, PassedStation
    from ragtide_aggregator.statistics.tables.windows import window
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.printable import printable

    from ..trace_views import stations_table
    from ..with_redis import settings_with, with_redis

    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[PassedStation], list[str]]:
        deployment = Deployment(redis, settings)
        windows = [window(name) for name in settings.windows]
        names = [pipeline] if pipeline else await deployment.pipelines()
        found = await InteractionTrace(redis, settings.layout, identity, windows).follow(sorted(names))
        backlogs = [] if found else await deployment.backlog()
        return found, [f"{count:,} {why}" for backlog in backlogs for why, count in sorted(backlog.dropped.items())]

    found, dropped = with_redis(settings, body)
    if as_json:
        for station in found:
            print_json({**asdict(station), "at": None if station.at is None else station.at.isoformat()})
    else:
        out.print(stations_table(found))
    if not found:
        warn(
            f"{printable(identity)} is not known. It was never published here; or it was dropped before "
            f"({', '.join(dropped) or 'no drop is counted'}); or it was scored longer ago than dedupe_window_s; or its "
            f"pipeline has no estimate yet and it is not among the newest {SCANNED:,} interactions: give --pipeline"
        )
        raise typer.Exit(1)


dead_letters = command_group(
    "dead-letters", "Show entries that could not be used, or publish them again. Without a command it shows the newest."
)


@dead_letters.callback(invoke_without_command=True)
@command("ragtide dead-letters --reason too_large", "ragtide dead-letters --json > letters.jsonl")
def list_dead_letters(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as not_json.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the newest entries that could not be used; with --json all of them with payload, one per line."""
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Reason
    from ragtide_schemas.suggestions import unknown

    from ..listings import SHOWN, letters_table
    from ..with_redis import settings_with, with_redis

    known = [member.value for member in Reason]
    if reason is not None and reason not in known:
        raise typer.BadParameter(unknown("reason", reason, known), param_hint="--reason")
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, list[StoredDeadLetter]]:
        deployment = Deployment(redis, settings)
        newest: deque[StoredDeadLetter] = deque(maxlen=SHOWN)
        count = 0
        async for stored in deployment.dead_letters():
            letter = stored.letter
            if reason not in (None, letter.reason):
                continue
            count += 1
            if as_json:
                print_json({"id": stored.letter_id, "partition": stored.partition, **letter.model_dump(mode="json")})
            else:
                newest.append(stored.without_payload())
        warn(*deployment.warnings())
        return count, list(newest)

    count, newest = with_redis(settings, body)
    if as_json:
        return
    out.print(letters_table(newest, out.width))
    if count > len(newest):
        err.print(f"These are the newest {len(newest):,} of {count:,}; --json prints all.", highlight=False)


@command("ragtide dead-letters retry --all", of=dead_letters)
def retry(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Publish every dead letter again.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Publish dead interactions and feedback again, after you have corrected the cause."""
    from ..listings import retry_letters
    from ..with_redis import settings_with, with_redis

    if bool(ids) == every:
        raise typer.BadParameter("give ids of dead letters, or --all")
    settings = settings_with(context, workspace, roles=True)
    retried = with_redis(settings, lambda redis, _: retry_letters(redis, settings, ids))
    err.print(f"{retried:,} published again", highlight=False)
