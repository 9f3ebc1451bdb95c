"""Keys that a person types one after another: of a terminal at once, of a pipe or a file character by character."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from .keyboard import READ_BYTES, KeyDecoder

try:
    import termios
    import tty
except ImportError:  # Windows has no terminal settings
    termios = tty = None  # type: ignore[assignment]

END: Final = b"\x04"
"""Ctrl-D, which ends the input of a terminal."""


@contextmanager
def typed_keys(stream: TextIO) -> Iterator[Callable[[], str | None]]:
    """Yield a function that waits for the next key and returns it, or None at the end of the input.

    A terminal is as before afterwards. Of other input, white space is left out.

    Args:
        stream: standard input.
    """
    if termios is None or not stream.isatty():
        yield lambda: _next_character(stream)
        return
    file, decoder, keys = stream.fileno(), KeyDecoder(), deque[str | None]()

    def next_key() -> str | None:
        while not keys:
            data, end, _ = os.read(file, READ_BYTES).partition(END)
            keys.extend(decoder.feed(data))
            if end or not data:
                keys.append(None)
        return keys.popleft()

    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)  # keys come at once and are not echoed; Ctrl-C is still a signal
        yield next_key
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _next_character(stream: TextIO) -> str | None:
    while character := stream.read(1):
        if not character.isspace():
            return character
    return None
