"""The pages of the commands: every command has an example that the program accepts, and its exit codes."""

import shlex
from collections.abc import Collection, Iterator
from typing import Any

import pytest
import typer
from tests.support.cases import for_each
from tools.pages.commands import COMMAND_PAGES

from ragtide.cli.app import COMMANDS, cli
from ragtide_aggregator.estimates.choices import ESTIMATORS, RECOMMENDED
from ragtide_aggregator.estimates.estimates import STRATEGIES
from ragtide_aggregator.estimates.live import LIVE
from ragtide_aggregator.statistics.tables.names import ALL_TIME
from ragtide_offline.report.experiment import ITEMS
from ragtide_offline.report.mlflow_export import EXPERIMENT
from ragtide_producers import FORMATS

pytestmark = pytest.mark.pure


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, and each command of a group, by its words."""
    waiting = list(typer.main.get_command(cli).commands.items())  # type: ignore[attr-defined]
    for name, command in waiting:
        if not getattr(command, "commands", {}) or command.invoke_without_command:
            yield name, command
        waiting += [(f"{name} {child}", found) for child, found in getattr(command, "commands", {}).items()]


LINES = [line for _, command in commands() for line in command.callback.examples]


@for_each("path, command", list(commands()))
def test_every_command_has_an_example_of_its_own(path: str, command: Any) -> None:
    assert [line for line in command.callback.examples if f" {path}" in line] == list(command.callback.examples) != []


@for_each("line", LINES)
def test_the_program_accepts_an_example(line: str) -> None:
    """Parse the arguments as the program does, and begin nothing."""
    words = shlex.split(line.partition(" > ")[0])
    words = words[next(place for place, word in enumerate(words) if word == "ragtide") + 1 :]
    group: Any = typer.main.get_command(cli)
    context = group.make_context("ragtide", words)
    while True:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
        if not getattr(command, "commands", {}) or not [*context._protected_args, *context.args]:
            break
        group = command
    assert line in command.callback.examples


@for_each(
    "path, option, names, default",
    [
        ("score", "strategy", STRATEGIES, "normal"),
        ("score", "file_format", FORMATS, None),
        ("fit", "file_format", FORMATS, None),
        ("estimates", "strategy", LIVE, None),
        ("estimates", "estimator", (*ESTIMATORS, RECOMMENDED), None),
        ("estimates", "window", (ALL_TIME,), None),
        ("compare", "window", (ALL_TIME,), ALL_TIME),
        ("experiment report", "items", (), ITEMS),
        ("experiment report", "mlflow_experiment", (), EXPERIMENT),
    ],
)
def test_help_and_default_of_an_option_are_those_of_the_program(
    path: str, option: str, names: Collection[str], default: object
) -> None:
    """They are written down again, because a help imports nothing of the program."""
    (found,) = [one for one in dict(commands())[path].params if one.name == option]
    assert ", ".join(name for name in names if name != RECOMMENDED) in found.help
    assert found.default == default


def test_a_page_has_options_defaults_variables_and_exit_codes() -> None:
    live = COMMAND_PAGES["commands-live.md"]()
    assert "| `--confidence NUMBER` | Confidence level. (from 0.01 to 0.9999) |  | `RAGTIDE_CONFIDENCE` |" in live
    assert "Exit code: 1 if an option names something that is not there, 4 if the gate fails" in live
    offline = COMMAND_PAGES["commands-offline.md"]()
    assert "| `--speed TEXT` | Speed: original, a multiple of it such as 10x, or max. | `max` |  |" in offline
    assert "`[[alerts]]`" in offline
    first = COMMAND_PAGES["commands.md"]()
    assert all(f"ragtide-{name})" in first for name in COMMANDS)
