"""`ragtide trace`: follows one interaction through Redis, and says why it has no score."""

from dataclasses import asdict
from typing import Annotated

import typer
from redis.asyncio import Redis
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.interaction_trace import SCANNED, InteractionTrace, PassedStation
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas.printable import printable

from .common import JsonOption
from .console import out, print_json, warn
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with


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
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[PassedStation], list[str]]:
        deployment = Deployment(redis, settings)
        windows = [window(name) for name in settings.windows]
        names = {pipeline} if pipeline else {one.pipeline for one in await deployment.estimates(windows=False)}
        found = await InteractionTrace(redis, settings.layout, identity, windows).follow(sorted(names))
        backlogs = [] if found else await deployment.backlog()
        return found, [f"{count:,} {why}" for one in backlogs for why, count in sorted(one.dropped.items())]

    found, dropped = with_redis(settings, body)
    for one in found:
        if as_json:
            print_json({**asdict(one), "at": None if one.at is None else one.at.isoformat()})
        else:
            time = "" if one.at is None else f"{one.at:%Y-%m-%d %H:%M:%S} UTC  "
            where = f"partition {one.partition}" + (f", {printable(one.pipeline)}" if one.pipeline else "")
            out.print(Text(f"{time}{printable(one.text)} ({where})"))
    if not found:
        warn(
            f"{printable(identity)} is not known. It was never published here; or it was dropped before "
            f"({', '.join(dropped) or 'no drop is counted'}); or it was scored longer ago than dedupe_window_s; or its "
            f"pipeline has no estimate yet and it is not among the newest {SCANNED:,} interactions: give --pipeline"
        )
        raise typer.Exit(1)
