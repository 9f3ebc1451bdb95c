"""The cost of safety: scripts against plain commands, and the checkpoint by its interval.

    python benchmarks/safety.py [--entries 20000] [--rounds 5]

In one run, on one embedded Redis, in turn:

- hand over: results acknowledged and emitted by our script, 200 in a round trip, against plain XACK + XADD in the same
  kind of pipeline, which emits twice what two workers finish; against these two in a script, which does not; and in
  MULTI/EXEC. Ours also looks after ids, and remembers where the event is for feedback.
- publish: by our script, which adds an id once, against plain XADD.
- checkpoint: an aggregator with the default rules over 20,000 events of 20 pipelines, at several commit intervals: its
  rate, and the bytes of append-only file per event.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ragtide import RagInteraction
from ragtide_consumers.worker.results import LabeledEntry, ResultCommitter
from ragtide_offline.demo import demo_interactions
from ragtide_producers.publishing.batch_publisher import publish_commands
from ragtide_producers.publishing.routes import InteractionRoute
from ragtide_roles.serving import aggregate
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import MetricEvent, utc_now

STREAMS = Streams("ragtide", 0)
AT_ONCE = 200
INTERVALS_S = (0.05, 0.25, 1.0)

ACKNOWLEDGE_THEN_ADD = """
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 1 then
    redis.call('XADD', KEYS[2], '*', 'data', ARGV[3])
