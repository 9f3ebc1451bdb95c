"""Processor time of each stage at an earlier commit and now, in alternating runs.

    python benchmarks/before_after.py COMMIT [--interactions 8000] [--rounds 5] > benchmarks/measured/stages.md

The earlier commit is checked out in a folder of its own. Then `throughput.py` of this checkout runs with the packages
of both in turn, with the libraries of this environment, so that both meet the same state of the machine. Printed as
Markdown: the medians over the rounds, and the lowest, median and highest ratio to raw redis-py in the same run.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit whose packages can be run."""

    commit: str
    folder: Path = ROOT
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with which Python finds the packages of the tree; none of them for this checkout."""


def run(*command: str | Path, tree: Tree | None = None, timeout_s: float | None = None) -> str:
    """Return what a command prints, with the packages of a tree; by default with those of this checkout.

    Raises:
        CalledProcessError: the command failed.
        TimeoutExpired: it took longer than the timeout.
    """
    environment = {**os.environ, **(tree.variables if tree else {})}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment, timeout=timeout_s
    )
    return done.stdout.strip()


def this_tree() -> Tree:
    """Return this checkout, with bytecode of its packages."""
    _compile(ROOT)
    return Tree(run("git", "rev-parse", "--short", "HEAD"))


def _compile(folder: Path) -> list[str]:
    """Write the bytecode of the packages of a tree, as an installation does, and return the folders that have them."""
    build = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    roots = [str(folder / root) for root in build["dev-mode-dirs"]]
    run(sys.executable, "-m", "compileall", "-q", *roots)
    return roots


@contextmanager
def tree_of(commit: str) -> Iterator[Tree]:
    """Give a checkout of a commit, with bytecode of its packages, for the body of a `with`."""
    with tempfile.TemporaryDirectory() as name:
        checkout = Path(name) / "checkout"
        run("git", "worktree", "add", "--quiet", "--detach", checkout, commit)
        try:
            roots = _compile(checkout)
            # PYTHONPATH is searched before the packages of this checkout, which its environment names in a .pth file.
            yield Tree(commit[:8], checkout, {"PYTHONPATH": os.pathsep.join(roots)})
        finally:
            run("git", "worktree", "remove", "--force", checkout)


def measured(tree: Tree, interactions: int) -> dict[str, Any]:
    """Return the numbers of one round with the packages of a tree."""
    command = (sys.executable, HERE / "throughput.py", "--interactions", str(interactions), "--rounds", "1", "--json")
    numbers: dict[str, Any] = json.loads(run(*command, tree=tree))
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
    before, after, now = [], [], this_tree()
    with tree_of(arguments.commit) as earlier:
        for _ in range(arguments.rounds):
            before.append(measured(earlier, arguments.interactions))
            after.append(measured(now, arguments.interactions))
    print(
        HEAD.format(
            commit=arguments.commit,
            now=now.commit,
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
