"""Processor time of an interaction, by stage, beside raw redis-py moving the same bytes in the same run.

    python benchmarks/throughput.py [--interactions 8000] [--rounds 3] [--json]

Every round runs every stage once, on one embedded Redis, in this one process. Times are processor time of this process
(all threads) in microseconds an interaction, and processor time of Redis; other programs on the machine change the
ratios little. Printed: the median over the rounds, and the lowest, median and highest ratio to raw redis-py.

- publish: `InteractionProducer.apublish_many`. Raw: the asyncio client, XADD, 200 in a pipeline.
- deliver: a label worker whose labeler returns fixed scores, so that only the road is measured.
  Raw: XREADGROUP of 200 and XACK + XADD of an event of the same size in one script, 200 in a pipeline.
- aggregate: an aggregator of 60 keys that exist already, and one of 1,000. Raw: XREAD of 1,000 at a time.
- label: a label worker with the local labeler, the whole work of a worker. Raw: the words of the same texts, by one
  regular expression.
- small publish, small deliver: the same roads with texts of one sentence, beside the leanest road there is: the
  synchronous client with hiredis.

The floor of a stage is what it costs to validate, make and encode the messages alone, with no road at all.
"""

import argparse
import asyncio
import gc
import json
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregated_keys import aggregate_all, keyed_events, keyed_settings, read_raw
from redis.asyncio import Redis

from ragtide import InteractionProducer, Labeling, LocalLabeler, MetricEvent, RagInteraction, RetrievedDocument
from ragtide_consumers import Labeler
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import utc_now

STREAMS = Streams("ragtide", 0)
BATCH = 200
"""Commands in a pipeline of raw redis-py, and entries of one read of a group."""

