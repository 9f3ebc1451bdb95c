"""`ragtide ack`: acknowledges alerts, so that destinations are not told them again while they fire."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_consumers.notify.silences import acknowledge
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas.suggestions import unknown

from .common import given
from .console import err, warn
from .silence import user_name
from .with_redis import with_redis


def ack(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of alerts that fire.")],
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
) -> None:
    """Acknowledge alerts: they are not told again while they fire.

    Their end is told.
    """
    settings = given(context).settings()

    async def body(redis: Redis, _: RedisHandle) -> None:
        deployment = Deployment(redis, settings)
        firing = [alert.alert_id for alert in await deployment.alerts() if alert.status != "resolved"]
        warn(*deployment.warnings())
        for one in ids:
            if one not in firing:
                raise typer.BadParameter(unknown("firing alert", one, firing, listed_by="ragtide alerts --firing"))
        for one in ids:
            given_by = await acknowledge(redis, settings.prefix, one, by or user_name())
            err.print(f"{one} is acknowledged by {given_by.by}", markup=False, highlight=False)

    with_redis(settings, body)
