"""The pages of every command, from the program itself."""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final

import typer

from ragtide.cli.app import cli
from ragtide.cli.commands import argument_name, joined, option_name

_FIRST: Final = "commands.md"

_PAGES: Final[Mapping[str, tuple[str, ...]]] = {
    _FIRST: ("Start", "Publish"),
    "commands-live.md": ("Look (live)",),
    "commands-notify.md": ("Notify",),
    "commands-offline.md": ("Offline (files, without Redis)", "Record and replay"),
    "commands-experiments.md": ("Experiments",),
    "commands-operate.md": ("Operate",),
}
"""Groups of commands on each page."""

_TITLES: Final[Mapping[str, str]] = {
    "commands-live.md": "Commands: live",
    "commands-notify.md": "Commands: notify",
    "commands-offline.md": "Commands: offline",
    "commands-experiments.md": "Commands: experiments",
    "commands-operate.md": "Commands: operate",
}

_INTRODUCTION: Final = """\
`ragtide COMMAND --help` shows the same in a terminal. An option of a command overrides the
environment, which overrides `ragtide.toml` ([Settings](settings.md))."""

_EXIT_CODES: Final = """\
## Exit codes

Every command ends with 0 if it is done, with 1 after an error, with 2 if the command line is wrong, and with 130 after
Ctrl-C. An error is told in one sentence. Further exit codes stand with their commands
([exit codes](gates.md#exit-codes))."""

_GATE: Final = "4 if the gate fails, 5 if it is undecided"

_VARIABLE: Final = re.compile(r" \[([A-Z_]+)\](?=\.?$)")
"""The environment variable at the end of a help text."""


def commands_page(page: str) -> str:
    """Return a page with every command of its groups."""
    root: Any = typer.main.get_command(cli)
    context = root.make_context("ragtide", [], resilient_parsing=True)
    groups: dict[str, list[str]] = {}
    for name in root.list_commands(context):
        groups.setdefault(root.commands[name].rich_help_panel, []).append(name)
    if page == _FIRST:
        parts = ["# Commands", _INTRODUCTION, _overview(root.commands, groups), _EXIT_CODES]
        parts += ["## Options before the command", _options(root, context)]
    else:
        parts = [f"# {_TITLES[page]}", f"{_INTRODUCTION} [{_FIRST}]({_FIRST}) lists all commands."]
    for group in _PAGES[page]:
        for name in groups[group]:
            parts += _command(root.commands[name], name, context)
    return "\n\n".join(parts) + "\n"


COMMAND_PAGES: Final[Mapping[str, Callable[[], str]]] = {page: partial(commands_page, page) for page in _PAGES}
"""Every page of commands."""


def _overview(commands: Mapping[str, Any], groups: Mapping[str, list[str]]) -> str:
    """Return a table of all commands with links."""
    rows = ["| command | |", "|---|---|"]
    pages = {group: "" if page == _FIRST else page for page, groups in _PAGES.items() for group in groups}
    for group, names in groups.items():
        rows.append(f"| **{group}** | |")
        rows += [f"| [`{name}`]({pages[group]}#ragtide-{name}) | {commands[name].short_help} |" for name in names]
    return "\n".join(rows)


def _command(command: Any, name: str, parent: Any, depth: int = 2) -> Iterator[str]:
    """Yield the parts about a command, and about the commands below it."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    path = context.command_path
    examples, own_exits = (getattr(command.callback, name, "") for name in ("examples", "exits"))
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    yield f"{'#' * depth} {path}"
    yield from (_cell(joined(paragraph)) for paragraph in (command.help or "").split("\n\n"))
    if examples:
        yield "\n".join(f"    {line}" for line in examples)
    if arguments:
        rows = [f"| `{_argument(argument)}` | {_meaning(argument)[0]} |" for argument in arguments]
        yield "\n".join(["| argument | |", "|---|---|", *rows])
    options = _options(command, context)
    if options:
        yield options
    exits = [own_exits, _GATE if any(param.name == "fail_if" for param in command.params) else ""]
    if any(exits):
        yield f"Exit code: {', '.join(filter(None, exits))}."
    for child_name, child in getattr(command, "commands", {}).items():
        yield from _command(child, child_name, context, depth + 1)


def _argument(argument: Any) -> str:
    return argument_name(argument) if argument.required else f"[{argument_name(argument)}]"


def _options(command: Any, context: Any) -> str:
    """Return a table of the options, without `--help`."""
    rows = []
    for option in command.params:
        if option.param_type_name != "option" or option.name == "help" or "completion" in option.name:
            continue
        meaning, variable = _meaning(option)
        name = option_name(option, context).replace("|", "\\|")
        rows.append(f"| `{name}` | {meaning} | {_default(option)} | {variable} |")
    return "\n".join(["| option | | default | environment |", "|---|---|---|---|", *rows]) if rows else ""


def _meaning(parameter: Any) -> tuple[str, str]:
    """Return the help of a parameter with its limits, and its environment variable."""
    text = joined(parameter.help)
    variable = _VARIABLE.search(text)
    lowest, highest = getattr(parameter, "min", None), getattr(parameter, "max", None)
    limits = [f"from {lowest:g}" if lowest is not None else "", f"to {highest:g}" if highest is not None else ""]
    limited = f" ({' '.join(filter(None, limits))})" if any(limits) else ""
    return _cell(_VARIABLE.sub("", text)) + limited, "" if variable is None else f"`{variable[1]}`"


def _default(option: Any) -> str:
    default = option.default.value if isinstance(option.default, Enum) else option.default
    shown = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    return f"`{default}`" if shown else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("[[alerts]]", "`[[alerts]]`")
