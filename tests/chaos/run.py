"""The command of the chaos suite: a quiet run, the same run under faults, and the checks.

    python -m tests.chaos.run [--interactions 20000] [--faults 100] [--seed N] [--plant emit|fencing]

Prints the seed first, then every fault when it happens, and in the end what was checked. The exit code is 1 if anything
was not as promised.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tests.chaos.checks import Check
from tests.chaos.faults import plan
from tests.chaos.plants import PLANTS
from tests.chaos.running import Options, Run, Say, run
from tests.chaos.traffic import traffic

SHOWN = 5
"""Contradictions of a claim that are printed."""


def main(arguments: list[str] | None = None) -> int:
    """Run with the options of the command line; return the exit code."""
    given = _parsed(arguments)
    for name in [name for name in os.environ if name.startswith("RAGTIDE_")]:
        del os.environ[name]
    # An end from outside must end the processes that were started too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def say(text: str) -> None:
        print(text, file=sys.stderr if given.json else sys.stdout, flush=True)

    say(f"seed {given.seed}: {given.interactions:,} interactions, {given.faults} faults")
    things = traffic(given.interactions, given.seed)
    quietly = Options(
        interactions=given.interactions, seed=given.seed, partitions=given.partitions, appendfsync=given.appendfsync
    )
    chaotic = Options(
        interactions=given.interactions,
        seed=given.seed,
        partitions=given.partitions,
        appendfsync=given.appendfsync,
        faults=plan(given.seed, given.faults, given.interactions),
        plant=given.plant,
    )
    folder = Path(tempfile.mkdtemp(prefix="ragtide-chaos-"))
    try:
        quiet = run(quietly, things, folder / "quiet", say)
        say(f"the quiet run took {quiet.duration_s:.1f} s")
        chaos = run(chaotic, things, folder / "chaos", say)
    finally:
        if given.keep:
            say(f"logs and data are in {folder}")
        else:
            shutil.rmtree(folder)
    found = [*_named("quiet run: ", quiet.checks(things, None)), *chaos.checks(things, quiet.outcome)]
    passed = all(check.passed for check in found)
    report(chaos, found, say)
    if given.json:
        result = {"seed": given.seed, "passed": passed, **chaos.counts(), "checks": [asdict(check) for check in found]}
        print(json.dumps(result))
    say(f"{'passed' if passed else 'FAILED'}: seed {given.seed}, {chaos.faults.total()} faults")
    return 0 if passed else 1


def report(chaos: Run, checks: list[Check], say: Say) -> None:
    """Print the run and its checks."""
    for name, value in chaos.counts().items():
        say(f"{name}: {value}")
    for check in checks:
        say(f"{'passed' if check.passed else 'FAILED'}  {check.claim} ({check.looked_at:,})")
        for wrong in check.wrong[:SHOWN]:
            say(f"          {wrong}")
        if len(check.wrong) > SHOWN:
            say(f"          and {len(check.wrong) - SHOWN:,} more")


def _named(prefix: str, checks: list[Check]) -> list[Check]:
    return [replace(check, claim=prefix + check.claim) for check in checks]


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument(
        "--appendfsync",
        choices=("always", "everysec", "no"),
        default="always",
        help="of Redis; with everysec a killed Redis may lose what it had replied to while the disk was busy",
    )
    parser.add_argument("--plant", choices=sorted(PLANTS), help="a bug that the checks must find")
    parser.add_argument("--keep", action="store_true", help="keep logs and data")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
