"""What a user waits for, at an earlier commit and now: the page, live numbers, imports, commands, roles, files.

    python benchmarks/light.py [--before COMMIT] [--short] [--largest 10000] [--only imports roads] > light.md

The earlier commit is checked out in a folder of its own. Each part (`waiting/probes.py`) then runs in a process of its
own with the packages of both in turn, by the scripts and libraries of this checkout, so that both meet the same state
of the machine. `--before none` measures this checkout alone. Parts that take long have one round. Printed as Markdown:
medians over the rounds, ratios within a round. A part that the earlier commit cannot run is "not measured" there.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from before_after import Tree, run, this_tree, tree_of
from waiting.probes import probes
from waiting.table import Rounds, counts, sections

NAMED: Final = "c889f32a"
"""The commit of which the aims were made."""
LONG: Final = ("screens", "delays")
"""Parts with one round."""
LONGEST_S: Final = 600

HEAD: Final = """\
# Light and live

Written by `make light{arguments}` (`benchmarks/light.py`) on {date}: commit {now}{before}, Python {python}, {cores}
cores for Redis, every role and the readers together. The load of the machine was {load}. Both sides of a ratio were
measured in one run, so compare ratios rather than seconds. {met} of {known} aims are met.
"""


def figures_of(name: str, tree: Tree, arguments: Sequence[str]) -> dict[str, float]:
    """Return what a part measures of a tree; nothing if it fails there."""
    command = (sys.executable, str(Path(__file__)), "--probe", name, "--tree", str(tree.folder), *arguments)
    try:
        figures: dict[str, float] = json.loads(run(*command, tree=tree, timeout_s=LONGEST_S).splitlines()[-1])
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        say(f"{name} of {tree.commit} failed: {error}")
        return {}
    return figures


def measured(trees: Sequence[Tree], names: Sequence[str], rounds: int, arguments: Sequence[str]) -> list[Rounds]:
    """Return the figures of each tree; the trees take turns, and every other round the last one begins."""
    found: list[list[dict[str, float]]] = [[] for _ in trees]
    for number in range(rounds):
        for figures in found:
            figures.append({})
        for name in names:
            if number and name in LONG:
                continue
            turn = list(zip(trees, found, strict=True))
            for tree, figures in reversed(turn) if number % 2 else turn:
                say(f"round {number + 1}: {name} of {tree.commit}")
                figures[-1] |= figures_of(name, tree, arguments)
    return list(found)


def say(what: str) -> None:
    """Show progress."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def load() -> str:
    """Return the load of the machine."""
    return f"{os.getloadavg()[0]:.1f}"


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help=f"the commit to compare with, or none; {NAMED} without --short")
    parser.add_argument("--short", action="store_true", help="about two minutes: this checkout, few items, one round")
    parser.add_argument("--rounds", type=int, default=3, help="of the parts that do not take long")
    parser.add_argument("--largest", type=int, default=3000, help="pipelines of the largest deployment")
    parser.add_argument("--only", nargs="+", help="parts to measure")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--tree", type=Path, default=Path(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = probes(options.tree, short=options.short, largest=options.largest)
    if options.probe:
        print(json.dumps(parts[options.probe]()))
        return
    names = [name for name in parts if options.only is None or name in options.only]
    passed = ["--short"] * options.short + ["--largest", str(options.largest)]
    begun, trees = load(), [this_tree()]
    with ExitStack() as stack:
        if (commit := options.before or ("none" if options.short else NAMED)) != "none":
            trees.insert(0, stack.enter_context(tree_of(commit)))
        *earlier, after = measured(trees, names, 1 if options.short else options.rounds, passed)
    met, known = counts(after)
    given = " ".join(sys.argv[1:])
    print(
        HEAD.format(
            arguments=f' ARGS="{given}"' if given else "",
            date=time.strftime("%Y-%m-%d"),
            now=trees[-1].commit,
            before=f" beside {trees[0].commit} (before)" if earlier else "",
            python=platform.python_version(),
            cores=os.cpu_count(),
            load=f"{begun} before and {load()} at the end",
            met=met,
            known=known,
        ),
        end="",
    )
    print("\n".join(sections(earlier[0] if earlier else [], after)))


if __name__ == "__main__":
    main()
