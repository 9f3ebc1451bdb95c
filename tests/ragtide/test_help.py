"""The help of every command: groups, whole texts at 80 columns, and suggestions for a mistyped name."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tests.support.cases import for_each
from tests.support.in_process import run_command

from ragtide.cli.app import COMMANDS, FIRST_DAY, FORMER, cli

WIDTH = 80


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def root() -> Any:
    return typer.main.get_command(cli)


def pages(name: str) -> Iterator[tuple[Any, str]]:
    """The command of a name and each command below it, with the page of its help."""
    group = root()
    context = group.make_context("ragtide", [], resilient_parsing=True)
    waiting = [(group.get_command(context, name), name, context)]
    while waiting:
        command, called, parent = waiting.pop()
        here = command.make_context(called, [], parent=parent, resilient_parsing=True)
        yield command, command.get_help(here)
        waiting += [(child, child_name, here) for child_name, child in getattr(command, "commands", {}).items()]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@for_each("name", COMMANDS)
def test_no_part_of_a_help_text_is_lost_at_80_columns(name: str) -> None:
    for command, page in pages(name):
        found = in_one_line(page)
        texts = [command.help, *(parameter.help for parameter in command.params)]
        assert all(texts), f"{command.name} has a text missing: {texts}"
        assert [text for text in texts if in_one_line(text) not in found] == []
        assert "…" not in page
        assert [line for line in page.splitlines() if len(line) > WIDTH] == []


def test_square_brackets_survive() -> None:
    (_, replay), *_ = pages("replay")
    assert "TOML file with the [[alerts]] to test" in in_one_line(replay)


def test_the_commands_stand_in_groups_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    page = run_command(capsys, "--help", "--all").stdout
    assert run_command(capsys, "--all", "--help").stdout == page
    lines = [line.strip() for line in page.splitlines()]
    assert len(lines) <= 64
    rows = dict(line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2)
    commands = root().commands
    assert list(commands) != COMMANDS  # Typer's own order, in which groups of commands come last
    assert [name for name in rows if name in commands] == COMMANDS
    for name, command in commands.items():
        assert rows[name] == command.short_help
        assert command.rich_help_panel in lines


def test_the_help_lists_the_commands_of_the_first_day(capsys: pytest.CaptureFixture[str]) -> None:
    page = run_command(capsys, "--help").stdout
    assert re.findall(rf"^  ({'|'.join(COMMANDS)})  ", page, re.MULTILINE) == list(FIRST_DAY)
    assert "ragtide --help --all" in in_one_line(page)
    assert page.count("\n") <= 32


@for_each("former", FORMER)
def test_the_former_name_of_a_command_runs_the_present_one(capsys: pytest.CaptureFixture[str], former: str) -> None:
    page = run_command(capsys, *former.split(), "--help").stdout
    assert page == run_command(capsys, *FORMER[former].split(), "--help").stdout
    assert re.match(rf"Usage: .* {FORMER[former]} ", page)
    assert former.partition(" ")[0] not in COMMANDS


def test_the_first_word_of_a_group_that_runs_is_a_command_or_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    _, page = next(pages("score"))
    assert page.startswith("Usage: ragtide score [OPTIONS] FILES...\n       ragtide score COMMAND ...\n")
    assert "merged.jsonl cannot be read" in run_command(capsys, "score", "merged.jsonl").stderr
    assert "merge cannot be read" in run_command(capsys, "score", "--limit", "1", "--", "merge").stderr
    assert "Missing argument 'folder'" in run_command(capsys, "score", "merge").stderr


@for_each("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_line_in_the_list(name: str) -> None:
    command, _ = next(pages(name))
    assert command.help.startswith(command.short_help)
    assert command.short_help.count(".") == 1


@for_each("name", COMMANDS)
def test_completion_is_installed_by_ragtide_alone(name: str) -> None:
    for _, page in pages(name):
        assert "completion" not in page
        assert "--help, -h" in page


def test_flags_take_no_value_and_limits_are_in_words() -> None:
    (_, page), *_ = pages("estimates")
    assert "--json  " in page
    assert "[from 0.01 to 0.9999]" in in_one_line(page)
    assert not re.search(r"<\w", page)  # such as <float>; a condition has a "<", too


@for_each(
    "arguments, words",
    [
        (("estimate",), "no command 'estimate'; did you mean 'estimates'?"),
        (("dead-leters",), "no command 'dead-leters'; did you mean 'dead-letters'?"),
        (("experiment", "shw"), "no command 'shw'; did you mean 'show'? To list them: "),
        (("alerts", "akc", "x"), "no command 'akc'; did you mean 'ack'? To list them: "),
        (("workspaces", "remov", "x"), "no command 'remov'; did you mean 'remove'?"),
        (("xyzzy",), "no command 'xyzzy'. To list them: "),
    ],
)
def test_a_mistyped_command_is_suggested(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    done = run_command(capsys, *arguments)
    assert done.code == 2
    assert words in done.told


@for_each("group", [(), ("experiment",), ("rules",)])
def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str], group: tuple[str, ...]) -> None:
    done = run_command(capsys, *group)
    assert done.code == 2
    assert done.stderr.strip() == run_command(capsys, *group, "--help").stdout.strip()


def test_completion_of_a_command_has_its_line_of_help() -> None:
    group = root()
    context = group.make_context("ragtide", [], resilient_parsing=True)
    found = {item.value: item.help for item in group.shell_complete(context, "e")}
    assert found == {name: group.commands[name].short_help for name in ("estimates", "explain", "experiment")}
    assert [item.value for item in group.shell_complete(context, "--red")] == ["--redis-url"]
