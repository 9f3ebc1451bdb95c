"""Metric events a second from Parquet files through the aggregator's state, flat out, on one core.

    python benchmarks/replay_speed.py [--events 1000000] [--sample 5000]

An event has the seven TRACe scores (3 in 100 without completeness), the time that labeling took, in 3 of 10 events a
segment, in 1 of 100 gold scores of two metrics. All statistics are on, as a deployment without settings has them: the
windows 1h and 24h/1h, quantiles, segments, the default drift rules. One of four pipelines gets worse for a tenth
of the time, so that alerts fire.

Printed: events a second, reading and changing into columns included; the same one by one through `apply`, of a sample
in the same run, as a ratio; the share of time by part, from a profile of a tenth of the events; and resident memory
after every tenth. Rates are per second and per second of CPU time: there is one thread, so that on an idle machine both
are the same, and what other processes take shows as their difference.
"""

import argparse
import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
from pyarrow import parquet
from replay_events import tables, write_files

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.events.columns import EventColumns
from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.replay.tables import columns_of
from ragtide_runtime.settings.model import Settings

PARTS = {
    ("replay_speed", "read"): "reading Parquet",
    ("tables", "columns_of"): "into columns",
    ("batch_builder", "__init__"): "scaling, rows",
    ("batch_builder", "batch"): "batches",
    ("table", "_watch"): "drift rules",
    ("table", "_learn"): "moments",
    ("panes", "take"): "windows",
    ("table", "_sketch"): "quantiles",
}
"""Parts of a replay by the file and the function whose time they are."""


def read(file: Path) -> pa.Table:
    return parquet.read_table(file, use_threads=False)


def replayed(state: AggregatorState, files: list[Path]) -> Iterator[int]:
    """Put files into a state, and yield the number of events of each."""
    for file in files:
        columns = columns_of(read(file))
        state.apply_columns(columns)
        yield len(columns)


def one_by_one(columns: EventColumns, sample: int) -> float:
    """Return events a second of CPU time through `apply`."""
    state = AggregatorState(state_options(Settings()))
    events = [columns.source.event(place) for place in range(min(sample, len(columns)))]
    started = time.process_time()
    for event in events:
        state.apply(event)
    state.take_changes()
    return len(events) / (time.process_time() - started)


def shares(files: list[Path]) -> list[tuple[str, float]]:
    """Return the share of time of each part."""
    state = AggregatorState(state_options(Settings()))
    profile = cProfile.Profile()
    profile.runcall(lambda: list(replayed(state, files)))
    found: dict[str, float] = {}
    stats = pstats.Stats(profile)
    for (path, _, function), (*_, cumulative, _callers) in stats.stats.items():  # type: ignore[attr-defined]
        part = PARTS.get((Path(path).stem, function))
        if part is not None:
            found[part] = cumulative
    total = stats.total_tt  # type: ignore[attr-defined]
    return [(part, found[part] / total) for part in PARTS.values() if part in found]


def warm_up() -> None:
    """Load modules and data that are loaded only once."""
    state = AggregatorState(state_options(Settings()))
    for table in tables(2_000):
        state.apply_columns(columns_of(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=5_000)
    args = parser.parse_args()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    process = psutil.Process()
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), args.events)
        gc.collect()
        state = AggregatorState(state_options(Settings()))
        done, alerts, memory = 0, 0, list[float]()
        started, busy = time.perf_counter(), time.process_time()
        for count in replayed(state, files):
            done += count
            # A commit now and then, as a replay does it.
            alerts += len(state.take_changes().alerts)
            if done * 10 // args.events > len(memory):
                memory.append(process.memory_info().rss / 2**20)
        elapsed, busy = time.perf_counter() - started, time.process_time() - busy
        slow = one_by_one(columns_of(read(files[0])), args.sample)
        parts = shares(files[: max(len(files) // 10, 1)])
    print(f"events             {done:,} in {len(files)} files; {len(state):,} keys, {alerts} alerts")
    print(f"in columns         {done / elapsed:,.0f} events/s, {done / busy:,.0f} a second of CPU time")
    print(f"one by one         {slow:,.0f} a second of CPU time; in columns {done / busy / slow:.1f} times as many")
    print("memory, MiB        " + " ".join(f"{size:.0f}" for size in memory))
    for part, share in parts:
        print(f"{part:18} {share:.0%}")


if __name__ == "__main__":
    main()
