"""The declarations of the commands, from which help and completion come, say the same as the commands."""

import json

import pytest
from tests.ragtide.test_help import pages, root

from ragtide.cli.command_list import COMMANDS
from ragtide.cli.declarations import FILE, describe_commands, load_command


def test_the_file_is_up_to_date() -> None:
    """`make schemas` writes it."""
    assert json.loads(FILE.read_bytes()) == describe_commands()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_declaration_is_that_of_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    declared = [page for _, page in pages(name)]
    group = root()
    monkeypatch.setattr(type(group), "get_command", lambda _group, _context, called: load_command(called))
    assert declared == [page for _, page in pages(name)]
