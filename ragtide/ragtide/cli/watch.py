"""`ragtide watch`: shows estimates, trends and alerts live."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_roles.running import cancelled_by_signal
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas import Estimate

from .common import PipelineOption, SegmentsOption, out, with_redis
from .screen import Screen, redraw
from .workspace_option import WorkspaceOption, settings_with


def watch(
    context: typer.Context,
    pipeline: PipelineOption = None,
    segments: SegmentsOption = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two drawings.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Draw one screen and exit.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show estimates, trends and alerts live, until Ctrl-C."""
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> None:
        def keep(estimate: Estimate) -> bool:
            return pipeline in (None, estimate.pipeline) and (segments or estimate.segment is None)

        screen = Screen(Deployment(redis, settings), keep=keep, pipeline=pipeline)
        if once:
            await screen.refresh()
            out.print(screen.render(out.width))
        else:
            await cancelled_by_signal(redraw(out, screen, interval_s=interval))

    with_redis(settings, body)
