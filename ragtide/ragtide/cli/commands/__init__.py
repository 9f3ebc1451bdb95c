"""Commands and groups of commands: their examples, their pages of help, and suggestions for a mistyped name.

A page of help is plain text in two columns, which cuts no text at 80 columns. Typer's own help reads its texts as Rich
markup, which swallows `[[alerts]]`, and cuts long words with an ellipsis.
"""

import re
import typer
import inspect
from typing import Final, Any, get_type_hints
from collections.abc import Sequence, Callable, Iterator
from ragtide_schemas.suggestions import unknown
from ..printing import UNLIMITED, Column, folded, out
from typer.core import TyperCommand, TyperGroup
from dataclasses import fields, is_dataclass
from functools import wraps
from rich.console import Group
from rich.text import Text
from rich.padding import Padding
from enum import Enum


MOST_COLUMNS: Final = 100
"""Most columns of a page of help: longer lines are hard to read."""


_NO_CHOICE: Final = re.compile(r"'(.*)' is not one of (.*)\.$", re.DOTALL)
"""Typer's message about a choice that is not there."""


Rows = Sequence[tuple[str, str]]
"""Names, each with its text."""


VALUES: Final = {"str": "TEXT", "path": "PATH", "int": "NUMBER", "float": "NUMBER"}
"""Words of the help for the types of Python."""


LISTED: Final = "ragtide.listed"
"""Names of the commands that a page of help lists, in the `meta` of its context; None, or no entry, for all."""

before_command: list[Callable[[], None]] = []
"""Called before a command runs, and not for its help or a mistake."""


class _WithHelp:
    """A command whose help is our page, and whose mistakes name the choice that was probably meant."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if not (parameter.required or getattr(parameter, "multiple", False) or parameter.nargs != 1):
                parameter.process_value = _unless_absent(parameter)
        return parameters

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Return the arguments after the options."""
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.BadParameter as error:
            match = _NO_CHOICE.search(error.message)
            if match is not None:
                error.message = unknown("choice", match[1], re.findall(r"'([^']+)'", match[2]))
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of help, with the colors of the terminal."""
        with out.capture() as page:
            out.print(help_page(self, ctx), width=min(out.width, MOST_COLUMNS))
        formatter.write("\n".join(line.rstrip() for line in page.get().splitlines()) + "\n")


class CliCommand(_WithHelp, TyperCommand):
    """A command."""


class CommandGroup(_WithHelp, TyperGroup):
    """A group that names the command that was probably meant, and shows its help if none is given.

    A group may be a command itself, as `ragtide items`. The first word decides: if it is the name of a command of the
    group, as in `ragtide items trace i-17`, that command runs; otherwise all words are those of the group itself. A
    file or an id with such a name is written with another first word, such as `./trace` or `-- trace`.
    """

    _names_command = False
    """Whether the words that are parsed begin with the name of a command of the group."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments; for a command of the group, and its path, the help alone."""
        params = super().get_params(ctx)
        is_own = not self._names_command and ctx.command is self
        return params if is_own else [param for param in params if param.name == "help"]

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Return the arguments after the options of the group."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)  # Typer prints its own help here, and nothing of ours
            ctx.exit(2)
        if not self.invoke_without_command:
            return super().parse_args(ctx, args)
        self._names_command = bool(args) and args[0] in self.commands
        try:
            if not self._names_command:
                ctx.allow_interspersed_args, ctx.allow_extra_args = True, False
                if args and not any(param.param_type_name == "argument" for param in self.params):
                    self._refuse_unknown(ctx, args[0])
            return super().parse_args(ctx, args)
        finally:
            self._names_command = False

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return name, command and remaining arguments; a mistake if there is no such command."""
        self._refuse_unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _refuse_unknown(self, ctx: Any, name: str) -> None:
        if not name.startswith("-") and not ctx.resilient_parsing and name not in self.commands:
            ctx.fail(unknown("command", name, self.list_commands(ctx), listed_by=f"{ctx.command_path} --help"))


def _unless_absent(parameter: Any) -> Callable[[Any, Any], Any]:
    process = type(parameter).process_value.__get__(parameter)
    return lambda context, value: None if value is None else process(context, value)


def command_group(name: str, help_text: str = "") -> typer.Typer:
    """Return a group of commands; one without a help text is a command itself (`runs` of `command`)."""
    return typer.Typer(name=name, cls=CommandGroup, help=help_text, no_args_is_help=bool(help_text))


def command(
    *examples: str,
    exits: str = "",
    of: typer.Typer | None = None,
    name: str | None = None,
    runs: typer.Typer | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command. A parameter whose type is a dataclass stands for the options that are its fields.

    Args:
        examples: command lines, for the pages of commands.
        exits: exit codes in words that the command has besides those of all commands.
        of: group of the command; a command of `ragtide` itself stands in the list of `app.py`.
        name: of a command of a group; by default that of the function.
        runs: group that runs the function when no command of it is named.
    """

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        joined: dict[str, Any] = {parameter: kind for parameter, kind in hints.items() if is_dataclass(kind)}

        @wraps(function)
        def run(**options: Any) -> None:
            if getattr(options.get("context"), "invoked_subcommand", None) is not None:
                return  # of a group: one of its commands runs
            for prepare in before_command:
                prepare()
            for parameter, kind in joined.items():
                options[parameter] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
            function(**options)

        vars(run).update(examples=examples, exits=exits)
        if joined:
            declared: list[inspect.Parameter] = []
            for parameter in inspect.signature(function).parameters.values():
                kind = joined.get(parameter.name)
                declared += [parameter] if kind is None else inspect.signature(kind).parameters.values()
                hints.update({} if kind is None else get_type_hints(kind, include_extras=True))
            vars(run)["__signature__"] = inspect.Signature(declared)
            run.__annotations__ = {parameter.name: hints[parameter.name] for parameter in declared}
        if runs is not None:
            runs.info.help = inspect.getdoc(function)
            runs.callback(invoke_without_command=True)(run)
        return run if of is None else of.command(name, cls=CliCommand)(run)

    return declare


