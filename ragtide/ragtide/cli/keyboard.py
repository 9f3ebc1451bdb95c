"""Keys that a person types, beside other tasks or one after another. The terminal is as before afterwards."""

import asyncio
import codecs
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

try:
    import termios
    import tty
except ImportError:  # Windows has no terminal settings
    termios = tty = None  # type: ignore[assignment]

READ_BYTES: Final = 1024

END: Final = b"\x04"
"""Ctrl-D, which ends the input of a terminal."""

NAMES: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b": "escape",
}
"""Names of keys by the text that a terminal sends."""

KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)


class KeyDecoder:
    """Turns the bytes of a terminal into keys: a printable character, or a name of `NAMES`; other keys are left out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        r"""Return the keys of the next bytes.

        >>> KeyDecoder().feed(b"a\x1b[A\r")
        ['a', 'up', 'enter']
        """
        found = (NAMES.get(key, key) for key in KEY.findall(self._decoder.decode(data)))
        return [key for key in found if key in NAMES.values() or (len(key) == 1 and key.isprintable())]


@contextmanager
def keyboard(stream: TextIO, on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call `on_key` with each key while the body runs, and yield whether there is a keyboard.

    Args:
        stream: standard input; without a terminal no keys are read.
        on_key: called in the event loop, never from a thread.
    """
    if termios is None or not stream.isatty():
        yield False
        return
    file, loop, decoder = stream.fileno(), asyncio.get_running_loop(), KeyDecoder()

    def read() -> None:
        data = os.read(file, READ_BYTES)  # does not wait: the loop has seen that there is input
        if not data:
            loop.remove_reader(file)
        for key in decoder.feed(data):
            on_key(key)

    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)  # keys come at once and are not echoed; Ctrl-C is still a signal
        loop.add_reader(file, read)
        yield True
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


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
