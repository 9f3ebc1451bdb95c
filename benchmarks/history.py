"""What the history costs: processor time of the aggregator's state, memory in Redis, time of a read.

    python benchmarks/history.py [--rounds 5]

The events are those of `replay_events.py`, 20 a second. All statistics are on, as in a deployment without settings.
Printed: processor time with history to that without, for steps of 10, 100 and 1,000
events and for columns of a replay, as the median of the ratios of rounds that run one after the other; bytes that Redis
uses for a series that is full, as growth of used memory; milliseconds of a read of all of it.
"""

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import numpy as np
from event_batches import EVENTS_A_ROUND, STEPS, WARM_UP, recorded
from replay_events import tables

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.history import (
    HistoryRows,
    ListedPanes,
    listed_panes,
    recent_panes,
    record_of,
    series_name,
)
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.replay.tables import columns_of
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RECENT_PANES, HistorySettings
from ragtide_schemas import MetricEvent, from_milliseconds, to_milliseconds

ON, OFF = Settings(), Settings(history=HistorySettings(enabled=False))
OPTIONS = cast("HistoryOptions", state_options(ON).history)
STREAMS = Streams("ragtide", 0)
SERIES = 20


def stepped(settings: Settings, events: list[MetricEvent], size: int) -> float:
    """Return seconds of processor time of steps."""
    state = AggregatorState(state_options(settings))
    for event in events[:WARM_UP]:
        state.apply(event)
    state.take_changes()
    started = time.process_time()
    for number in range(min(STEPS, EVENTS_A_ROUND // size)):
        for event in events[WARM_UP + number * size : WARM_UP + (number + 1) * size]:
            state.apply(event)
        state.take_changes()
    return time.process_time() - started


def replayed(settings: Settings, parts: list[object]) -> float:
    """Return seconds of processor time of columns."""
    state = AggregatorState(state_options(settings))
    started = time.process_time()
    for part in parts:
        state.apply_columns(columns_of(part))
        state.take_changes()
    return time.process_time() - started


LENGTHS = {5_000: RECENT_PANES, 300_000: ON.history.fine_panes, 3_600_000: ON.history.coarse_panes}
"""By length in milliseconds: panes of a full series."""


def full_series(now: datetime) -> dict[int, list[bytes]]:
    """Return by length the records of a series that is full, of scores without clusters."""
    state = AggregatorState(state_options(ON))
    event = recorded(1)[0].model_copy(update={"occurred_at": now, "labeled_at": now})
    state.apply(event)
    state.take_changes()
    panes = cast("HistoryRows", state.history).values.fine
    (place,) = panes.numbers(0)
    data = panes.bytes_of([(0, place)])[0]
    found = {}
    for length, kept in LENGTHS.items():
        starts = to_milliseconds(now) - length * (2 + np.arange(kept)[::-1])
        numbers = recent_panes(starts, starts, OPTIONS) if length == OPTIONS.recent_ms else starts // length
        found[length] = [record_of(number, data) for number in numbers.tolist()]
    return found


async def read_ms(url: str, now: datetime) -> float:
    """Return milliseconds of a read of 60 days of one metric."""
    async with connect_async(url) as redis:
        deployment, times = Deployment(redis, ON), []
        for _ in range(5):
            started = time.perf_counter()
            (found,) = await deployment.history("shop", "m0", start=now - timedelta(days=60), end=now)
            times.append(1000 * (time.perf_counter() - started))
        return statistics.median(times) if len(found.points) > 100 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    events, parts = recorded(WARM_UP + EVENTS_A_ROUND), list(tables(200_000))
    replayed(ON, parts)  # the first run imports modules
    for size in (10, 100, 1_000):
        ratios = [stepped(ON, events, size) / stepped(OFF, events, size) for _ in range(rounds)]
        print(f"steps of {size:>5,} events: processor time x {statistics.median(ratios):.2f}")
    ratios = [replayed(ON, parts) / replayed(OFF, parts) for _ in range(rounds)]
    print(f"columns of a replay: processor time x {statistics.median(ratios):.2f}")
    now = from_milliseconds(1_795_219_200_000)
    series = full_series(now)
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as client:
        before = client.info("memory")["used_memory"]
        for number in range(SERIES):
            key = EstimateKey("shop", None, None, f"m{number}", "ragbench", "local", "1").encode()
            for length, records in series.items():
                for record in records:
                    client.rpush(STREAMS.history(series_name(key, length)), record)
            client.hset(STREAMS.checkpoint, CheckpointField.HISTORY_SERIES + key, listed_panes(ListedPanes()))
        used = (client.info("memory")["used_memory"] - before) / SERIES
        print(f"a full series: {used / 1024:,.0f} KiB in {server.binary}, a record of {len(series[5_000][0])} bytes")
        print(f"a read of 60 days: {asyncio.run(read_ms(server.url, now)):.0f} ms")


if __name__ == "__main__":
    main()