def line_in_list(added: Callable[..., None] | typer.Typer) -> str:
    """Return the line of a command or a group in the list of commands: the first sentence of its help."""
    return first_sentence(str(added.info.help) if isinstance(added, typer.Typer) else inspect.getdoc(added) or "")


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text in one line."""
    return joined(re.split(r"(?<=\.)\s", text, maxsplit=1)[0])


def help_page(command: Any, context: Any) -> Group:
    """Return the help of a command.

    Args:
        command: command, or group of commands.
        context: context of the command, with its whole path.
    """
    parameters = [parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    groups: dict[str, list[tuple[str, str]]] = {}
    listed = None if context.parent is not None else context.meta.get(LISTED)
    for name in listed or (command.list_commands(context) if hasattr(command, "list_commands") else ()):
        child = command.commands[name]
        rows = groups.setdefault((not listed and child.rich_help_panel) or "Commands", [])
        rows.append((name, first_sentence(child.help or "")))
    sections = {
        **groups,
        "Arguments": [(argument_name(argument), explained(argument)) for argument in arguments],
        "Options": [(option_name(option, context), explained(option)) for option in options],
    }
    widths = dict.fromkeys(groups, max((len(name) for rows in groups.values() for name, _ in rows), default=0))
    named = [argument_name(argument) if argument.required else f"[{argument_name(argument)}]" for argument in arguments]
    path, runs = context.command_path, not groups or command.invoke_without_command
    lines = [f"{path} {' '.join(['[OPTIONS]', *named])}"] if runs else []
    lines += [f"{path} {'' if runs else '[OPTIONS] '}COMMAND ..."] if groups else []
    return Group(
        Text("Usage: " + "\n       ".join(lines) + "\n"),
        Text("\n\n".join(joined(paragraph) for paragraph in (command.help or "").split("\n\n")) + "\n"),
        *(part for title, rows in sections.items() if rows for part in _section(title, rows, widths.get(title, 0))),
    )


def _section(title: str, rows: Rows, width: int) -> Iterator[Text | Padding]:
    columns: list[Column[tuple[str, str]]] = [
        Column("", lambda row: Text(row[0].ljust(width), style="cyan")),
        Column("", lambda row: Text(row[1]), folds=UNLIMITED),
    ]
    yield Text(title, style="bold")
    yield Padding(folded(columns, rows), (0, 0, 0, 2))


def joined(text: str | None) -> str:
    """Return a text in one line."""
    return " ".join((text or "").split())


def argument_name(argument: Any) -> str:
    """Return the name of an argument, with dots if there may be several."""
    name = argument.metavar or argument.name.upper()
    return name if argument.nargs == 1 or name.endswith("...") else f"{name}..."


def option_name(option: Any, context: Any) -> str:
    """Return the names of an option, and the kind of its value."""
    names = ", ".join(sorted(option.opts, key=len, reverse=True))
    if option.is_flag:
        return names
    kind = option.metavar or option.display_type(context).strip("<>").removeprefix("list[").rstrip("]")
    return f"{names} {VALUES.get(kind.removesuffix(' range'), kind)}"


def explained(parameter: Any) -> str:
    """Return the help of a parameter, with its limits and its default."""
    lowest, highest = getattr(parameter, "min", None), getattr(parameter, "max", None)
    limits = [f"from {lowest:g}" if lowest is not None else "", f"to {highest:g}" if highest is not None else ""]
    parts = [joined(parameter.help), " ".join(filter(None, limits))]
    default = parameter.default
    if isinstance(default, Enum):
        default = default.value
    if isinstance(default, str | int | float) and not isinstance(default, bool) and default != "":
        parts.append(f"default: {default}")
    notes = [part for part in parts[1:] if part]
    return f"{parts[0]} [{'; '.join(notes)}]" if notes else parts[0]
