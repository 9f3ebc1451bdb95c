"""Renders the help of every command as plain text in two columns, which cuts no text at 80 columns.

Typer's own help reads its texts as Rich markup, which swallows `[[alerts]]`, and cuts long words with an ellipsis.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Rows = Sequence[tuple[str, str]]
"""Names, each with its text."""

VALUES: Final = {"str": "TEXT", "path": "PATH", "int": "NUMBER", "float": "NUMBER"}
"""Words of the help for the types of Python."""


def help_page(command: Any, context: Any) -> Group:
    """Return the help of a command.

    Args:
        command: command, or group of commands.
        context: context of the command, with its whole path.
    """
    parameters = [one for one in command.get_params(context) if not getattr(one, "hidden", False)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.commands[name]
        rows = groups.setdefault(child.rich_help_panel or "Commands", [])
        rows.append((name, joined(child.short_help or child.help)))
    sections = {
        **groups,
        "Arguments": [(argument_name(one), explained(one)) for one in arguments],
        "Options": [(option_name(one, context), explained(one)) for one in options],
    }
    named = [argument_name(one) if one.required else f"[{argument_name(one)}]" for one in arguments]
    pieces = [context.command_path, "[OPTIONS]", *named, *(["COMMAND ..."] if any(groups.values()) else [])]
    return Group(
        Text(f"Usage: {' '.join(pieces)}\n"),
        Text("\n\n".join(joined(paragraph) for paragraph in (command.help or "").split("\n\n")) + "\n"),
        *(part for title, rows in sections.items() if rows for part in _section(title, rows, _width(groups, title))),
    )


def _width(groups: Mapping[str, Rows], title: str) -> int:
    return max(len(name) for rows in groups.values() for name, _ in rows) if title in groups else 0


def _section(title: str, rows: Rows, width: int) -> Iterator[Text | Padding]:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name, style="cyan"), Text(text))
    yield Text(title, style="bold")
    yield Padding(table, (0, 0, 0, 2))


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
    found = [part for part in parts[1:] if part]
    return f"{parts[0]} [{'; '.join(found)}]" if found else parts[0]
