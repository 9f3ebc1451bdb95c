"""What is measured of a tree, each in a process of its own: figures by name; `_s` are seconds, `_us` microseconds."""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import judged_score
import latency
import many_pipelines
import numpy as np
import statistics_speed
import throughput
from aggregated_keys import processor_us, read_raw
from growing.stages import Bench
from river import drift, stats

from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import METRICS, MetricEvent, utc_now

from . import starts

Figures = dict[str, float]
ROADS: Final = ("small_publish", "small_deliver", "publish", "deliver")
NAMES: Final = tuple(name for name in METRICS if name.startswith(("trace", "ragchecker", "retrieval", "similarity")))[
    :20
]
"""Among them those of the default rules."""
EVENTS_A_SECOND: Final = 20
RARELY: Final = (50_000, 20, 50)
"""When `ragtide aggregator` looks for cycles of objects, and so any command of `ragtide`."""


def screens(sizes: tuple[int, ...]) -> Figures:
    """Return the first screen, the screen again, and the first fleet list, by the number of pipelines."""
    found: Figures = {}
    for pipelines in sizes:
        with many_pipelines.deployment(pipelines) as (redis, folder, settings):
            for name, address in (("screen", "/"), ("fleet", many_pipelines.FLEET)):
                with many_pipelines.reader(redis, folder, settings) as read:
                    for again in ("", "_again"):
                        look = read(address)
                        found[f"{name}{again}_{pipelines}_s"] = look.seconds
                        found[f"{name}{again}_{pipelines}_cpu_s"] = look.all_s
    return found


def delays(seconds: float, singles: int) -> Figures:
    """Return the delays to the screen and to the estimates, at 10% and 50% of the capacity."""
    loads = latency.run(seconds, singles, (0.1, 0.5))
    found = {"capacity_rate": loads.rate}
    for share, times in loads.loads.items():
        for name, values in (("screen", times.screen), ("estimates", times.estimates)):
            seen = [*values.values()]
            found[f"{name}_p50_{share:.0%}_s"] = statistics.median(seen)
            found[f"{name}_p99_{share:.0%}_s"] = latency.p99(seen)
    return found


def roads(interactions: int, rounds: int) -> Figures:
    """Return microseconds of publishing and delivering an interaction, and of raw redis-py with the same bytes."""
    found: Figures = {}
    for result in throughput.measured(interactions, rounds, throughput.Roads):
        for name in ROADS:
            found[f"{name}_us"], found[f"{name}_raw_us"] = result[name].us, result[f"{name}_raw"].us
    return found


def wide_events(count: int, first: int) -> list[MetricEvent]:
    """Return metric events of one pipeline with 20 metrics each in their ranges, 20 events a second up to now."""
    lower, upper = (np.array([getattr(METRICS[name], end) for name in NAMES]) for end in ("lower", "upper"))
    drawn = (lower + (upper - lower) * np.random.default_rng(first).beta(5, 2, (count, len(NAMES)))).tolist()
    now = utc_now()
    return [
        MetricEvent(
            interaction_id=f"w{number}",
            pipeline="wide",
            occurred_at=now - timedelta(seconds=(first + count - number) / EVENTS_A_SECOND),
            labeled_at=now,
            labeler="bench",
            labeler_version="1",
            profile="ragbench",
            scores=dict(zip(NAMES, values, strict=True)),
        )
        for number, values in enumerate(drawn, first)
    ]


def aggregation(count: int) -> Figures:
    """Return microseconds of aggregating an event of 20 metrics, without the start, beside a raw read and river."""
    gc.set_threshold(*RARELY)
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        bench = Bench([redis], Settings(redis_url=server.url, data_dir=Path(name)))
        bench.aggregate(wide_events(1000, 0))  # every key exists before the measured events
        events = wide_events(count, 1000)
        cost = bench.aggregate(events)

        async def raw() -> float:
            client = connect_async(server.url)
            async with aclosing(client):
                return await processor_us(lambda: read_raw(client), count + 1000)

        return {"aggregate_us": cost.us, "aggregate_raw_us": asyncio.run(raw()), "aggregate_river_us": _river(events)}


def _river(events: list[MetricEvent]) -> float:
    adwin_of: Callable[[], Any] = drift.ADWIN
    per_key = {name: (stats.Mean(), stats.Var(), adwin_of()) for name in NAMES}

    async def learn() -> None:
        for event in events:
            for name, value in event.scores.items():
                for statistic in per_key[name]:
                    statistic.update(value)

    return asyncio.run(processor_us(learn, len(events)))


def core(batches: int, sizes: tuple[int, ...]) -> Figures:
    """Return the values a second of the statistics core and of river, by the number of keys."""
    found: Figures = {}
    for keys in sizes:
        found[f"core_{keys}_rate"] = statistics_speed.core(keys, batches)
        found[f"river_{keys}_rate"] = statistics_speed.river(keys, batches)
    return found


def imports() -> Figures:
    """Return processor time, memory and modules of a producer's imports, and of the libraries alone."""
    return starts.imports()


def commands() -> Figures:
    """Return processor seconds of reading commands on an empty deployment, and of a refused setting."""
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        return starts.commands(server.url)


def roles() -> Figures:
    """Return the start of each role: processor seconds and memory when it is ready."""
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        return starts.roles(server.url)


def score() -> Figures:
    """Return the seconds of `ragtide score` with a judge of 200 ms, 64 calls at once, and those of the calls alone."""
    found: Figures = {}
    for count in (200, 1000):
        found[f"score_{count}_s"] = judged_score.judged_run(count).seconds
        found[f"score_{count}_ideal_s"] = judged_score.ideal_s(count, latency_s=0.2, in_flight=64)
    return found


def wheel(tree: Path) -> Figures:
    """Return the megabytes of the wheel of a tree, as it is published."""
    with tempfile.TemporaryDirectory() as name:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", name]
        published = {**os.environ, "RAGTIDE_DATA_APART": "1"}
        subprocess.run(build, check=True, capture_output=True, cwd=tree, env=published)
        return {"wheel_mb": sum(file.stat().st_size for file in Path(name).glob("*.whl")) / 1e6}


def probes(tree: Path, *, short: bool, largest: int) -> Mapping[str, Callable[[], Figures]]:
    """Return what measures each part, by its name, in the order in which they run.

    Args:
        tree: folder of the tree, of which the wheel is built.
        short: whether little is measured.
        largest: pipelines of the largest deployment.
    """
    sizes = tuple(size for size in (30, 3000, 10_000) if size <= largest)
    return {
        "imports": imports,
        "commands": commands,
        "roles": roles,
        "roads": lambda: roads(2000 if short else 8000, 1),
        "aggregation": lambda: aggregation(1000 if short else 4000),
        "core": lambda: core(10 if short else 40, (10, 1000) if short else (10, 1000, 100_000)),
        "screens": lambda: screens(sizes),
        "delays": lambda: delays(6.0 if short else 40.0, 0),
        "score": score,
        "wheel": lambda: wheel(tree),
    }
