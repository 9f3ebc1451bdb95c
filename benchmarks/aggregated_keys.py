"""Processor time of aggregating a metric event, beside a raw read of the same events, by the number of keys.

    python benchmarks/aggregated_keys.py [--keys 60 1000] [--events 8000] [--rounds 3]

A key is a metric of a pipeline in a segment value: five scores, two segment values, and as many pipelines as it takes.
The state has more: each metric of a whole pipeline, shares of scores at an edge, and the time of labeling. Windows,
quantiles, history, levels and three alert rules are on. Everything runs in this process, on one embedded Redis.

Printed for each number of keys, as medians over the rounds: microseconds of processor time of an event in the
aggregator, in Redis meanwhile, in a raw read (XREAD of 1,000 at a time), and in parts of the work alone: reading the
JSON, checking it against the model, and adding it to a state. The last columns are the rows of the state, and the
memory that they take there.
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from pydantic_core import from_json

from ragtide import Labeling, RagInteraction
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_consumers.labelers.event import metric_event
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_offline.demo import demo_interactions
from ragtide_roles.serving import aggregate
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import AlertRule, MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
LABELER = LabelerId("fixed", "1", "ragbench")
SCORES: Final = ("context_relevance", "context_utilization", "completeness", "adherence", "supported_fraction")
LANGUAGES: Final = ("de", "en")
PER_PIPELINE: Final = len(SCORES) * len(LANGUAGES)
PER_SECOND: Final = 20
RULES: Final = tuple(AlertRule(name=f"{metric}-drift", kind="drift", metric=f"trace.{metric}") for metric in SCORES[:3])
"""Three rules, each on a metric of every pipeline."""


def keyed_settings(redis_url: str, data_dir: Path) -> Settings:
    """Return settings with a tumbling and a sliding window, quantiles and three alert rules."""
    return Settings(redis_url=redis_url, data_dir=data_dir, windows=("1h", "24h/1h"), quantiles=True, alerts=RULES)


def keyed_interactions(count: int, keys: int) -> Iterator[RagInteraction]:
    """Yield interactions of so many keys in turn, 20 a second up to now."""
    bundled, pipelines, now = demo_interactions(), max(keys // PER_PIPELINE, 1), utc_now()
    for number in range(count):
        yield bundled[number % len(bundled)].model_copy(
            update={
                "interaction_id": f"k-{number}",
                "pipeline": f"pipeline-{number % pipelines}",
                "segments": {"lang": LANGUAGES[number // pipelines % len(LANGUAGES)]},
                "occurred_at": now - timedelta(seconds=(count - number) / PER_SECOND),
                "gold_scores": {},
            }
        )


def keyed_events(count: int, keys: int) -> list[bytes]:
    """Return the metric events of `keyed_interactions` as JSON; their scores are drawn."""
    drawn = np.random.default_rng(1).beta(5, 2, (count, len(SCORES)))
    names = [f"trace.{metric}" for metric in SCORES]
    events = []
    for number, interaction in enumerate(keyed_interactions(count, keys)):
        labeling = Labeling(scores=dict(zip(names, drawn[number].tolist(), strict=True)), absent={})
        labeled_at = interaction.occurred_at + timedelta(seconds=1)
        event = metric_event(
            interaction, LABELER, labeling, labeled_at=labeled_at, latency_s=0.01, entry_id=f"{number + 1}-0"
        )
        events.append(event.encode())
    return events


async def processor_us(body: Callable[[], Awaitable[None]], count: int) -> float:
    """Return the microseconds of processor time that each of `count` events takes."""
    gc.collect()
    started = time.process_time()
    await body()
    return 1e6 * (time.process_time() - started) / count


async def redis_us(redis: Any) -> float:
    """Return the microseconds of processor time that Redis has taken."""
    used = await redis.info("cpu")
    return 1e6 * float(used["used_cpu_user"] + used["used_cpu_sys"])


async def read_raw(redis: Any, position: bytes = b"0-0") -> None:
    """Read every event after the position, 1,000 at a time."""
    while batch := await redis.xread({STREAMS.metrics: position}, count=1000):
        position = batch[0][1][-1][0]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    while not await condition():  # noqa: ASYNC110 - Redis reports no commit
        await asyncio.sleep(0.05)


async def is_aggregated(redis: Any, last: bytes) -> bool:
    """Return whether an event is in the checkpoint."""
    return bool(await redis.hget(STREAMS.checkpoint, "position") == last)


async def aggregate_all(redis: Any, settings: Settings) -> None:
    """Run an aggregator until the last event is in the checkpoint."""
    stop, (last,) = asyncio.Event(), await redis.xrevrange(STREAMS.metrics, count=1)
    running = asyncio.create_task(aggregate(settings, str(settings.redis_url), stop))
    await until(lambda: is_aggregated(redis, last[0]))
    stop.set()
    await running


async def fill(redis: Any, events: list[bytes]) -> None:
    """Make an empty Redis that has the events."""
    await redis.flushall()
    for start in range(0, len(events), 1000):
        async with redis.pipeline(transaction=False) as pipe:
            for event in events[start : start + 1000]:
                pipe.xadd(STREAMS.metrics, {"data": event})
            await pipe.execute()


def parts_us(settings: Settings, events: list[bytes]) -> dict[str, float]:
    """Return the microseconds of an event in parts of the work, and the rows of the state with their bytes."""
    gc.collect()
    started = time.process_time()
    for event in events:
        from_json(event)
    parsed = time.process_time()
    models = [MetricEvent.decode(event) for event in events]
    decoded = time.process_time()
    before = psutil.Process().memory_info().rss
    state = AggregatorState(state_options(settings))
    begun = time.process_time()
    for start in range(0, len(models), 1000):
        for model in models[start : start + 1000]:
            state.apply(model)
        state.take_changes()
    applied = time.process_time()
    return {
        "JSON": 1e6 * (parsed - started) / len(events),
        "model": 1e6 * (decoded - parsed) / len(events),
        "state": 1e6 * (applied - begun) / len(events),
        "rows": len(state),
        "KiB": (psutil.Process().memory_info().rss - before) / 1024,
    }


async def one_round(redis: Any, settings: Settings, events: list[bytes]) -> dict[str, float]:
    """Return every number of a round."""
    await fill(redis, events)
    used = await redis_us(redis)
    found = {"aggregate": await processor_us(lambda: aggregate_all(redis, settings), len(events))}
    found["redis"] = (await redis_us(redis) - used) / len(events)
    found["raw"] = await processor_us(lambda: read_raw(redis), len(events))
    return {**found, "ratio": found["aggregate"] / found["raw"], **parts_us(settings, events)}


async def measure(url: str, data_dir: Path, count: int, keys: int, rounds: int) -> list[dict[str, float]]:
    """Return the numbers of every round."""
    settings, events = keyed_settings(url, data_dir), keyed_events(count, keys)
    redis = connect_async(url)
    try:
        await fill(redis, events)
        await read_raw(redis)
        return [await one_round(redis, settings, events) for _ in range(rounds)]
    finally:
        await redis.aclose()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[60, 1000])
    parser.add_argument("--events", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        for keys in arguments.keys:
            found = asyncio.run(measure(server.url, Path(name), arguments.events, keys, arguments.rounds))
            if keys == arguments.keys[0]:
                print(f"{'keys':>8}" + "".join(f"{column:>11}" for column in found[0]))
            medians = {column: statistics.median(round_[column] for round_ in found) for column in found[0]}
            print(f"{keys:>8,}" + "".join(f"{median:>11,.1f}" for median in medians.values()), flush=True)


if __name__ == "__main__":
    main()
