"""Processor time of each stage at an earlier commit and now, in alternating runs.

    python benchmarks/before_after.py COMMIT [--interactions 8000] [--rounds 5] > benchmarks/measured/stages.md

The earlier commit is checked out and installed in a folder of its own. Then `throughput.py` of this checkout runs with
the packages of both in turn, so that both meet the same state of the machine. Printed as Markdown: the medians over the
rounds, and the lowest, median and highest ratio to raw redis-py in the same run.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
NAMES = {
    "publish": "publish",
    "deliver": "deliver",
    "aggregate": "aggregate, 60 keys",
    "aggregate_1000": "aggregate, 1,000 keys",
    "label": "label",
    "small_publish": "publish, small texts",
    "small_deliver": "deliver, small texts",
}

HEAD = """\
# Cost of each stage

`python benchmarks/before_after.py {commit}` on {date}: {interactions} interactions of the demo,
{rounds} rounds, commits {commit} and {now} in turn, Python {python}. Times are processor time of
one interaction. "Raw" is redis-py alone, moving the same bytes in the same run: its asyncio
client, and for small texts its synchronous client with hiredis. For `label` it is one regular
expression that finds the words of the same texts. "Floor" is the time to validate, make and encode the
messages alone. Ratios have their median and range over the rounds.
"""
PICTURES = """
Where the time goes now (`make profiles`), by the room or library of the innermost Python frame.
Time in C counts for the frame that calls it.
"""


def run(*command: str | Path) -> str:
    """Return what a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()


@contextmanager
def installed(commit: str) -> Iterator[Path]:
    """Give the Python of an environment with the packages of a commit."""
    with tempfile.TemporaryDirectory() as name:
        checkout, environment = Path(name) / "checkout", Path(name) / "environment"
        run("git", "worktree", "add", "--detach", checkout, commit)
        try:
            run(sys.executable, "-m", "venv", environment)
            python = environment / "bin" / "python"
            run(python, "-m", "pip", "install", "--quiet", "-e", f"{checkout}[service,embedded]", "psutil")
            yield python
        finally:
            run("git", "worktree", "remove", "--force", checkout)


def measured(python: str | Path, interactions: int) -> dict[str, Any]:
    """Return the numbers of one round with the packages of an environment."""
    command = (python, HERE / "throughput.py", "--interactions", str(interactions), "--rounds", "1", "--json")
    numbers: dict[str, Any] = json.loads(run(*command))
    return numbers


def median(rounds: Sequence[dict[str, Any]], name: str) -> str:
    """Return the median of a number over the rounds."""
    found = statistics.median(numbers[name] for numbers in rounds)
    return f"{found:,.0f}" if name.endswith("bytes") else f"{found:.1f}"


def ratio(rounds: Sequence[dict[str, Any]], stage: str) -> str:
    """Return the median of a stage's ratio to raw redis-py over the rounds, and its range."""
    ordered = sorted(numbers["ratios"][stage][0] for numbers in rounds)
    return f"{statistics.median(ordered):.1f} ({ordered[0]:.1f} to {ordered[-1]:.1f})"


def table(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table of ratios and the table of Redis."""
    yield "| stage | before, us | now, us | raw, us | before / raw | now / raw | floor / raw |"
    yield "|---|---|---|---|---|---|---|"
    for stage, name in NAMES.items():
        floors = [numbers.get(f"{stage}_floor_us", 0) / numbers[f"{stage}_raw_us"] for numbers in after]
        floor = f"{statistics.median(floors):.1f}" if any(floors) else ""
        yield (
            f"| {name} | {median(before, f'{stage}_us')} | {median(after, f'{stage}_us')} "
            f"| {median(after, f'{stage}_raw_us')} | {ratio(before, stage)} | {ratio(after, stage)} | {floor} |"
        )
    yield ""
    yield "| Redis in the stage | before, us | now, us | raw, us | before, bytes | now, bytes | raw, bytes |"
    yield "|---|---|---|---|---|---|---|"
    for stage, name in NAMES.items():
        if stage != "label":
            numbers = (
                median(rounds, f"{stage}{raw}_redis_{unit}")
                for unit in ("us", "bytes")
                for rounds, raw in ((before, ""), (after, ""), (after, "_raw"))
            )
            yield f"| {name} | {' | '.join(numbers)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--interactions", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    before, after = [], []
    with installed(arguments.commit) as python:
        for _ in range(arguments.rounds):
            before.append(measured(python, arguments.interactions))
            after.append(measured(sys.executable, arguments.interactions))
    now = run("git", "rev-parse", "--short", "HEAD")
    print(
        HEAD.format(
            commit=arguments.commit,
            now=now,
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            interactions=f"{arguments.interactions:,}",
            rounds=arguments.rounds,
            python=platform.python_version(),
        )
    )
    print("\n".join(table(before, after)))
    print(PICTURES)
    for stage in ("publish", "deliver", "aggregate", "label"):
        print(f"![{stage}: processor time by room and library](profile_{stage}.svg)")


if __name__ == "__main__":
    main()
