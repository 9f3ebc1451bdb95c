"""The list of commands, and the options before a command."""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragtide_runtime import __version__, telemetry

from .commands import LISTED, CliCommand, CommandGroup, before_command, line_in_list
from .commands.alerts import alerts, notify
from .commands.datasets import dataset
from .commands.experiments import capacity, experiment
from .commands.items import items
from .commands.judge import criteria, judge
from .commands.look import compare, dead_letters, estimates, explain, mcp, watch
from .commands.operate import aggregator, bridge, demo, docs, doctor, serve, up, worker
from .commands.publish import feedback, publish
from .commands.release import release
from .commands.replay import recorder, replay, rules
from .commands.score import fit, score
from .commands.trust import trust
from .printing import err
from .running import Given, sentence_of

GROUPS: Final[Mapping[str, tuple[Callable[..., None] | typer.Typer, ...]]] = {
    "Start": (demo, up, doctor, docs),
    "Publish": (publish, feedback, bridge),
    "Look (live)": (watch, estimates, compare, release, explain, alerts, items, dead_letters, mcp),
    "Offline (files, without Redis)": (score, fit, trust),
    "Record and replay": (recorder, replay),
    "Experiments": (dataset, experiment),
    "Notify": (notify,),
    "Operate": (worker, aggregator, serve, rules, judge, criteria, capacity),
}
"""The commands of each group, in the order of the help."""

COMMANDS: Final = [
    str(added.info.name) if isinstance(added, typer.Typer) else added.__name__.replace("_", "-")
    for listed in GROUPS.values()
    for added in listed
]
"""The name of every command."""


FIRST_DAY: Final = ("up", "doctor", "estimates", "alerts", "items", "score", "experiment", "criteria")
"""The commands that `ragtide --help` lists; `--all` lists every command."""

FORMER: Final[Mapping[str, str]] = {
    "ack": "alerts ack",
    "annotate": "items annotate",
    "batch": "score batch",
    "explain-drift": "alerts explain",
    "ingest explain": "publish explain",
    "ingest publish": "publish traces",
    "ingest": "publish",
    "inspect": "recorder inspect",
    "item": "items",
    "merge": "score merge",
    "plan": "capacity plan",
    "report": "experiment report",
    "silence": "alerts silence",
    "trace": "items trace",
    "workspaces": "replay workspaces",
}
"""The present words for the first words of commands that were merged. They go on working, and no help lists them."""


def present_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the present name of a command.

    >>> present_words(["merge", "part1", "part2"]), present_words(["score", "rows.jsonl"])
    (['score', 'merge', 'part1', 'part2'], ['score', 'rows.jsonl'])
    """
    for former, present in FORMER.items():
        length = len(former.split())
        if " ".join(words[:length]) == former:
            return [*present.split(), *words[length:]]
    return [*words]


class Commands(CommandGroup):
    """The commands in the order of `GROUPS`; Typer alone would list groups of commands last."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Return the arguments after the options before the command."""
        before = list(takewhile(lambda word: word.startswith("-"), args))
        ctx.meta[LISTED] = None if "--all" in before else FIRST_DAY
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return COMMANDS

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return name, command and remaining arguments, of a former name those of the present one."""
        return super().resolve_command(ctx, present_words(args))


cli = typer.Typer(
    cls=Commands,
    help="Live scores, honest intervals and drift alerts for RAG pipelines, on Redis Streams.\n\n"
    "`ragtide demo` shows them on example data. `ragtide --help --all` lists every command.",
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


def _list_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(context.get_help())
        raise typer.Exit


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
    every: Annotated[
        bool, typer.Option("--all", callback=_list_all, is_eager=True, help="With --help: list every command.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the options before the command."""
    del version, every
    context.obj = Given(redis_url=redis_url, prefix=prefix, data_dir=data_dir, partitions=partitions)


for title, listed in GROUPS.items():
    for added in listed:
        if isinstance(added, typer.Typer):
            cli.add_typer(added, short_help=line_in_list(added), rich_help_panel=title)
        else:
            cli.command(cls=CliCommand, short_help=line_in_list(added), rich_help_panel=title)(added)
