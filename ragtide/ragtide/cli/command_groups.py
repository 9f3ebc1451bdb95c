"""Groups of commands: suggestions for a mistyped name, and the pages of help."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import typer
from typer.core import TyperGroup

from ragtide_schemas.suggestions import unknown

from .console import out
from .help_page import Rows, help_page

MOST_COLUMNS: Final = 100
"""Most columns of a page of help: longer lines are hard to read."""

_NO_CHOICE: Final = re.compile(r"'(.*)' is not one of (.*)\.$", re.DOTALL)
"""Typer's message about a choice that is not there."""

SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


class CommandGroup(TyperGroup):
    """A group that names the command that was probably meant, and shows its help if none is given."""

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Return the arguments after the options of the group."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)  # Typer prints its own help here, and nothing of ours
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return name, command and remaining arguments; a mistake if there is no such command."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and name not in self.list_commands(ctx):
            ctx.fail(unknown("command", name, self.list_commands(ctx), listed_by=f"{ctx.command_path} --help"))
        return super().resolve_command(ctx, args)


def command_group(help_text: str, *, no_args_is_help: bool = False) -> typer.Typer:
    """Return a group of commands, such as `ragtide experiment`."""
    return typer.Typer(
        cls=CommandGroup,
        help=help_text,
        no_args_is_help=no_args_is_help,
        add_completion=False,  # the options to install completion belong to `ragtide` alone
        pretty_exceptions_enable=False,
        context_settings=SETTINGS,
    )


def write_help(command: Any, context: Any, formatter: Any, groups: dict[str, Rows] | None = None) -> None:
    """Write the page of a command's help, with the colors of the terminal."""
    with out.capture() as page:
        out.print(help_page(command, context, groups), width=min(out.width, MOST_COLUMNS))
    formatter.write("\n".join(line.rstrip() for line in page.get().splitlines()) + "\n")


def _parsed(parse: Callable[[Any, Any], Any], context: Any, args: Any) -> Any:
    """Return the parsed arguments; a mistake with the choice that was probably meant if there is no such choice."""
    try:
        return parse(context, args)
    except typer.BadParameter as error:
        found = _NO_CHOICE.search(error.message)
        if found is not None:
            error.message = unknown("choice", found[1], re.findall(r"'([^']+)'", found[2]))
        raise


def with_help(command: Any) -> Any:
    """Return a command of Typer, with all its commands, whose help is our page."""
    command.format_help = partial(write_help, command)
    command.parse_args = partial(_parsed, command.parse_args)
    for child in getattr(command, "commands", {}).values():
        with_help(child)
    return command
