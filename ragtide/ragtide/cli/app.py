"""The list of commands, and the options before a command. A command is imported when it is used."""

import errno
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ragtide_runtime import __version__, redis, telemetry
from ragtide_runtime.errors import RagtideError

from .command_groups import SETTINGS, CommandGroup, write_help
from .command_list import COMMANDS, GROUPS
from .common import Given
from .console import err
from .declarations import declared, load_command
from .help_page import Rows


class Commands(CommandGroup):
    """The commands; each is imported when it runs, and none for its help or the list of them."""

    before_command: Callable[[], None] | None = None
    """Called before a command is imported."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before a command."""
        found = super().get_params(ctx)
        for option in found:
            if not isinstance(option.process_value, partial):
                option.process_value = partial(_unless_absent, option.process_value)  # type: ignore[method-assign]
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is no such command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        load = partial(self._load, cmd_name)
        return declared(cmd_name, load) or load()

    def _load(self, name: str) -> Any:
        if self.before_command is not None:
            self.before_command()
        return load_command(name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups, from their lines in the list."""
        groups: dict[str, Rows] = {
            group: [(name, one.help) for name, one in listed.items()] for group, listed in GROUPS.items()
        }
        write_help(self, ctx, formatter, groups)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return completions of a name, from the list; completions of an option, from Typer."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        stubs: Any = {name: TyperCommand(name, short_help=listed.help) for name, listed in COMMANDS.items()}
        group = TyperGroup(name=self.name, commands=stubs)
        return group.shell_complete(type(ctx)(group, resilient_parsing=True), incomplete)


UNWRITABLE: Final = {errno.EACCES, errno.EDQUOT, errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
"""Reasons for which nothing can be written, or read, at a place."""

cli = typer.Typer(
    cls=Commands,
    help="Live scores, honest intervals and drift alerts for RAG pipelines, on Redis Streams.",
    no_args_is_help=True,
    rich_markup_mode=None,  # Rich takes long to import for a mistake, and breaks its line in a box
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def main() -> None:
    """Run the command line."""
    program: Any = typer.main.get_command(cli)
    # To standard error; a command may configure it again.
    program.before_command = lambda: telemetry.configure_logging("warning")
    try:
        program()
    except SystemExit:
        raise
    except BrokenPipeError:  # the reader of the output, such as head, has ended
        sys.stderr.close()
        sys.exit(0)
    except RuntimeError as error:
        if "home directory" not in str(error):  # of a path that begins with ~
            raise
        err.print("ragtide: no home directory is known: write a whole path instead of ~", style="red")
        sys.exit(1)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        place = f"{error.filename}: " if error.filename else ""
        message = (
            f"ragtide: {place}{error.strerror}: name a place that you can write to, such as TMPDIR for temporary files"
        )
        err.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except (RagtideError, redis.RedisError) as error:  # an error alone imports redis here
        sentence = str(error) if isinstance(error, RagtideError) else redis.explained(error)
        err.print(f"ragtide: {sentence}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def _unless_absent(process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """Return the value of an option; None at once if it is not given, because Typer imports pydantic to convert None.

    No callback of an option before the command does anything without a value.
    """
    return None if value is None else process(context, value)


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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Store the options before the command."""
    del version
    context.obj = Given(redis_url, prefix, data_dir, partitions)
