"""Takes the journeys of a new user from a fresh wheel, at 80 columns, and keeps the screens: `make journeys`.

Not a test module: it builds the wheel and installs it. A screen that lacks its words, shows forbidden words,
is wider than the terminal, or ends with another exit code is a failure. The table of pains, how each is now and where
that is shown is printed at the end, and kept as pains.md beside the screens.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from tests.journeys.first_alert import clean, roles, times
from tests.journeys.model import Journey, Pain, Step
from tests.journeys.pages import ROOT, read_pages
from tests.journeys.steps import JOURNEYS
from tests.journeys.terminal import COLUMNS, screen_of
from tests.support.conditions import HANGS_S
from tests.wheel import build, environment

from ragtide.testing import ScriptedJudge

NOT_FOUND = "not found"
"""State of an answer to which no link leads."""


class Shown(NamedTuple):
    """A pain, and where it is shown to be gone."""

    was: str
    now: str
    where: str
    state: str
    """`ok`, `issue 16`, `open`, or the fault."""


class Taken(NamedTuple):
    """A journey that was taken."""

    screens: str
    faults: list[str]
    pains: list[Shown]


def faults(step: Step, code: int, screen: str) -> list[str]:
    """Return the differences of a screen from its step."""
    words = words_of(screen)
    found = [f"exit code {code}, not {step.code}"] if code != step.code else []
    found += missing(step, words)
    for pain in step.pains:
        found += missing(pain, words)
    wide = [line for line in screen.splitlines() if cell_len(line) > COLUMNS]
    # A message that a user may copy is one line, which the terminal wraps.
    return found + [f"a table is wider than {COLUMNS} columns: {line}" for line in wide if "  " in line.strip()]


def missing(wanted: Step | Pain, words: str) -> list[str]:
    """Return the wanted words that are not there, and the forbidden words that are."""
    found = [f"does not show {text!r}" for text in wanted.shows if text not in words]
    return found + [f"shows {text!r}" for text in wanted.hides if text in words]


def words_of(screen: str) -> str:
    """Return the words of a screen without its frames and line ends."""
    return " ".join(re.sub(r"[│╭╮╰╯─●━]", " ", screen).split())


def take(journey: Journey, bin_folder: Path, folder: Path) -> Taken:
    """Take a journey in a folder of its own."""
    folder.mkdir()
    environ = clean(folder, **journey.environ)
    for name, text in journey.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("answers", "questions"):
        if f"{name}.py" in journey.files:
            with (folder / f"{name}.jsonl").open("w") as rows:
                subprocess.run([bin_folder / "python", f"{name}.py"], cwd=folder, stdout=rows, check=True)
    taken = Taken(f"# {journey.title}\n", [], [])
    with ExitStack() as stack:
        if journey.judge:
            server = stack.enter_context(ScriptedJudge())
            environ |= {**server.environment, "RAGTIDE_JUDGE_MODEL": "m"}
        if journey.up:
            stack.enter_context(roles(bin_folder / "ragtide", folder, environ))
        for step in journey.steps:
            code, screen = _settled(step, bin_folder, folder, environ)
            taken = taken._replace(screens=f"{taken.screens}\n$ {step.command}\n{screen}")
            taken.faults.extend(f"{journey.title}: {step.command}: {fault}" for fault in faults(step, code, screen))
            for pain in step.pains:
                wrong = missing(pain, words_of(screen)) or ([] if code == step.code else [f"exit code {code}"])
                taken.pains.append(Shown(pain.was, pain.now, step.command, "; ".join(wrong) or "ok"))
    for pain in journey.pains:
        state = f"issue {pain.issue}" if pain.issue else "ok" if is_tested(pain) else "its test is not there"
        taken.pains.append(Shown(pain.was, pain.now, pain.test, state))
        if not pain.issue and not is_tested(pain):
            taken.faults.append(f"{journey.title}: {pain.was}: there is no {pain.test}")
    return taken


def _settled(step: Step, bin_folder: Path, folder: Path, environ: dict[str, str]) -> tuple[int, str]:
    program, *arguments = shlex.split(step.command)
    deadline = time.monotonic() + HANGS_S
    while True:
        code, screen, _ = screen_of([str(bin_folder / program), *arguments], folder, {**environ, **step.environ})
        if not (faults(step, code, screen) and step.settles and time.monotonic() < deadline):
            return code, screen


def is_tested(pain: Pain) -> bool:
    """Return whether the test that shows a pain to be gone is there."""
    file, _, name = pain.test.partition("::")
    return (ROOT / file).is_file() and (not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"))


def read() -> Taken:
    """Take the journey through the pages."""
    pains = [
        Shown(page.was, page.now, "", NOT_FOUND)
        if page.clicks is None
        else Shown(page.was, page.now, f"clicks from the README: {page.clicks}", "ok")
        for page in read_pages()
    ]
    lost = [f"The pages: {one.was}" for one in pains if one.state == NOT_FOUND]
    lines = "\n".join(f"{one.was}\n    {one.now} ({one.where or one.state})" for one in pains)
    return Taken(f"# The pages\n\n{lines}\n", lost, pains)


def table(taken: list[tuple[str, Taken]]) -> str:
    """Return the pains of all journeys as a Markdown table."""
    rows = ["| journey | pain | now | shown by | |", "|---|---|---|---|---|"]
    for title, one in taken:
        rows += [f"| {title} | {pain.was} | {pain.now} | `{pain.where}` | {pain.state} |" for pain in one.pains]
    return "\n".join(rows).replace("``", "") + "\n"


def main() -> None:
    """Build, install, take the journeys, and write a file of screens for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/journeys"), help="where the screens are written")
    parser.add_argument("--bin", type=Path, help="programs of an environment with ragtide, in place of a fresh wheel")
    parser.add_argument("--only", type=int, action="append", help="number of a journey; may be repeated")
    parser.add_argument("--times", action="store_true", help="measure only the time to the first alert")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    taken: list[tuple[str, Taken]] = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        wheel = None if options.bin else build(work)
        if wheel is not None:
            _write_times(options.folder / "first-alert.txt", work, wheel)
        if options.times:
            return
        bin_folder = options.bin or environment(work / "full", f"{wheel}[service,embedded,recorder]")
        for number, journey in enumerate([*JOURNEYS, None], 1):
            if options.only and number not in options.only:
                continue
            started, title = time.monotonic(), "The pages" if journey is None else journey.title
            one = read() if journey is None else take(journey, bin_folder.absolute(), work / f"journey-{number}")
            file = options.folder / f"{number}-{title.lower().replace(' ', '-')}.txt"
            file.write_text(one.screens, encoding="utf-8")
            taken.append((f"{number} {title}", one))
            sys.stdout.write(f"{title}: {time.monotonic() - started:.0f} s, {len(one.faults)} faults, {file}\n")
    (options.folder / "pains.md").write_text(table(taken), encoding="utf-8")
    sys.stdout.write(f"\n{table(taken)}\n")
    wrong = [fault for _, one in taken for fault in one.faults]
    sys.stdout.write("".join(f"{one}\n" for one in wrong))
    sys.exit(1 if wrong else 0)


def _write_times(file: Path, work: Path, wheel: Path) -> None:
    lines = []
    for line in times(work, wheel):
        sys.stdout.write(f"{line}\n")
        lines.append(f"{line}\n")
    file.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