end
"""


def event_of(one: RagInteraction, entry_id: str) -> MetricEvent:
    """Return a metric event as the local labeler makes one."""
    names = ("context_relevance", "context_utilization", "adherence", "supported_fraction")
    return MetricEvent(
        interaction_id=one.interaction_id,
        entry_id=entry_id,
        pipeline=one.pipeline,
        occurred_at=one.occurred_at,
        labeled_at=utc_now(),
        labeler="local",
        labeler_version="1",
        profile="ragbench",
        scores={f"trace.{name}": 0.5 for name in names},
    )


async def fill(redis: Any, rows: list[RagInteraction]) -> list[str]:
    """Add interactions, and let a worker take them; return their entries."""
    await redis.flushall()
    for start in range(0, len(rows), 1000):
        async with redis.pipeline(transaction=False) as pipe:
            for row in rows[start : start + 1000]:
                pipe.xadd(STREAMS.interactions, {"data": row.encode()})
            await pipe.execute()
    await redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    reply = await redis.xreadgroup(LABEL_GROUP, "w", {STREAMS.interactions: ">"}, count=len(rows))
    return [entry_id.decode() for entry_id, _ in reply[0][1]]


async def timed(body: Callable[[], Awaitable[None]], count: int) -> float:
    """Return how many a second."""
    started = time.perf_counter()
    await body()
    return count / (time.perf_counter() - started)


async def commit_results(redis: Any, rows: list[RagInteraction], rates: dict[str, list[float]]) -> None:
    """Measure three ways of committing results."""
    committer = ResultCommitter(redis, STREAMS, consumer="w", dedupe_window_s=86_400, feedback_window_s=604_800)

    async def ours() -> None:
        for start in range(0, len(results), AT_ONCE):
            await committer.commit(results[start : start + AT_ONCE])

    async def plain(*, transaction: bool) -> None:
        for start in range(0, len(results), AT_ONCE):
            async with redis.pipeline(transaction=transaction) as pipe:
                for result in results[start : start + AT_ONCE]:
                    pipe.xack(STREAMS.interactions, LABEL_GROUP, result.entry_id)
                    pipe.xadd(STREAMS.metrics, {"data": result.event.encode()})
                await pipe.execute()

    async def bare() -> None:
        script = Lua("acknowledge_then_add")
        script.text = ACKNOWLEDGE_THEN_ADD
        for start in range(0, len(results), AT_ONCE):
            keys = [STREAMS.interactions, STREAMS.metrics]
            calls = [
                ScriptCall(script, keys, [LABEL_GROUP, result.entry_id, result.event.encode()], bool)
                for result in results[start : start + AT_ONCE]
            ]
            await run_scripts(redis, calls)

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "hand over, XACK + XADD": lambda: plain(transaction=False),
        "hand over, a script of these two": bare,
        "hand over, MULTI/EXEC": lambda: plain(transaction=True),
        "hand over, script": ours,
    }
    for name, body in ways.items():
        entries = await fill(redis, rows)
        results = [LabeledEntry(entry, event_of(row, entry)) for entry, row in zip(entries, rows, strict=True)]
        rates.setdefault(name, []).append(await timed(body, len(rows)))


async def publish(redis: Any, settings: Settings, rows: list[RagInteraction], rates: dict[str, list[float]]) -> None:
    """Measure the two ways of publishing; interactions are encoded before."""
    routing = InteractionRoute.of(settings)
    commands = [routing.command(row) for row in rows]

    async def ours() -> None:
        for start in range(0, len(commands), AT_ONCE):
            await publish_commands(redis, routing, commands[start : start + AT_ONCE])

    async def plain() -> None:
        for start in range(0, len(commands), AT_ONCE):
            async with redis.pipeline(transaction=False) as pipe:
                for command in commands[start : start + AT_ONCE]:
                    pipe.xadd(STREAMS.interactions, {"data": command.payload})
                await pipe.execute()

    for name, body in (("publish, XADD", plain), ("publish, script", ours)):
        await redis.flushall()
        rates.setdefault(name, []).append(await timed(body, len(rows)))


async def checkpoints(
    redis: Any, settings: Settings, rows: list[RagInteraction], rates: dict[str, list[float]]
) -> None:
    """Measure an aggregator at several commit intervals."""
    for interval_s in INTERVALS_S:
        await redis.flushall()
        for start in range(0, len(rows), 1000):
            async with redis.pipeline(transaction=False) as pipe:
                for number, row in enumerate(rows[start : start + 1000]):
                    event = event_of(row.model_copy(update={"pipeline": f"p-{number % 20}"}), "1-0")
                    pipe.xadd(STREAMS.metrics, {"data": event.encode()})
                await pipe.execute()
        last = (await redis.xrevrange(STREAMS.metrics, count=1))[0][0]
        before = (await redis.info("persistence"))["aof_current_size"]
        stop = asyncio.Event()
        started = time.perf_counter()
        body = aggregate(settings.model_copy(update={"commit_interval_s": interval_s}), settings.redis_url or "", stop)
        running = asyncio.create_task(body)
        while await redis.hget(STREAMS.checkpoint, "position") != last:
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - started
        stop.set()
        await running
        written = (await redis.info("persistence"))["aof_current_size"] - before
        rates.setdefault(f"checkpoint every {interval_s:g} s", []).append(len(rows) / seconds)
        rates.setdefault(f"checkpoint every {interval_s:g} s, bytes an event", []).append(written / len(rows))


async def measure(options: argparse.Namespace, url: str) -> dict[str, list[float]]:
    """Return the rates of every round."""
    bundled = demo_interactions()
    rows = [
        bundled[number % len(bundled)].model_copy(update={"interaction_id": f"b-{number}", "pipeline": "bench"})
        for number in range(options.entries)
    ]
    settings = Settings(redis_url=url)
    rates: dict[str, list[float]] = {}
    async with connect_async(url) as redis:
        await redis.config_set("auto-aof-rewrite-percentage", 0)
        for _ in range(options.rounds):
            await commit_results(redis, rows, rates)
            await publish(redis, settings, rows, rates)
            await checkpoints(redis, settings, rows, rates)
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        rates = asyncio.run(measure(options, server.url))
    compared = {
        "hand over": "hand over, XACK + XADD",
        "publish": "publish, XADD",
        "checkpoint": f"checkpoint every {INTERVALS_S[1]:g} s",
    }
    print(f"{'':<42}{'per second':>12}{'ratio':>8}")
    for name, values in rates.items():
        if "bytes" in name:
            print(f"{name:<42}{statistics.median(values):>12,.0f}")
            continue
        base = rates[next(other for what, other in compared.items() if name.startswith(what))]
        ratio = statistics.median(value / other for value, other in zip(values, base, strict=True))
        print(f"{name:<42}{statistics.median(values):>12,.0f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
