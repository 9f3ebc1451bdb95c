"""Throughput from producer to estimate, beside its ceiling: raw redis-py moving the same bytes, in the same run.

    python benchmarks/throughput.py [--interactions 4000] [--rounds 3]

Every round runs every stage once, on one embedded Redis, each stage in this one process, so that ratios hold on a
noisy machine. Printed: the median rate of each stage over the rounds, and its median ratio to the ceiling.

- publish: `InteractionProducer.publish_many`. Ceiling: XADD, 200 in a pipeline.
- deliver: a label worker whose labeler returns fixed scores, so that only the road is measured.
  Ceiling: XREADGROUP of 200 and XACK + XADD of an event of the same size in one script, 200 in a pipeline.
- aggregate: an aggregator with the default alert rules. Ceiling: XREAD of 1,000 at a time.
- label: a label worker with the local labeler, the whole work of a worker. No ceiling: it is the labeling that counts.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ragtide import InteractionProducer, Labeling, LocalLabeler, RagInteraction
from ragtide_consumers import Labeler
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_offline.demo import demo_interactions
from ragtide_roles.serving import aggregate
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging

STREAMS = Streams("ragtide", 0)

RAW_EMIT = """
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return redis.call('XADD', KEYS[2], '*', 'data', ARGV[3])
"""


class FixedLabeler:
    """A labeler that costs nothing."""

    name, version, profile = "fixed", "1", "ragbench"

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return the same scores for every interaction."""
        del interaction
        names = ("context_relevance", "context_utilization", "completeness", "adherence", "supported_fraction")
        return Labeling(scores={f"trace.{name}": 0.5 for name in names}, absent={})


async def timed(body: Callable[[], Awaitable[None]]) -> float:
    """Return the seconds a stage takes."""
    started = time.perf_counter()
    await body()
    return time.perf_counter() - started


async def raw_publish(redis: Any, payloads: list[bytes]) -> None:
    """Add every payload, 200 in a pipeline."""
    for start in range(0, len(payloads), 200):
        async with redis.pipeline(transaction=False) as pipe:
            for payload in payloads[start : start + 200]:
                pipe.xadd(STREAMS.interactions, {"data": payload})
            await pipe.execute()


async def raw_deliver(redis: Any, event: bytes) -> None:
    """Read every entry, acknowledge it and add an event, 200 at a time."""
    script = redis.register_script(RAW_EMIT)
    while batch := await redis.xreadgroup(LABEL_GROUP, "raw", {STREAMS.interactions: ">"}, count=200):
        async with redis.pipeline(transaction=False) as pipe:
            for entry_id, _ in batch[0][1]:
                await script(
                    keys=[STREAMS.interactions, STREAMS.metrics], args=[LABEL_GROUP, entry_id, event], client=pipe
                )
            await pipe.execute()


async def raw_aggregate(redis: Any) -> None:
    """Read every event, 1,000 at a time."""
    position = b"0-0"
    while batch := await redis.xread({STREAMS.metrics: position}, count=1000):
        position = batch[0][1][-1][0]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    while not await condition():
        await asyncio.sleep(0.02)


async def one_round(redis: Any, settings: Settings, url: str, rows: list[RagInteraction]) -> dict[str, float]:
    """Return the rate of every stage, in interactions per second."""
    count, seconds = len(rows), {}
    payloads = [row.encode() for row in rows]

    async def publish() -> None:
        await producer.apublish_many(rows)

    def worker(labeler: Labeler) -> Callable[[], Awaitable[None]]:
        async def body() -> None:
            stop = asyncio.Event()
            running = asyncio.create_task(run_workers(settings, url, labeler, stop))
            await until(lambda: all_emitted(redis, count))
            stop.set()
            await running

        return body

    async def aggregator() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(aggregate(settings, url, stop))
        await until(lambda: all_aggregated(redis))
        stop.set()
        await running

    async with InteractionProducer(settings=settings) as producer:
        await redis.flushall()
        seconds["publish"] = await timed(publish)
        seconds["deliver"] = await timed(worker(FixedLabeler()))
        event = (await redis.xrevrange(STREAMS.metrics, count=1))[0][1][b"data"]
        await redis.flushall()
        await create_group(redis, STREAMS.interactions)
        seconds["publish, raw"] = await timed(lambda: raw_publish(redis, payloads))
        seconds["deliver, raw"] = await timed(lambda: raw_deliver(redis, event))
        await redis.flushall()
        await publish()
        seconds["label"] = await timed(worker(LocalLabeler()))
        seconds["aggregate"] = await timed(aggregator)
        seconds["aggregate, raw"] = await timed(lambda: raw_aggregate(redis))
    return {stage: count / value for stage, value in seconds.items()}


async def all_emitted(redis: Any, count: int) -> bool:
    """Return whether every interaction has its metric event."""
    return int(await redis.xlen(STREAMS.metrics)) >= count


async def all_aggregated(redis: Any) -> bool:
    """Return whether the last metric event is in the checkpoint."""
    last = await redis.xrevrange(STREAMS.metrics, count=1)
    return bool(await redis.hget(STREAMS.checkpoint, "position") == last[0][0])


async def measure(count: int, rounds: int, url: str, data_dir: Path) -> list[dict[str, float]]:
    """Return the rates of every round."""
    bundled = demo_interactions()
    rows = [
        bundled[number % len(bundled)].model_copy(update={"interaction_id": f"b-{number}", "pipeline": "bench"})
        for number in range(count)
    ]
    settings = Settings(redis_url=url, data_dir=data_dir)
    redis = connect_async(url)
    try:
        return [await one_round(redis, settings, url, rows) for _ in range(rounds)]
    finally:
        await redis.aclose()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        results = asyncio.run(measure(arguments.interactions, arguments.rounds, server.url, Path(name)))
        title = f"{arguments.interactions:,} interactions, {arguments.rounds} rounds, {server.binary}"
    if arguments.json:
        print(json.dumps(results))
        return
    print(title)
    print(f"{'stage':<12}{'per second':>12}{'ceiling':>12}{'ratio':>8}")
    for stage in ("publish", "deliver", "aggregate", "label"):
        rate = statistics.median(result[stage] for result in results)
        raw = f"{stage}, raw"
        if raw in results[0]:
            ceiling = statistics.median(result[raw] for result in results)
            ratio = statistics.median(result[stage] / result[raw] for result in results)
            print(f"{stage:<12}{rate:>12,.0f}{ceiling:>12,.0f}{ratio:>8.2f}")
        else:
            print(f"{stage:<12}{rate:>12,.0f}")


if __name__ == "__main__":
    main()
