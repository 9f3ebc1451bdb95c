"""Prints the measures of a tree, and draws it: `python -m tools.house`."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.pages.parts import with_part

from .collected import collected_tests
from .imports import closets, plans
from .picture import picture
from .source import PACKAGES, source_measures
from .table import table

HERE = Path(__file__).resolve()
TREE = HERE.parents[2]


def measures(tree: Path) -> dict[str, Any]:
    """Return all measures of a tree; its product runs in another process."""
    roots = [str(tree / root) for root, _ in PACKAGES]
    run = subprocess.run(
        [sys.executable, "-m", "tools.house.interaction", str(tree)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TREE), *roots])},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(f"an interaction could not be measured:\n{run.stderr[-3000:]}")
    return {
        "source": source_measures(tree),
        "closets": closets(tree),
        "interaction": json.loads(run.stdout.splitlines()[-1]),
        "tests": collected_tests(tree, {"PYTHONPATH": os.pathsep.join(roots)}),
        "plans": plans(tree),
    }


def main() -> None:
    """Print the measures, or write their table into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=TREE, help="the tree to measure")
    parser.add_argument(
        "--against", type=Path, default=HERE.with_name("before.json"), help="measures of before, as JSON"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--write", type=Path, help="write the table as a generated part of this page, and house.svg beside it"
    )
    args = parser.parse_args()
    now = measures(args.tree.resolve())
    if args.json:
        print(json.dumps(now, indent=1))
        return
    before = json.loads(args.against.read_text(encoding="utf-8")) if args.against.is_file() else None
    lines = table(before, now)
    print(lines)
    if args.write is not None:
        args.write.write_text(with_part(args.write.read_text(encoding="utf-8"), "measures", lines), encoding="utf-8")
        drawn = picture(args.tree.resolve(), now["interaction"]["modules"])
        args.write.with_name("house.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
