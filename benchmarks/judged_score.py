"""How long `ragtide score` with a judge takes, from its start to its end, beside the ideal.

    python benchmarks/judged_score.py [--counts 200 1000] [--latency 0.2] [--in-flight 64] [--rounds 3]

A server in a process of its own answers each call after the latency. Each command is a process of its own with an empty
folder of answers, so that no cache helps. The ideal is the time of the calls alone, so many in flight. Beside it: the
processor time of the command, with its start, and how long the command takes for one interaction, which is the start
and one call. Seconds are meaningful on a machine that does nothing else.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from processes import interactions, judge_server


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What one command took."""

    seconds: float
    processor_s: float
    """User and system time of the command."""


def ideal_s(count: int, latency_s: float, in_flight: int) -> float:
    """Return the seconds of the calls alone."""
    return math.ceil(count / in_flight) * latency_s


def judged_run(count: int, *, latency_s: float = 0.2, in_flight: int = 64) -> JudgedRun:
    """Score so many interactions by one command, and return what it took.

    Raises:
        RuntimeError: a row was not scored.
    """
    with tempfile.TemporaryDirectory() as name, judge_server(latency_s) as url:
        folder = Path(name)
        rows = "".join(row.model_dump_json() + "\n" for row in interactions(count))
        (folder / "rows.jsonl").write_text(rows, encoding="utf-8")
        environment = {
            **os.environ,
            "RAGTIDE_DATA_DIR": str(folder / "data"),
            "RAGTIDE_JUDGE_BASE_URL": url,
            "RAGTIDE_JUDGE_MODEL": "m",
            "RAGTIDE_JUDGE_MAX_IN_FLIGHT": str(in_flight),
        }
        command = [sys.executable, "-m", "ragtide", "score", "rows.jsonl", "--labeler", "judge", "-o", "scores.jsonl"]
        before, began = os.times(), time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        seconds, after = time.perf_counter() - began, os.times()
        lines = (folder / "scores.jsonl").read_bytes().count(b"\n") if (folder / "scores.jsonl").exists() else 0
        if done.returncode != 0 or lines != count:
            raise RuntimeError(f"{lines} of {count} rows are scored, exit {done.returncode}: {done.stderr[-500:]}")
    processor_s = after.children_user - before.children_user + after.children_system - before.children_system
    return JudgedRun(seconds, processor_s)


def median_run(count: int, rounds: int, *, latency_s: float = 0.2, in_flight: int = 64) -> JudgedRun:
    """Return the medians of some runs."""
    runs = [judged_run(count, latency_s=latency_s, in_flight=in_flight) for _ in range(rounds)]
    return JudgedRun(statistics.median(run.seconds for run in runs), statistics.median(run.processor_s for run in runs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print(f"a judge of {options.latency:g} s, {options.in_flight} in flight, medians of {options.rounds} rounds")
    print("| interactions | seconds | ideal of the calls | processor s |\n|---|---|---|---|")
    for count in (1, *options.counts):
        run = median_run(count, options.rounds, latency_s=options.latency, in_flight=options.in_flight)
        ideal = ideal_s(count, options.latency, options.in_flight)
        print(f"| {count:,} | {run.seconds:.2f} | {ideal:.2f} | {run.processor_s:.2f} |")


if __name__ == "__main__":
    main()
