"""`ragtide score` of a large input by one process, by two, and in shards: speed, memory, and the same bits.

    python benchmarks/large_scoring.py [--interactions 20000] [--rounds 3] [--shards 64]
        [--engines ray dask]

The interactions are those of the bundled data, again and again with ids of their own, in a folder of two Parquet files.
Each round scores it with one and with two processes, one after the other; the ratio is the median over the rounds, so
that a slow round does not decide. With `--shards` a command for each shard follows, and `ragtide score merge`. With
`--engines` Ray and Dask score the same folder on two local workers (large_engines.py), in the environments of
`make engines`. The numbers of all summaries must be equal byte for byte. Processes that Ray detaches from its command
are missing in its processor seconds, and memory that processes share is counted in each.

Other programs change the seconds, so their share of the processors is printed beside each run. Above a few percent the
ratio says little; processor seconds still show what the second process costs. Resident memory is that of all processes
together, and is printed for a tenth of the interactions as well: it should not grow with them.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import pyarrow as pa
from pyarrow import parquet

import ragtide_offline

# The engines have the environments of the tests.
sys.path.append(str(Path(__file__).parents[1]))

from tests.engines.engines import ENVIRONMENTS

DATA = Path(ragtide_offline.__file__).parent / "data" / "demo_interactions.jsonl"
RAGTIDE = (sys.executable, "-m", "ragtide")
SCORE = (*RAGTIDE, "score", "--labeler", "local", "--pipeline", "shop")
AT_ONCE = 5_000
"""Rows that are made at once."""


def write_input(folder: Path, count: int) -> None:
    """Write a folder of two Parquet files."""
    bundled = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    folder.mkdir()
    half = count // 2
    for name, first, stop in (("a", 0, half), ("b", half, count)):
        writer = None
        for start in range(first, stop, AT_ONCE):
            rows = [
                {
                    "interaction_id": f"i-{number}",
                    "question": item["question"],
                    "documents": [document["text"] for document in item["documents"]],
                    "response": item["response"],
                }
                for number in range(start, min(start + AT_ONCE, stop))
                for item in [bundled[number % len(bundled)]]
            ]
            table = pa.Table.from_pylist(rows)
            if writer is None:
                writer = parquet.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writer.write_table(table, row_group_size=1_000)
        if writer is not None:
            writer.close()


@dataclass(frozen=True, slots=True)
class Run:
    """What one or several commands took, one after the other."""

    seconds: float
    busy_s: float
    """Processor seconds of all their processes."""
    others: float
    """Share of the processors that other programs took meanwhile."""
    memory_mb: float
    """Most resident memory of all processes of a command together."""


def own_s() -> float:
    """Return the processor seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def all_s() -> float:
    """Return the processor seconds of the machine."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def run(commands: Sequence[Sequence[str]]) -> Run:
    """Run commands, one after the other."""
    began, own, every, most = time.monotonic(), own_s(), all_s(), 0.0
    # Modules are compiled once, as in an installation: not by each process.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for words in commands:
        process = psutil.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        while process.poll() is None:
            try:
                members = [process, *process.children(recursive=True)]
                most = max(most, sum(member.memory_info().rss for member in members) / 2**20)
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.1)
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    seconds, busy_s = time.monotonic() - began, own_s() - own
    return Run(seconds, busy_s, max(all_s() - every - busy_s, 0.0) / (seconds * (os.cpu_count() or 1)), most)


def scored(folder: Path, processes: int, summary: Path) -> Run:
    """Score a folder in processes."""
    return run([[*SCORE, str(folder), "--processes", str(processes), "--summary-json", str(summary)]])


def scored_in_shards(folder: Path, shards: int, summary: Path, parts: Path) -> Run:
    """Score a folder by a command for each shard, and merge the parts."""
    words = [*SCORE, str(folder), "--output", str(parts)]
    merge = [*RAGTIDE, "merge", str(parts), "--summary-json", str(summary)]
    return run([*([*words, "--shard", f"{number}/{shards}"] for number in range(1, shards + 1)), merge])


def scored_by(engine: str, folder: Path, summary: Path) -> Run:
    """Score a folder with an engine."""
    script = Path(__file__).with_name("large_engines.py")
    return run([[str(ENVIRONMENTS.python_of(engine)), str(script), engine, str(folder), str(summary)]])


def numbers(summary: Path) -> str:
    """Return the numbers of a summary as text."""
    found = json.loads(summary.read_text(encoding="utf-8"))
    return json.dumps({name: found[name] for name in ("estimates", "diagnoses", "not_counted")})


def row(name: str, count: int, runs: Sequence[Run]) -> str:
    """Return a row of the table."""
    seconds, busy_s, others = (median(getattr(run, field) for run in runs) for field in ("seconds", "busy_s", "others"))
    memory_mb = max(run.memory_mb for run in runs)
    return (
        f"| {name} | {count:,} | {seconds:,.1f} | {count / seconds:,.0f} | {busy_s:,.1f} | {others:.0%} | "
        f"{memory_mb:,.0f} |"
    )


def main() -> None:
    """Print the figures as a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--engines", nargs="*", choices=("ray", "dask"), default=[])
    options = parser.parse_args()
    count, rounds = options.interactions, options.rounds
    for engine in options.engines:
        ENVIRONMENTS.python_of(engine)
    runs: dict[int, list[Run]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as place:
        folder, few = Path(place) / "answers", Path(place) / "few"
        write_input(folder, count)
        write_input(few, count // 10)
        rows = [row("1 process", count // 10, [scored(few, 1, Path(place) / "few.json")])]
        for _ in range(rounds):
            for processes, found in runs.items():
                found.append(scored(folder, processes, Path(place) / f"{processes}.json"))
        rows += [row("1 process", count, runs[1]), row("2 processes", count, runs[2])]
        if options.shards:
            shards = scored_in_shards(folder, options.shards, Path(place) / "shards.json", Path(place) / "parts")
            rows.append(row(f"{options.shards} shards, one after another", count, [shards]))
        for engine in options.engines:
            rows.append(
                row(f"{engine.title()}, 2 workers", count, [scored_by(engine, folder, Path(place) / f"{engine}.json")])
            )
        summaries = {numbers(path) for path in Path(place).glob("*.json") if path.name != "few.json"}
    ratio = median(one.seconds / two.seconds for one, two in zip(runs[1], runs[2], strict=True))
    busy = median(two.busy_s / one.busy_s for one, two in zip(runs[1], runs[2], strict=True))
    print("# Scoring a large input\n")
    shown = " ".join(["python benchmarks/large_scoring.py", *sys.argv[1:]])
    print(f"Written by `{shown}`: {os.cpu_count()} cores, Python {platform.python_version()}. Seconds, ", end="")
    print(
        f"processor seconds and the share of other programs are medians of {rounds} round{'s' if rounds > 1 else ''}; ",
        end="",
    )
    print("memory is the most that all processes of a command had together.\n")
    print("| run | interactions | seconds | a second | processor seconds | other programs | MB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(rows))
    print(f"\nTwo processes were {ratio:.2f} times as fast as one, ", end="")
    print(f"and took {busy:.2f} times its processor time. ", end="")
    print(f"The summaries are {'equal byte for byte' if len(summaries) == 1 else 'DIFFERENT'}.")
    if len(summaries) != 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
