"""Half an hour at the highest sustainable rate: does the memory of every process, and of Redis, stay flat?

    python benchmarks/soak.py [--minutes 30] [--workers 1]

Real processes on one embedded Redis: a producer that keeps the stream of interactions filled but short (so that the
workers set the rate), label workers with the local labeler, an aggregator with the default rules. Every interaction has
an id of its own. Few kept events, and time compressed: ids are known for the default windows divided by one number, so
that everything that grows to a bound has reached it after the first fifth, which is not looked at. The memory of known
ids is printed as it was, and multiplied by that number: what they take at this rate with the default windows.

Printed: the rate; for every process resident memory after the first fifth and at the end, and the slope of a straight
line through all samples in between in MiB an hour; the same for Redis's used memory. Exit code 1 if the line of any
rises by more than a tenth of its size an hour and by more than 5 MiB in the time looked at.
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from processes import interactions, role

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings

STREAMS = Streams("ragtide", 0)
AHEAD = 2000
"""Interactions that wait for the workers."""

MIB = 2**20

DEFAULTS = Settings()


def samples_of(redis: Any, processes: dict[str, psutil.Process]) -> dict[str, float]:
    """Return the memory of everything now, in MiB."""
    found = {name: process.memory_info().rss / MIB for name, process in processes.items()}
    return {**found, "redis, used": redis.info("memory")["used_memory"] / MIB}


def known_bytes(redis: Any) -> int:
    """Return the memory of the buckets of known ids."""
    buckets = [
        key for kind in ("owners", "events") for key in redis.scan_iter(match=getattr(STREAMS, kind)("*"), count=1000)
    ]
    return sum(redis.memory_usage(key) or 0 for key in buckets)


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    # A bucket of known ids lives for up to 1.25 windows, and the first fifth is 12 seconds of every minute.
    compressed = DEFAULTS.feedback_window_s / (12 * options.minutes / 1.25)
    rows = interactions(2000, pipelines=10)
    times: list[float] = []
    memory: list[dict[str, float]] = []
    published = 0
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        ExitStack() as stack,
    ):
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_EVENTS_KEEP": "10000",
            "RAGTIDE_ESTIMATES_CAP": "10000",
            "RAGTIDE_DEDUPE_WINDOW_S": str(DEFAULTS.dedupe_window_s / compressed),
            "RAGTIDE_FEEDBACK_WINDOW_S": str(DEFAULTS.feedback_window_s / compressed),
            "RAGTIDE_WINDOWS": '["1m","5m/1m"]',
            "RAGTIDE_LATENESS_S": "60",
        }
        running = {
            f"worker {number}": stack.enter_context(role("worker", settings, Path(name) / "worker.log"))
            for number in range(options.workers)
        }
        running["aggregator"] = stack.enter_context(role("aggregator", settings, Path(name) / "aggregator.log"))
        processes = {what: psutil.Process(process.pid) for what, process in running.items()}
        processes["producer"] = psutil.Process(os.getpid())
        processes["redis, resident"] = psutil.Process(redis.info("server")["process_id"])
        producer = stack.enter_context(
            InteractionProducer(server.url, dedupe_window_s=float(settings["RAGTIDE_DEDUPE_WINDOW_S"]))
        )
        started = next_sample = time.perf_counter()
        while (now := time.perf_counter()) < started + 60 * options.minutes:
            if redis.xlen(STREAMS.interactions) < AHEAD:
                batch = [
                    rows[(published + at) % len(rows)].model_copy(update={"interaction_id": f"s-{published + at}"})
                    for at in range(500)
                ]
                producer.publish_many(batch)
                published += len(batch)
            else:
                time.sleep(0.02)
            if now >= next_sample:
                next_sample = now + max(0.3 * options.minutes, 1.0)
                times.append(now - started)
                memory.append(samples_of(redis, processes))
        seconds = time.perf_counter() - started
        known = known_bytes(redis)
        scored = redis.info("commandstats").get("cmdstat_xack", {}).get("calls", 0)
    print(f"{seconds / 60:.1f} minutes, {published:,} published, {scored / seconds:,.0f} labeled a second")
    print(
        f"known ids: {known / MIB:,.1f} MiB with the default windows compressed {compressed:,.0f} times; "
        f"uncompressed {known * compressed / 2**30:,.1f} GiB at this rate"
    )
    sys.exit(not report(np.array(times), memory))


def report(times: Any, memory: list[dict[str, float]]) -> bool:
    """Print the measurements and return whether everything is flat."""
    late = times >= times[-1] / 5
    hours = (times[-1] - times[late][0]) / 3600
    flat = True
    print(f"{'':<18}{'from MiB':>10}{'to MiB':>10}{'MiB/h':>10}")
    for name in memory[0]:
        values = np.array([sample[name] for sample in memory])[late]
        slope = float(np.polyfit(times[late] / 3600, values, 1)[0])
        grows = slope > 0.1 * values[0] and slope * hours > 5
        flat = flat and not grows
        print(f"{name:<18}{values[0]:>10.1f}{values[-1]:>10.1f}{slope:>10.1f}{'   grows' if grows else ''}")
    return flat


if __name__ == "__main__":
    main()
