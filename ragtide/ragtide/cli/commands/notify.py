"""`ragtide notify`, `ack` and `silence`: notifications about alerts."""

from datetime import timedelta
from typing import Annotated

import typer

from ..command import command, command_group
from ..console import err, out, print_json, warn
from ..options import JsonOption, Role, given, user_name

notify = command_group(
    "notify",
    "Run a notifier: it sends alerts to people and machines. The table notify of the settings names the destinations.",
)


@notify.callback(invoke_without_command=True)
@command("ragtide notify", "ragtide notify --dry-run")
def run_notifier(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests for the alerts that fire now, and send nothing.")
    ] = False,
) -> None:
    """Run a notifier until SIGTERM or Ctrl-C. A second notifier stands by."""
    from ragtide_consumers.notify.service import NO_DESTINATION
    from ragtide_runtime.errors import ConfigurationError

    from ..notifications import print_destination, requests_of_firing_alerts
    from ..roles import run_until_signal
    from ..with_redis import with_redis

    settings = given(context).settings()
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
    import asyncio

    from ragtide_runtime.errors import ConfigurationError
    from ragtide_schemas.suggestions import unknown

    from ..notifications import answers_of_destinations, print_destination

    settings = given(context).settings()
    known = [destination.name for destination in settings.notify.destinations]
    if not known:
        raise ConfigurationError(
            "notify.destinations is empty: add [[notify.destinations]] to the settings (ragtide docs notify)"
        )
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(unknown("destination", name, known))
    found = asyncio.run(answers_of_destinations(settings, names or known, dry_run=dry_run))
    if as_json:
        print_json(found)
    else:
        for destination in found:
            print_destination(destination)
    if not all(destination["ok"] for destination in found):
        raise typer.Exit(1)


@command("ragtide ack adherence-drift-0a1b2c3d4e5f")
def ack(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of alerts that fire.")],
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
) -> None:
    """Acknowledge alerts: they are not sent again while they fire.

    Their end is sent.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_consumers.notify.silences import acknowledge
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.suggestions import unknown

    from ..with_redis import with_redis

    settings = given(context).settings()

    async def body(redis: Redis, _: RedisHandle) -> None:
        deployment = Deployment(redis, settings)
        firing = [alert.alert_id for alert in await deployment.alerts() if alert.status != "resolved"]
        warn(*deployment.warnings())
        for alert_id in ids:
            if alert_id not in firing:
                raise typer.BadParameter(unknown("firing alert", alert_id, firing, listed_by="ragtide alerts --firing"))
        for alert_id in ids:
            given_by = await acknowledge(redis, settings.prefix, alert_id, by or user_name())
            err.print(f"{alert_id} is acknowledged by {given_by.by}", markup=False, highlight=False)

    with_redis(settings, body)


silence = command_group(
    "silence",
    "Silence alerts for a while, or list the silences. Silenced alerts still fire and are shown, but are not sent.",
)


@silence.callback(invoke_without_command=True)
@command("ragtide silence")
def show_silences(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the silences that hold now, the first to end first; with --json as a list."""
    from ragtide_consumers.notify.silences import read_silences
    from ragtide_schemas import utc_now

    from ..fitting import Column, fitted
    from ..listings import matched_alerts
    from ..with_redis import with_redis

    settings = given(context).settings()
    found = with_redis(settings, lambda redis, _: read_silences(redis, settings.prefix))
    found = [entry for entry in found if entry.until > utc_now()]
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in found])
    elif not found:
        err.print("No silences: ragtide silence add sets one.")
    else:
        columns = [
            Column("id", [entry.id for entry in found]),
            Column("until", [f"{entry.until:%Y-%m-%d %H:%M}" for entry in found]),
            Column("alerts", [matched_alerts(entry) for entry in found]),
            Column("by", [entry.by for entry in found]),
            Column("reason", [entry.reason for entry in found], yields=1, stacks=True),
        ]
        out.print(fitted(columns, out.width))


@command("ragtide silence add --pipeline 'shop*' --for 2h --reason 'new index'", of=silence, name="add")
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

    from ..listings import matched_alerts
    from ..with_redis import with_redis

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


@command("ragtide silence remove 0a1b2c3d", of=silence, name="remove")
def remove_silences(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of silences.")],
) -> None:
    """End silences. Alerts that fire and were not sent are sent now."""
    from ragtide_consumers.notify.silences import remove_silence

    from ..with_redis import with_redis

    settings = given(context).settings()
    missing = []
    for silence_id in ids:
        removed = with_redis(
            settings,
            lambda redis, _, silence_id=silence_id: remove_silence(redis, settings.prefix, silence_id),  # type: ignore[misc]
        )
        if not removed:
            missing.append(silence_id)
    if missing:
        raise typer.BadParameter(f"there is no silence {', '.join(missing)}: ragtide silence lists them")
