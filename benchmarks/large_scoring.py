"""`ragtide score` of a large input with one and with two processes: speed as a ratio, memory, and the same bits.

    python benchmarks/large_scoring.py [--interactions 20000] [--rounds 3]

The interactions are those of the bundled data, again and again with ids of their own, in a folder of two Parquet files.
Each round scores it with one and with two processes, one after the other; the ratio is the median over the rounds, so
that a slow round does not decide. On a machine with other work the ratio says little; processor seconds then show what
the second process costs. The summaries must be equal byte for byte. Resident memory is that of all processes together,
and is printed for a tenth of the interactions as well: it should not grow with them.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil
import pyarrow as pa
from pyarrow import parquet

import ragtide_offline

DATA = Path(ragtide_offline.__file__).parent / "data" / "demo_interactions.jsonl"
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


def processor_s() -> float:
    """Return the processor seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def scored(folder: Path, processes: int, summary: Path) -> tuple[float, float, float]:
    """Score a folder; return seconds, processor seconds, and the most megabytes of all processes together."""
    command = [sys.executable, "-m", "ragtide", "score", str(folder), "--labeler", "local", "--pipeline", "shop"]
    began, used, most = time.monotonic(), processor_s(), 0.0
    process = psutil.Popen(
        [*command, "--processes", str(processes), "--summary-json", str(summary)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        try:
            members = [process, *process.children(recursive=True)]
            most = max(most, sum(member.memory_info().rss for member in members) / 2**20)
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"ragtide score ended with {process.returncode}")
    return time.monotonic() - began, processor_s() - used, most


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interactions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = options.interactions
    with tempfile.TemporaryDirectory() as place:
        folder, few = Path(place) / "answers", Path(place) / "few"
        write_input(folder, count)
        write_input(few, count // 10)
        _, _, least = scored(few, 1, Path(place) / "few.json")
        ratios: list[float] = []
        seconds: dict[int, list[float]] = {1: [], 2: []}
        used: dict[int, list[float]] = {1: [], 2: []}
        memory = {1: 0.0, 2: 0.0}
        for _ in range(options.rounds):
            for processes in (1, 2):
                took, busy, most = scored(folder, processes, Path(place) / f"{processes}.json")
                seconds[processes].append(took)
                used[processes].append(busy)
                memory[processes] = max(memory[processes], most)
            ratios.append(seconds[1][-1] / seconds[2][-1])
        same = (Path(place) / "1.json").read_bytes() == (Path(place) / "2.json").read_bytes()
    for processes in (1, 2):
        took = median(seconds[processes])
        print(
            f"{processes} process{'es' if processes > 1 else ''}: {count / took:,.0f} interactions a second, "
            f"{median(used[processes]):,.1f} processor seconds, {memory[processes]:,.0f} MB"
        )
    print(f"one process, {count // 10:,} interactions: {least:,.0f} MB")
    print(f"two processes: {median(ratios):.2f} times as fast as one, median of {options.rounds} rounds")
    print(f"the summaries are {'equal to the byte' if same else 'DIFFERENT'}")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
