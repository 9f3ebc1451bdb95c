"""Takes the journeys of a new user from a fresh wheel, at 80 columns, and keeps the screens: `make journeys`.

Not a test module: it builds the wheel and installs it. A screen that lacks its words, shows forbidden words,
is wider than the terminal, or ends with another exit code is a failure.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.cells import cell_len
from tests.journeys.steps import JOURNEYS, Journey, Step
from tests.support.conditions import HANGS_S
from tests.wheel import build, environment

from ragtide.testing import ScriptedJudge

COLUMNS, LINES = 80, 50
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def screen_of(command: list[str], folder: Path, environ: dict[str, str]) -> tuple[int, str]:
    """Return the exit code and the text of a command on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environ)
    os.close(theirs)
    read, deadline = bytearray(), time.monotonic() + HANGS_S
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    found = os.read(ours, 65536)
                except OSError:  # the command has ended
                    break
                read.extend(found)
        return process.wait(max(deadline - time.monotonic(), 1)), shown(read.decode(errors="replace"))
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def shown(written: str) -> str:
    """Return the lines that stay on the terminal: of a line that is redrawn, the last text."""
    lines = ESCAPES.sub("", written).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)


def faults(step: Step, code: int, screen: str) -> list[str]:
    """Return the differences of a screen from its step."""
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", screen).split())
    found = [f"exit code {code}, not {step.code}"] if code != step.code else []
    found += [f"does not show {text!r}" for text in step.shows if text not in words]
    found += [f"shows {text!r}" for text in step.hides if text in words]
    wide = [line for line in screen.splitlines() if cell_len(line) > COLUMNS]
    # A message that a user may copy is one line, which the terminal wraps.
    return found + [f"a table is wider than {COLUMNS} columns: {line}" for line in wide if "  " in line.strip()]


@contextmanager
def roles(program: Path, folder: Path, environ: dict[str, str]) -> Iterator[None]:
    """Run `ragtide up` for the body of a `with`."""
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen([program, "up"], cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(HANGS_S)


def take(journey: Journey, bin_folder: Path, folder: Path) -> tuple[str, list[str]]:
    """Take a journey in a folder of its own; return its screens and its faults."""
    folder.mkdir()
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAGTIDE_", "OPENAI_", "COLUMNS"))
    }
    environ |= {"TERM": "xterm-256color", "RAGTIDE_DATA_DIR": str(folder / "data")}
    for name, text in journey.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    if "answers.py" in journey.files:
        with (folder / "answers.jsonl").open("w") as rows:
            subprocess.run([bin_folder / "python", "answers.py"], cwd=folder, stdout=rows, check=True)
    screens, wrong = [f"# {journey.title}\n"], []
    with ExitStack() as stack:
        if journey.judge:
            server = stack.enter_context(ScriptedJudge())
            environ |= {**server.environment, "RAGTIDE_JUDGE_MODEL": "m"}
        if journey.up:
            stack.enter_context(roles(bin_folder / "ragtide", folder, environ))
        for step in journey.steps:
            program, *arguments = shlex.split(step.command)
            deadline = time.monotonic() + HANGS_S
            while True:
                code, screen = screen_of([str(bin_folder / program), *arguments], folder, environ)
                found = faults(step, code, screen)
                if not (found and step.settles and time.monotonic() < deadline):
                    break
            screens.append(f"$ {step.command}\n{screen}")
            wrong += [f"{journey.title}: {step.command}: {fault}" for fault in found]
    return "\n".join(screens), wrong


def main() -> None:
    """Build, install, take the journeys, and write a file of screens for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/journeys"), help="where the screens are written")
    parser.add_argument("--bin", type=Path, help="programs of an environment with ragtide, in place of a fresh wheel")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        bin_folder = options.bin or environment(work / "full", f"{build(work)}[service,embedded]")
        for number, journey in enumerate(JOURNEYS, 1):
            started = time.monotonic()
            screens, found = take(journey, bin_folder.absolute(), work / f"journey-{number}")
            file = options.folder / f"{number}-{journey.title.lower().replace(' ', '-')}.txt"
            file.write_text(screens, encoding="utf-8")
            wrong += found
            sys.stdout.write(f"{journey.title}: {time.monotonic() - started:.0f} s, {len(found)} faults, {file}\n")
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
