"""The pages of the commands: every command has an example that the program accepts, and its exit codes."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tests.support.cases import for_each
from tools.pages.commands import COMMAND_PAGES

from ragtide.cli.app import cli
from ragtide.cli.command_examples import EXAMPLES, EXITS
from ragtide.cli.command_list import COMMANDS
from ragtide.cli.declarations import declarations, load_command

pytestmark = pytest.mark.pure


def paths() -> Iterator[str]:
    """Every command that does something, and each command of a group."""
    for name, declaration in declarations().items():
        children = declaration.get("commands", {})
        if not children or declaration.get("invoke_without_command"):
            yield name
        yield from (f"{name} {child}" for child in children)


def test_every_command_has_an_example_and_no_example_is_of_another() -> None:
    assert sorted(EXAMPLES) == sorted(paths())
    assert EXITS.keys() <= EXAMPLES.keys()


@for_each("line", [line for lines in EXAMPLES.values() for line in lines])
def test_the_program_accepts_an_example(line: str) -> None:
    """Parse the arguments as the program does, and begin nothing."""
    words = shlex.split(line.partition(" > ")[0])
    words = words[next(place for place, word in enumerate(words) if word == "ragtide") + 1 :]
    group: Any = typer.main.get_command(cli)
    context = group.make_context("ragtide", words)
    path = []
    while True:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        path.append(name)
        loaded = load_command(name) if len(path) == 1 else command
        context = loaded.make_context(name, rest, parent=context)
        if not getattr(loaded, "commands", {}) or not [*context._protected_args, *context.args]:
            break
        group = loaded
    assert line in EXAMPLES[" ".join(path)]


def test_a_page_has_options_defaults_variables_and_exit_codes() -> None:
    live = COMMAND_PAGES["commands-live.md"]()
    assert "| `--confidence NUMBER` | Confidence level. (from 0.01 to 0.9999) |  | `RAGTIDE_CONFIDENCE` |" in live
    assert "Exit code: 1 if an option names something that is not there, 4 if the gate fails" in live
    offline = COMMAND_PAGES["commands-offline.md"]()
    assert "| `--speed TEXT` | Speed: original, a multiple of it such as 10x, or max. | `max` |  |" in offline
    assert "`[[alerts]]`" in offline
    first = COMMAND_PAGES["commands.md"]()
    assert all(f"ragtide-{name})" in first for name in COMMANDS)
