"""`ragtide alerts`: shows the stored alerts, and new alerts with `--follow`."""

import asyncio
from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_consumers.alert_subscriber import AlertSubscriber
from ragtide_roles.running import cancelled_by_signal
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas import Alert

from .alert_views import alert_panel, alerts_view
from .common import JsonOption
from .console import out, print_json, warn
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


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
    settings = settings_with(context, workspace)

    def show(alert: Alert) -> None:
        if as_json:
            print_json(alert.model_dump(mode="json"))
        else:
            out.print(alert_panel(alert))

    async def tail() -> None:
        async with AlertSubscriber(settings=settings, from_start=True) as subscriber:
            async for alert in subscriber:
                if alert.status != "resolved" or not firing:
                    show(alert)

    if follow:
        asyncio.run(cancelled_by_signal(tail()))
        return

    async def body(redis: Redis, _: RedisHandle) -> list[Alert]:
        deployment = Deployment(redis, settings)
        found = await deployment.alerts()
        warn(*deployment.warnings())
        return found

    found = [alert for alert in with_redis(settings, body) if alert.status != "resolved" or not firing]
    if as_json:
        for alert in found:
            show(alert)
    else:
        out.print(alerts_view(found))