STAGES = ("publish", "deliver", "aggregate", "aggregate_1000", "label", "small_publish", "small_deliver")
LABELED = 1000
"""Interactions that the local labeler labels in a round: more take long, and show the same."""

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


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of an interaction in one stage."""

    us: float
    """Processor time of this process, in microseconds."""
    redis_us: float
    """Processor time of Redis, in microseconds."""
    redis_bytes: float
    """Memory that Redis uses more than before."""


def redis_numbers(redis: Any) -> tuple[float, int]:
    """Return the processor time that Redis has used, in seconds, and the memory that it uses, in bytes."""
    info = redis.info()
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"]), int(info["used_memory"])


async def raw_publish(redis: Any, payloads: Sequence[bytes], stream: str = STREAMS.interactions) -> None:
    """Add every payload, 200 in a pipeline."""
    for start in range(0, len(payloads), BATCH):
        async with redis.pipeline(transaction=False) as pipe:
            for payload in payloads[start : start + BATCH]:
                pipe.xadd(stream, {DATA_FIELD: payload})
            await pipe.execute()


async def raw_deliver(redis: Any, event: bytes) -> None:
    """Read every entry, acknowledge it and add an event, 200 at a time."""
    script = redis.register_script(RAW_EMIT)
    while batch := await redis.xreadgroup(LABEL_GROUP, "raw", {STREAMS.interactions: ">"}, count=BATCH):
        async with redis.pipeline(transaction=False) as pipe:
            for entry_id, _ in batch[0][1]:
                await script(
                    keys=[STREAMS.interactions, STREAMS.metrics], args=[LABEL_GROUP, entry_id, event], client=pipe
                )
            await pipe.execute()


async def lean_publish(redis: Any, payloads: Sequence[bytes]) -> None:
    """Add every payload with the synchronous client, 200 in a pipeline."""
    for start in range(0, len(payloads), BATCH):
        with redis.pipeline(transaction=False) as pipe:
            for payload in payloads[start : start + BATCH]:
                pipe.xadd(STREAMS.interactions, {DATA_FIELD: payload})
            pipe.execute()


async def lean_deliver(redis: Any, event: bytes) -> None:
    """Read every entry, acknowledge it and add an event with the synchronous client, 200 at a time."""
    sha = redis.script_load(RAW_EMIT)
    while batch := redis.xreadgroup(LABEL_GROUP, "raw", {STREAMS.interactions: ">"}, count=BATCH):
        with redis.pipeline(transaction=False) as pipe:
            for entry_id, _ in batch[0][1]:
                pipe.evalsha(sha, 2, STREAMS.interactions, STREAMS.metrics, LABEL_GROUP, entry_id, event)
            pipe.execute()


async def words(rows: Sequence[RagInteraction]) -> None:
    """Find the words of every text."""
    pattern = re.compile(r"\w+")
    for row in rows:
        for text in (row.question, row.response, *(document.text for document in row.documents)):
            pattern.findall(text.lower())


async def encoded(messages: Sequence[RagInteraction]) -> None:
    """Encode every message."""
    for message in messages:
        message.encode()


async def labeled(payloads: Sequence[bytes]) -> None:
    """Validate every interaction, and make and encode its event."""
    labeler = FixedLabeler()
    for payload in payloads:
        interaction = RagInteraction.from_entry("1-1", payload)
        labeling, now = await labeler.label(interaction), utc_now()
        metric_event(
            interaction, labeler_id(labeler), labeling, labeled_at=now, latency_s=0.0, entry_id="1-1", covariates=()
        ).encode()


async def validated_events(payloads: Sequence[bytes]) -> None:
    """Validate every metric event."""
    for payload in payloads:
        MetricEvent.decode(payload)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():
        await asyncio.sleep(0.05)


class Round:
    """Every stage once, on one Redis."""

    def __init__(self, settings: Settings, redis: Any, own: Any, rows: Sequence[RagInteraction]) -> None:
        self._settings, self._redis, self._own = settings, redis, own
        self._rows = rows
        self._small = [small(row) for row in rows]
        self._measured: dict[str, Costs] = {}

    async def run(self) -> dict[str, Costs]:
        """Return the costs of each stage, of its raw road and of its floor, by name."""
        await self.roads()
        await self._label(self._rows[:LABELED])
        await self._aggregate("aggregate", 60)
        await self._aggregate("aggregate_1000", 1000)
        return self._measured

    async def roads(self) -> dict[str, Costs]:
        """Return the costs of publishing and delivering alone."""
        await self._road("", self._rows, raw_publish, raw_deliver, self._redis)
        await self._road("small_", self._small, lean_publish, lean_deliver, self._own)
        return self._measured

    async def costs(self, name: str, count: int, body: Callable[[], Awaitable[Any]]) -> None:
        """Measure what an interaction costs, if the body handles so many."""
        gc.collect()
        gc.freeze()  # messages of the benchmark are no garbage of a role
        processor_s, memory = redis_numbers(self._own)
        started = time.process_time()
        await body()
        own_s = time.process_time() - started
        processor_after_s, memory_after = redis_numbers(self._own)
        self._measured[name] = Costs(
            own_s / count * 1e6, (processor_after_s - processor_s) / count * 1e6, (memory_after - memory) / count
        )

    def _forget(self) -> None:
        self._own.execute_command("FLUSHALL", "SYNC")  # memory that is freed later would count for a stage

    async def _road(
        self, prefix: str, rows: Sequence[RagInteraction], raw_publishing: Any, raw_delivering: Any, client: Any
    ) -> None:
        count, payloads = len(rows), [row.encode() for row in rows]
        self._forget()
        async with InteractionProducer(settings=self._settings) as producer:
            await self.costs(f"{prefix}publish", count, lambda: producer.apublish_many(rows))
        await self.costs(f"{prefix}deliver", count, lambda: self._work(FixedLabeler(), count))
        event = (await self._redis.xrevrange(STREAMS.metrics, count=1))[0][1][b"data"]
        self._forget()
        await create_group(self._redis, STREAMS.interactions)
        await self.costs(f"{prefix}publish_raw", count, lambda: raw_publishing(client, payloads))
        await self.costs(f"{prefix}deliver_raw", count, lambda: raw_delivering(client, event))
        await self.costs(f"{prefix}publish_floor", count, lambda: encoded(rows))
        await self.costs(f"{prefix}deliver_floor", count, lambda: labeled(payloads))

    async def _label(self, rows: Sequence[RagInteraction]) -> None:
        self._forget()
        async with InteractionProducer(settings=self._settings) as producer:
            await producer.apublish_many(rows)
        labeler = LocalLabeler()
        await labeler.label(rows[0])
        await self.costs("label", len(rows), lambda: self._work(labeler, len(rows)))
        await self.costs("label_raw", len(rows), lambda: words(rows))

    async def _aggregate(self, name: str, keys: int) -> None:
        self._forget()
        count = len(self._rows)
        settings = keyed_settings(str(self._settings.redis_url), self._settings.data_dir)
        before, payloads = keyed_events(keys, keys), keyed_events(count, keys)

        aggregating = connect_async(str(self._settings.redis_url))
        await raw_publish(self._redis, before, STREAMS.metrics)
        await aggregate_all(aggregating, settings)  # every key exists before the measured events
        after = self._own.xrevrange(STREAMS.metrics, count=1)[0][0]
        await raw_publish(self._redis, payloads, STREAMS.metrics)
        await self.costs(name, count, lambda: aggregate_all(aggregating, settings))
        await aggregating.aclose()
        await self.costs(f"{name}_raw", count, lambda: read_raw(self._redis, after))
        await self.costs(f"{name}_floor", count, lambda: validated_events(payloads))

    async def _work(self, labeler: Labeler, count: int) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(run_workers(self._settings, str(self._settings.redis_url), labeler, stop))
        await until(lambda: self._own.xlen(STREAMS.metrics) >= count)
        stop.set()
        await running


class Roads(Round):
    """Publishing and delivering alone."""

    async def run(self) -> dict[str, Costs]:
        """Return the costs of each road, of its raw road and of its floor, by name."""
        return await self.roads()


def small(row: RagInteraction) -> RagInteraction:
    """Return the interaction with texts of one sentence."""
    return row.model_copy(
        update={
            "question": "How many seconds are in a year?",
            "documents": (RetrievedDocument(text="A year has 31,557,600 seconds."),),
            "response": "A year has 31,557,600 seconds.",
            "gold_scores": None,
            "segments": {},
            "source": None,
        }
    )


async def measure(
    count: int, rounds: int, url: str, data_dir: Path, kind: type[Round] = Round
) -> list[dict[str, Costs]]:
    """Return the costs of every round."""
    bundled = demo_interactions()
    rows = [
        bundled[number % len(bundled)].model_copy(update={"interaction_id": f"b-{number}", "pipeline": "bench"})
        for number in range(count)
    ]
    settings = Settings(redis_url=url, data_dir=data_dir)
    redis, own = Redis.from_url(url), connect(url)
    try:
        await kind(settings, redis, own, rows[:BATCH]).run()  # imports, and everything else that happens once
        return [await kind(settings, redis, own, rows).run() for _ in range(rounds)]
    finally:
        await redis.aclose()
        own.close()


def measured(interactions: int, rounds: int, kind: type[Round] = Round) -> list[dict[str, Costs]]:
    """Return the costs of every round of some kind, on an embedded Redis of its own."""
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        return asyncio.run(measure(interactions, rounds, server.url, Path(name), kind))


def ratios(results: Sequence[dict[str, Costs]], stage: str) -> list[float]:
    """Return the ratio of a stage to raw redis-py in each round."""
    return [result[stage].us / result[f"{stage}_raw"].us for result in results]


def summary(results: Sequence[dict[str, Costs]]) -> dict[str, Any]:
    """Return the medians over the rounds by name, and the ratio to raw in each round by stage."""
    numbers: dict[str, Any] = {}
    for name in results[0]:
        numbers[f"{name}_us"] = round(statistics.median(result[name].us for result in results), 2)
        if not name.endswith("_floor") and name != "label_raw":  # these ask nothing of Redis
            numbers[f"{name}_redis_us"] = round(statistics.median(result[name].redis_us for result in results), 2)
            numbers[f"{name}_redis_bytes"] = round(statistics.median(result[name].redis_bytes for result in results))
    numbers["ratios"] = {stage: [round(ratio, 2) for ratio in ratios(results, stage)] for stage in STAGES}
    return numbers


def show(numbers: dict[str, Any]) -> None:
    """Print the table."""
    print(f"{'':<16}{'us':>8}{'raw us':>8}{'floor us':>10}{'ratio: low, median, high':>28}{'Redis us':>10}{'raw':>7}")
    for stage in STAGES:
        ordered = sorted(numbers["ratios"][stage])
        spread = f"{ordered[0]:.2f} {statistics.median(ordered):.2f} {ordered[-1]:.2f}"
        floor = numbers.get(f"{stage}_floor_us")
        floor_text = "" if floor is None else f"{floor:.1f}"
        raw_redis = numbers.get(f"{stage}_raw_redis_us")
        raw_text = "" if raw_redis is None else f"{raw_redis:.1f}"
        print(
            f"{stage:<16}{numbers[f'{stage}_us']:>8.1f}{numbers[f'{stage}_raw_us']:>8.1f}{floor_text:>10}{spread:>28}"
            f"{numbers[f'{stage}_redis_us']:>10.1f}{raw_text:>7}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    numbers = summary(measured(arguments.interactions, arguments.rounds))
    if arguments.json:
        print(json.dumps(numbers))
    else:
        print(f"{arguments.interactions:,} interactions, {arguments.rounds} rounds")
        show(numbers)


if __name__ == "__main__":
    main()
