"""How fast one worker process labels with a judge, beside the ideal and beside the `openai` client alone.

    python benchmarks/judge.py [--interactions 2000] [--latency 0.2] [--in-flight 64] [--rounds 3]

A server in a process of its own answers each call after the latency. Every round measures, in turn:

- the share of the ideal: 200 and 2,000 interactions are published at once to a worker that has labeled one; the ideal
  time until the last metric event is interactions * latency / in-flight;
- the processor time of an interaction in the worker, from the stream to the metric event, with a server that answers
  at once;
- the processor time of a call of the `openai` client alone over the same transport (aiohttp), with the same requests
  and as many in flight: by `post` with a plain reply, which is the least it offers, and by `chat.completions.create`,
  as applications call it; and of a call of the client of ragtide, which the worker uses.

Printed: medians over the rounds, with the lowest and the highest. Processor time is that of this process; Redis and the
server have their own. Times of day are meaningful on a machine that does nothing else.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
from processes import interactions, judge_server
from pydantic_core import to_json

from ragtide import InteractionProducer, RagInteraction
from ragtide_consumers.labelers.judge.dialect import Dialect
from ragtide_consumers.labelers.judge.prompts import trace_prompt
from ragtide_consumers.labelers.remote.posting import Poster
from ragtide_consumers.text.sentences import cut
from ragtide_roles.serving import work
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging

STREAMS = Streams("ragtide", 0)
COUNTS = (200, 2000)


def settings_for(url: str, server: str, in_flight: int) -> Settings:
    """Return settings with which a worker asks a server."""
    judge = JudgeSettings(model="m", base_url=server, max_in_flight=in_flight)
    return Settings(labeler="judge", redis_url=url, judge=judge, worker_concurrency=in_flight)


@asynccontextmanager
async def warm_worker(redis: Any, settings: Settings, row: RagInteraction) -> AsyncIterator[InteractionProducer]:
    """Run a worker that has labeled one interaction, and give a producer, for the body of an `async with`."""
    await redis.flushall()
    stop = asyncio.Event()
    running = asyncio.create_task(work(settings, settings.redis_url or "", stop))
    try:
        async with InteractionProducer(settings=settings) as producer:
            await producer.apublish(row)
            await emitted(redis, 1)
            yield producer
    finally:
        stop.set()
        await running


async def emitted(redis: Any, count: int) -> None:
    """Wait until so many metric events are there."""
    while await redis.xlen(STREAMS.metrics) < count:
        await asyncio.sleep(0.05)


async def worker_seconds(redis: Any, settings: Settings, rows: Sequence[RagInteraction]) -> float:
    """Return the seconds from the publishing of all interactions to the last metric event."""
    async with warm_worker(redis, settings, rows[0]) as producer:
        started = time.perf_counter()
        await producer.apublish_many(rows[1:])
        await emitted(redis, len(rows))
        return time.perf_counter() - started


async def worker_processor_us(redis: Any, settings: Settings, rows: Sequence[RagInteraction]) -> float:
    """Return the microseconds of processor of an interaction in the worker, over the last three quarters."""
    async with warm_worker(redis, settings, rows[0]) as producer:
        await producer.apublish_many(rows[1:])
        await emitted(redis, len(rows) // 4)
        started, before = time.process_time(), await redis.xlen(STREAMS.metrics)
        await emitted(redis, len(rows))
        return 1e6 * (time.process_time() - started) / float(len(rows) - before)


def requests_of(rows: Sequence[RagInteraction]) -> list[dict[str, Any]]:
    """Return the requests that the worker sends."""
    dialect = Dialect(JudgeSettings(model="m"), "")
    found = []
    for row in rows:
        sentences = cut(row)
        documents = zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True)
        response = zip(sentences.response_keys, sentences.response, strict=True)
        found.append(dialect.parameters(trace_prompt(row.question, documents, response, "en")))
    return found


async def client_processor_us(server: str, in_flight: int, requests: list[dict[str, Any]]) -> dict[str, float]:
    """Return the microseconds of processor of a call of each client alone, by its name."""
    poster = Poster(f"{server}/chat/completions", {})
    async with (
        aclosing(poster),
        openai.AsyncOpenAI(
            api_key="none", base_url=server, max_retries=0, http_client=openai.DefaultAioHttpClient()
        ) as client,
    ):

        async def post(request: dict[str, Any]) -> None:
            await client.post("/chat/completions", cast_to=object, body=request)

        async def create(request: dict[str, Any]) -> None:
            await client.chat.completions.create(**request)

        async def own(request: dict[str, Any]) -> None:
            await poster.post(to_json(request), json.loads)

        async def processor_us(call: Callable[[dict[str, Any]], Awaitable[None]]) -> float:
            left = iter(requests)

            async def lane() -> None:
                for request in left:
                    await call(request)

            started = time.process_time()
            await asyncio.gather(*(lane() for _ in range(in_flight)))
            return 1e6 * (time.process_time() - started) / len(requests)

        found = {}
        for name, call in (("post", post), ("create", create), ("own", own)):
            await asyncio.gather(*(call(request) for request in requests[:in_flight]))  # connections are open then
            found[name] = await processor_us(call)
        return found


async def measure(options: argparse.Namespace, url: str) -> dict[str, list[float]]:
    """Return the values of every round."""
    found: dict[str, list[float]] = defaultdict(list)
    rows = interactions(max(options.interactions, *COUNTS) + 1)
    requests = requests_of(rows[: options.interactions])
    async with connect_async(url) as redis:
        for _ in range(options.rounds):
            for count in COUNTS:
                with judge_server(options.latency) as server:
                    settings = settings_for(url, server, options.in_flight)
                    seconds = await worker_seconds(redis, settings, rows[: count + 1])
                found[f"share {count}"].append(count * options.latency / options.in_flight / seconds)
            with judge_server(0.0) as server:
                settings = settings_for(url, server, options.in_flight)
                found["worker"].append(await worker_processor_us(redis, settings, rows[: options.interactions]))
                for name, processor_us in (await client_processor_us(server, options.in_flight, requests)).items():
                    found[name].append(processor_us)
    return found


def of_rounds(values: Sequence[float], form: str) -> str:
    """Return the median, and the lowest and the highest value."""
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{format(median, form)} ({format(low, form)} to {format(high, form)})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis.open(Path(folder)) as server:
        found = asyncio.run(measure(options, server.url))
    print(f"{options.in_flight} in flight, a judge of {options.latency:g} s, {options.rounds} rounds")
    for count in COUNTS:
        print(f"{count:>5,} interactions: {of_rounds(found[f'share {count}'], '.0%')} of the ideal")
    print("processor time in microseconds")
    for name, words in (
        ("worker", "worker, an interaction"),
        ("post", "openai client, post"),
        ("create", "openai client, create"),
        ("own", "client of ragtide"),
    ):
        print(f"  {words:<24}{of_rounds(found[name], ',.0f')}")
    ratios = [own / post for own, post in zip(found["own"], found["post"], strict=True)]
    print(f"a call of the client of ragtide to one of the openai client, post: {of_rounds(ratios, '.2f')}")
    for name in ("post", "create"):
        ratios = [client / worker for client, worker in zip(found[name], found["worker"], strict=True)]
        print(f"rate of the worker to that of the openai client, {name}: {of_rounds(ratios, '.2f')}")


if __name__ == "__main__":
    main()
