"""The list of commands, and the options before a command. A command is imported when it is used."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from redis import RedisError
from typer.core import TyperGroup

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.version import __version__

from .common import Given, err

COMMANDS: Final = {
    "demo": "demo:demo",
    "up": "serving:up",
    "worker": "serving:worker",
    "aggregator": "serving:aggregator",
    "recorder": "serving:recorder",
    "publish": "publish:publish",
    "score": "score:score",
    "agree": "agree:agree",
    "feedback": "feedback:feedback",
    "watch": "watch:watch",
    "estimates": "estimates:estimates",
    "compare": "compare:compare",
    "explain-drift": "explain_drift:explain",
    "alerts": "alerts:alerts",
    "dead-letters": "dead_letters:dead_letters",
    "recordings": "recordings:recordings",
    "replay": "replay:replay",
    "experiment": "experiment:experiment",
    "report": "report:report",
    "rules": "rules:rules",
    "workspaces": "workspaces:workspaces",
    "doctor": "doctor:doctor",
    "repartition": "repartition:repartition",
}
"""Module and function, or group, of each command."""

SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


class Commands(TyperGroup):
    """The commands; each is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is no such command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found: Any = getattr(import_module(f".{module}", __package__), name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_command(found)
            group.name = cmd_name
            group.context_settings = SETTINGS
            return group
        made = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
        made.command(cmd_name, context_settings=SETTINGS)(found)
        return typer.main.get_command(made)


cli = typer.Typer(
    cls=Commands,
    help="Live scores, honest intervals and drift alerts for RAG pipelines, on Redis Streams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def main() -> None:
    """Run the command line."""
    configure_logging("warning")  # to standard error; a command may configure it again
    try:
        cli()
    except (RagtideError, RedisError) as error:
        err.print(f"ragtide: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        sys.stderr.close()
        sys.exit(0)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@cli.callback()
def common(
    context: typer.Context,
    redis_url: Annotated[str | None, typer.Option(help="Redis to use [RAGTIDE_REDIS_URL].")] = None,
    prefix: Annotated[str | None, typer.Option(help="First part of every key [RAGTIDE_PREFIX].")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory of a Redis that ragtide starts [RAGTIDE_DATA_DIR].")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="Number of partitions of the deployment [RAGTIDE_PARTITIONS].")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the options before the command."""
    del version
    context.obj = Given(redis_url, prefix, data_dir, partitions)
