"""Runs commands on a terminal of 80 columns, and returns their screens."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.conditions import HANGS_S

COLUMNS, LINES = 80, 50
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def screen_of(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], until: str | None = None
) -> tuple[int, str, float]:
    """Return the exit code and the text of a command, and the seconds until it ended or showed some words."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    started = time.monotonic()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environ)
    os.close(theirs)
    read, deadline, seconds = bytearray(), started + HANGS_S, 0.0
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    found = os.read(ours, 65536)
                except OSError:  # the command has ended
                    break
                read.extend(found)
                if until is not None and not seconds and until.encode() in read:
                    seconds = time.monotonic() - started
        code = process.wait(max(deadline - time.monotonic(), 1))
        return code, shown(read.decode(errors="replace")), seconds or time.monotonic() - started
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def shown(written: str) -> str:
    """Return the lines that stay on the terminal: of a line that is redrawn, the last text."""
    lines = ESCAPES.sub("", written).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)
