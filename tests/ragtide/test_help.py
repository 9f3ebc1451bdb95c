"""The help of every command shows its texts whole: rich reads square brackets around small letters as markup."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from ragtide.cli.app import COMMANDS, cli


def texts(command: Any) -> Iterator[str]:
    yield command.help or ""
    for parameter in command.params:
        yield getattr(parameter, "help", None) or ""
    for child in getattr(command, "commands", {}).values():
        yield from texts(child)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_part_of_a_help_text_is_lost(name: str) -> None:
    group: Any = typer.main.get_command(cli)
    found = [text for text in texts(group.get_command(None, name)) if text]
    assert found
    assert [text for text in found if Text.from_markup(text).plain != text] == []
