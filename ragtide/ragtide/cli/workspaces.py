"""`ragtide workspaces`: lists the workspaces of replays and experiments, and removes them."""

from collections.abc import Sequence
from typing import Annotated

import typer
from redis.asyncio import Redis
from rich.console import RenderableType

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.workspaces import remove_listed_workspace
from ragtide_schemas import Workspace

from .command_groups import command_group
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .fitting import Column, fitted
from .with_redis import with_redis

workspaces = command_group("List or remove the workspaces of replays and experiments. Without a command it lists them.")


@workspaces.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the workspaces of replays and experiments, the oldest first; with --json as a list."""
    if context.invoked_subcommand is not None:
        return
    settings = given(context).settings()

    async def body(redis: Redis, _: RedisHandle) -> list[Workspace]:
        deployment = Deployment(redis, settings)
        found = await deployment.workspaces()
        warn(*deployment.warnings())
        return found

    found = with_redis(settings, body)
    if as_json:
        print_json([workspace.model_dump(mode="json") for workspace in found])
    elif found:
        out.print(workspaces_table(found, out.width))
    else:
        err.print("No workspaces yet: ragtide replay and ragtide experiment create them.")


@workspaces.command()
def remove(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of workspaces.")],
) -> None:
    """Remove workspaces with all their keys. Live estimates do not change."""
    settings = given(context).settings()
    for name in names:
        gone = with_redis(settings, lambda redis, _, name=name: remove_listed_workspace(redis, settings, name))  # type: ignore[misc]
        err.print(f"{name} is removed: {gone:,} keys", highlight=False)


def workspaces_table(found: Sequence[Workspace], width: int) -> RenderableType:
    """Return workspaces as a table; a long source is below its row."""
    sizes = ["" if one.population_size is None else f"{one.population_size:,}" for one in found]
    columns = [
        Column("workspace", [one.run for one in found]),
        Column("kind", [one.kind for one in found]),
        Column("began", [f"{one.created_at:%Y-%m-%d %H:%M}" for one in found]),
        Column("size", sizes, right=True),
        Column("source", [one.source for one in found], yields=1, stacks=True),
    ]
    return fitted(columns, width)
