"""Keys of a real pseudo-terminal, which is as before afterwards."""

import asyncio
import io
import os
import pty
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest
from tests.support.conditions import until

from ragtide.cli.running.watching import KeyDecoder, keyboard


@pytest.fixture
def terminal() -> Iterator[tuple[int, TextIO]]:
    """The end of a user, and the standard input of a program."""
    user, program = pty.openpty()
    with os.fdopen(program, "r") as stream:
        yield user, stream
    os.close(user)


def test_keys_have_names_and_other_input_is_left_out() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"aB/\x1b[A\x1bOB\x1b[6~\r\x7f") == [
        "a",
        "B",
        "/",
        "up",
        "down",
        "page-down",
        "enter",
        "backspace",
    ]
    assert decoder.feed(b"\x1b") == ["escape"]
    assert decoder.feed(b"\x1b[17~\x00\x01") == []
    assert decoder.feed("ü".encode()[:1]) == []
    assert decoder.feed("ü".encode()[1:]) == ["ü"]
    assert decoder.feed(b"\xff") == ["\ufffd"]


def test_keys_arrive_while_other_tasks_run(terminal: tuple[int, TextIO]) -> None:
    user, stream = terminal
    keys: list[str] = []

    async def run() -> None:
        with keyboard(stream, keys.append) as there:
            assert there
            os.write(user, b"s\x1b[B")
            await until(lambda: keys == ["s", "down"])

    asyncio.run(run())


@pytest.mark.parametrize("error", [None, RuntimeError("broken"), asyncio.CancelledError()])
def test_the_terminal_is_as_before_afterwards(terminal: tuple[int, TextIO], error: BaseException | None) -> None:
    _, stream = terminal
    before = termios.tcgetattr(stream)

    async def run() -> None:
        with keyboard(stream, lambda _: None):
            assert termios.tcgetattr(stream) != before
            if error is not None:
                raise error

    with suppress(RuntimeError, asyncio.CancelledError):
        asyncio.run(run())
    assert termios.tcgetattr(stream) == before


def test_without_a_terminal_no_keys_are_read() -> None:
    async def run() -> None:
        with keyboard(io.StringIO("q"), lambda _: None) as there:
            assert not there

    asyncio.run(run())
