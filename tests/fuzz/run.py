"""Generated inputs, built from known truth and then spoilt: `python -m tests.fuzz.run NAME --cases 100000 --seed 1`.

A module of this folder is one kind of input. Its `check(seed)` makes the input of that seed from a truth that it knows,
spoils it as the world does, reads it through the product, and raises AssertionError if the result is not the truth.
`make fuzz` runs the long form of every kind; `test_fuzz.py` runs a short form.
"""

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 1.0
"""Processor time that one input may take."""


def kinds() -> list[str]:
    """Return the names of the modules that generate inputs."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in {"run", "test_fuzz"})


def check_of(kind: str) -> Callable[[int], None]:
    """Return the function `check` of one kind of input."""
    check: Callable[[int], None] = importlib.import_module(f"tests.fuzz.{kind}").check
    return check


def run(kind: str, *, cases: int, seed: int) -> int:
    """Check many inputs of one kind, print what failed, and return how many did."""
    check, failures, slowest, slow = check_of(kind), 0, 0.0, 0
    for number in range(seed, seed + cases):
        start = time.process_time()
        try:
            check(number)
        except Exception:  # noqa: BLE001 - any exception is a finding, and the run goes on
            failures += 1
            if failures <= 5:
                print(f"{kind} seed {number}:\n{traceback.format_exc(limit=4)}")
        spent_s = time.process_time() - start
        slowest = max(slowest, spent_s)
        slow += spent_s > LIMIT_S
    print(f"{kind}: {cases:,} inputs, {failures:,} wrong, {slow} over {LIMIT_S:g} s, the slowest {slowest:.3f} s")
    return failures + slow


def main() -> int:
    """Run the kinds that are named, or all; return 1 if an input was read wrongly or slowly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help="kinds of input; all without a name")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return int(sum(run(kind, cases=options.cases, seed=options.seed) for kind in options.kinds or kinds()) > 0)


if __name__ == "__main__":
    sys.exit(main())
