"""`ragtide runs`: the runs that have keys of their own, and removing one."""

from typing import Annotated

import typer
from rich.table import Table

from ragtide_runtime.redis.unreadable import Unreadable
from ragtide_runtime.runs import list_runs, remove_listed
from ragtide_schemas import RunInfo

from .common import JsonOption, err, given, out, print_json, warn, with_redis

runs = typer.Typer(help="Show the runs that have keys of their own, replays and experiments; or remove one.")


@runs.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the runs that have keys of their own, the oldest first; as JSON a list."""
    if context.invoked_subcommand is not None:
        return
    settings = given(context).settings()
    unreadable = Unreadable("run")
    found = with_redis(settings, lambda redis, _: list_runs(redis, settings, unreadable))
    warn(unreadable.warning())
    if as_json:
        print_json([info.model_dump(mode="json") for info in found])
    elif found:
        out.print(_table(found))
    else:
        err.print("No runs yet: ragtide replay and ragtide experiment make them.")


@runs.command()
def remove(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of runs.")],
) -> None:
    """Remove runs with everything in them. Live numbers are not touched."""
    settings = given(context).settings()
    for name in names:
        gone = with_redis(settings, lambda redis, _, name=name: remove_listed(redis, settings, name))  # type: ignore[misc]
        err.print(f"{name} is removed: {gone:,} keys", highlight=False)


def _table(found: list[RunInfo]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in ("run", "kind", "begun"):
        table.add_column(name, no_wrap=True)
    table.add_column("size", justify="right")
    table.add_column("source", overflow="fold")
    for info in found:
        size = "" if info.population_size is None else f"{info.population_size:,}"
        table.add_row(info.run, info.kind, f"{info.created_at:%Y-%m-%d %H:%M}", size, info.source)
    return table
