"""`ragtide notify`: runs a notifier, and tests destinations."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import unknown

from .command_groups import command_group
from .common import JsonOption, Role, given
from .console import err, out, print_json, warn
from .serving import run_until_signal
from .with_redis import with_redis

notify = command_group(
    "Run a notifier: it tells people and machines of alerts. The table notify of the settings names the destinations."
)


@notify.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the requests for the alerts that fire now, and send nothing.")
    ] = False,
) -> None:
    """Run a notifier until SIGTERM or Ctrl-C. A second notifier stands by."""
    if context.invoked_subcommand is not None:
        return
    settings = given(context).settings()
    if not dry_run:
        run_until_signal(settings, Role.NOTIFY)
        return
    for one in with_redis(settings, lambda redis, _: _of_firing_alerts(redis, settings)):
        _print(one)


async def _of_firing_alerts(redis: Redis, settings: Settings) -> list[dict[str, Any]]:
    """Return for each destination the requests about the alerts that fire now, as if it had been told of none."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.notification import Notification  # noqa: PLC0415
    from ragtide_consumers.notify.routing import together, wants  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    deployment = Deployment(redis, settings)
    firing = [alert for alert in await deployment.alerts() if alert.status != "resolved"]
    warn(*deployment.warnings())
    found = []
    async with open_destinations(settings) as destinations:
        for name, one in destinations.items():
            wanted = [alert for alert in firing if wants(one.known.settings, alert)]
            told = [
                Notification(group[0].alert_id, "firing", group)
                for group in together(wanted, grouped=one.known.grouped)
            ]
            requests = [_shown(request) for message in told for request in one.destination.preview(message)]
            found.append({"destination": name, "kind": one.known.settings.kind, "requests": requests})
    return found


def _shown(request: Any) -> dict[str, Any]:
    return {"target": request.target, "headers": request.headers, "body": request.body}


@notify.command("test")
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
    known = [one.name for one in settings.notify.destinations]
    if not known:
        raise ConfigurationError(
            "notify.destinations is empty: add [[notify.destinations]] to the settings (ragtide docs notify)"
        )
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(unknown("destination", name, known))
    found = asyncio.run(_tested(settings, names or known, dry_run=dry_run))
    if as_json:
        print_json(found)
    else:
        for one in found:
            _print(one)
    if not all(one["ok"] for one in found):
        raise typer.Exit(1)


async def _tested(settings: Settings, names: Sequence[str], *, dry_run: bool) -> list[dict[str, Any]]:
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.destinations.protocol import Refused, TryLater  # noqa: PLC0415
    from ragtide_consumers.notify.notification import Notification, sample_alert  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    alert = sample_alert()
    told = Notification(alert.alert_id, "test", (alert,), url=settings.notify.public_url)
    found = []
    async with open_destinations(settings) as destinations:
        for name in names:
            destination = destinations[name].destination
            one: dict[str, Any] = {"destination": name, "kind": destinations[name].known.settings.kind, "ok": True}
            found.append(one)
            if dry_run:
                one["requests"] = [_shown(request) for request in destination.preview(told)]
                continue
            try:
                one["answer"] = await destination.deliver(told) or "accepted"
            except (TryLater, Refused) as error:
                one["ok"], one["answer"] = False, str(error)
    return found


def _print(one: dict[str, Any]) -> None:
    name = f"{one['destination']} ({one['kind']})"
    if "requests" not in one:
        answer = printable(one["answer"])
        style = "green" if one["ok"] else "red"
        out.print(f"{name}: {answer}", style=style, markup=False, highlight=False, soft_wrap=True)
        return
    err.print(f"{name}: nothing is sent", markup=False, highlight=False)
    for request in one["requests"]:
        print_json(request)
