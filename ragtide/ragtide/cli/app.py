"""The list of commands, and the options before a command."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragtide_runtime import __version__, telemetry

from .commands import CliCommand, CommandGroup, before_command, line_in_list
from .commands.alerts import ack, alerts, explain_drift, notify, silence
from .commands.experiments import capacity, experiment, plan, report
from .commands.items import dataset, item, items, trace
from .commands.judge import agreement, benchmark, criteria, judge
from .commands.look import compare, dead_letters, estimates, explain, mcp, watch
from .commands.operate import aggregator, bridge, demo, docs, doctor, recorder, repartition, serve, up, worker
from .commands.publish import annotate, feedback, ingest, publish
from .commands.replay import inspect, replay, rules, workspaces
from .commands.score import batch, fit, merge, score
from .printing import err
from .running import Given, sentence_of

GROUPS: Final[Mapping[str, tuple[Callable[..., None] | typer.Typer, ...]]] = {
    "Start": (demo, up, doctor, docs),
    "Publish": (publish, feedback, annotate, ingest, bridge),
    "Look (live)": (watch, estimates, compare, explain, explain_drift, alerts, items, item, trace, dead_letters, mcp),
    "Offline (files, without Redis)": (score, merge, fit, batch, benchmark, judge, agreement),
    "Record and replay": (recorder, inspect, replay, workspaces),
    "Experiments": (dataset, experiment, report),
    "Notify": (notify, ack, silence),
    "Operate": (worker, aggregator, serve, rules, criteria, repartition, capacity, plan),
}
"""The commands of each group, in the order of the help."""

COMMANDS: Final = [
    str(added.info.name) if isinstance(added, typer.Typer) else added.__name__.replace("_", "-")
    for listed in GROUPS.values()
    for added in listed
]
"""The name of every command."""


class Commands(CommandGroup):
    """The commands in the order of `GROUPS`; Typer alone would list groups of commands last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return COMMANDS


cli = typer.Typer(
    cls=Commands,
    help="Live scores, honest intervals and drift alerts for RAG pipelines, on Redis Streams.",
    no_args_is_help=True,
    rich_markup_mode=None,  # Rich takes long to import for a mistake, and breaks its line in a box
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    # To standard error; a command may configure it again.
    before_command[:] = [lambda: telemetry.configure_logging("warning")]
    try:
        cli()
    except SystemExit:
        raise
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        err.print(f"ragtide: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def common(
    context: typer.Context,
    redis_url: Annotated[str | None, typer.Option(metavar="URL", help="Redis to use [RAGTIDE_REDIS_URL].")] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="First part of every key in Redis [RAGTIDE_PREFIX].")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data of a Redis that ragtide starts [RAGTIDE_DATA_DIR].")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Partitions of the deployment [RAGTIDE_PARTITIONS].")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the options before the command."""
    del version
    context.obj = Given(redis_url, prefix, data_dir, partitions)


for title, listed in GROUPS.items():
    for added in listed:
        if isinstance(added, typer.Typer):
            cli.add_typer(added, short_help=line_in_list(added), rich_help_panel=title)
        else:
            cli.command(cls=CliCommand, short_help=line_in_list(added), rich_help_panel=title)(added)
