"""`ragtide workspaces`: lists the workspaces of replays and experiments, and removes them."""

from typing import Annotated

import typer
from redis.asyncio import Redis
from rich.table import Table

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.workspaces import remove_listed_workspace
from ragtide_schemas import Workspace

from .command_groups import command_group
from .common import JsonOption, err, given, out, print_json, warn, with_redis

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
        out.print(_table(found))
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


def _table(found: list[Workspace]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("workspace", "kind", "began"):
        table.add_column(name, no_wrap=True)
    table.add_column("size", justify="right")
    table.add_column("source", overflow="fold")
    for one in found:
        size = "" if one.population_size is None else f"{one.population_size:,}"
        table.add_row(one.run, one.kind, f"{one.created_at:%Y-%m-%d %H:%M}", size, one.source)
    return table
