"""Rate and memory of `ragtide replay` at full speed, over a recording of a million metric events.

The command is run as a user runs it, on an embedded Redis of its own: starting, counting what is selected, aggregating
with all statistics on, committing. Beside the whole there is the rate that the command itself states, which leaves out
starting Python and Redis.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from replay_events import tables

from ragtide_runtime import __version__
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.entries import RecordedEntry
from ragtide_runtime.recordings.manifest import SUFFIXES, Manifest, RecordedFile, data_name, data_path, manifest_path
from ragtide_runtime.recordings.parquet import table_of
from ragtide_schemas import SCHEMA_VERSION, MetricEvent, from_milliseconds, utc_now

SAMPLE_S = 1.0
"""Seconds between two looks at memory."""


def recorded(place: Path, events: int) -> int:
    """Write a recording of so many metric events, as a recorder leaves it, and return its bytes."""
    size = 0
    at = utc_now()
    event = MetricEvent(
        interaction_id="i", pipeline="p", occurred_at=at, labeled_at=at, labeler="l", labeler_version="1", profile="p",
        scores={},
    )  # fmt: skip
    plain = table_of(EntryKind.METRICS, [RecordedEntry(0, "1-0", event)])
    for number, table in enumerate(tables(events), 1):
        ids = table["entry_id"].to_pylist()
        stamped = table.append_column(
            "entry_ms", pa.array([int(entry_id.partition("-")[0]) for entry_id in ids], pa.uint64())
        )
        stamped = stamped.append_column("entry_number", pa.array([0] * len(ids), pa.uint64()))
        # Columns that the events of a benchmark do not have are empty.
        for name in plain.column_names:
            if name not in stamped.column_names:
                stamped = stamped.append_column(name, plain[name].take(pa.array([0] * len(ids))))
        files = [_file(place, number, part, name) for name, part in _by_day_and_pipeline(stamped)]
        size += sum(file.bytes for file in files)
        manifest = Manifest(
            partition=0,
            number=number,
            prefix="ragtide",
            positions={EntryKind.METRICS: ids[-1]},
            files=tuple(files),
            written_at=utc_now(),
            written_by="benchmark",
            ragtide_version=__version__,
            schema_version=SCHEMA_VERSION,
        )
        path = place / manifest_path(0, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(manifest.encode())
    return size


def _by_day_and_pipeline(table: Any) -> list[tuple[tuple[Any, str], Any]]:
    days = pc.floor_temporal(pc.cast(pc.cast(table["entry_ms"], pa.int64()), pa.timestamp("ms", tz="UTC")), unit="day")
    parts = []
    for day in pc.unique(days).to_pylist():
        of_day = table.filter(pc.equal(days, pa.scalar(day, days.type)))
        names = pc.unique(of_day["pipeline"]).to_pylist()
        parts += [((day.date(), name), of_day.filter(pc.equal(of_day["pipeline"], name))) for name in names]
    return parts


def _file(place: Path, number: int, table: Any, name: tuple[Any, str]) -> RecordedFile:
    day, pipeline = name
    ids = table["entry_id"].to_pylist()
    file_name = data_name(
        partition=0, step=number, first_id=ids[0], last_id=ids[-1], writer="bench", suffix=SUFFIXES["parquet"]
    )
    path = data_path(EntryKind.METRICS, day, pipeline, file_name)
    target = place / path
    target.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, target, compression="zstd")
    data = target.read_bytes()
    times = table["occurred_at"].cast(pa.int64())
    return RecordedFile(
        kind=EntryKind.METRICS,
        path=path,
        format="parquet",
        partition=0,
        step=number,
        day=day,
        pipeline=pipeline,
        first_id=ids[0],
        last_id=ids[-1],
        count=len(ids),
        first_at=from_milliseconds(pc.min(times).as_py() // 1000),
        last_at=from_milliseconds(pc.max(times).as_py() // 1000 + 1),
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
    )


def _memory(running: subprocess.Popen[bytes]) -> Iterator[float]:
    """Yield the MiB that a process uses, every second until it ends."""
    while running.poll() is None:
        try:
            yield psutil.Process(running.pid).memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            return
        time.sleep(SAMPLE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "recording"
        size = recorded(place, args.events)
        environment = {**os.environ, "RAGTIDE_DATA_DIR": str(Path(folder) / "data")}
        environment.pop("RAGTIDE_REDIS_URL", None)
        command = [sys.executable, "-m", "ragtide", "replay", str(place), "--workspace", "bench", "--json"]
        started = time.perf_counter()
        with (Path(folder) / "said").open("w+") as said, (Path(folder) / "problems").open("w+") as problems:
            running = subprocess.Popen(command, env=environment, cwd=folder, stdout=said, stderr=problems)
            memory = list(_memory(running))
            elapsed = time.perf_counter() - started
            said.seek(0)
            problems.seek(0)
            if running.returncode:
                sys.exit(problems.read())
            found = json.loads(said.read())
    print(f"recording     {args.events:,} metric events, {size / 1e6:.0f} MB of Parquet")
    print(f"the command   {elapsed:.1f} s in all, {args.events / elapsed:,.0f} events/s")
    rate = found["n"] / found["seconds"]
    print(f"once started  {rate:,.0f} events/s; {found['n']:,} taken, complete: {found['complete']}")
    print("memory, MiB   " + " ".join(f"{mib:.0f}" for mib in memory[1:]))


if __name__ == "__main__":
    main()
