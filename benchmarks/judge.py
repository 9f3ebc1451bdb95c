"""The rate at which one worker process labels with a judge, beside the ideal rate and that of its processor.

    python benchmarks/judge.py [--interactions 6000] [--latency 0.2] [--in-flight 256] [--rounds 3]

A server in a process of its own answers each call after the latency; the ideal rate is in-flight / latency. Every
round measures, in turn:

- worker: what `ragtide worker` runs with the judge, from the stream to the metric events, Redis included;
- worker, no latency: the same against a server that answers at once: the processor's ceiling for all of that work;
- bare client: the `openai` client alone, called in the way we call it, with the same requests and as many in flight.

Printed: medians over the rounds. A worker is timed over the last three quarters, after its calls in flight have grown.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import openai
from processes import interactions, judge_server

from ragtide import InteractionProducer, RagInteraction
from ragtide_consumers.labelers.judge.dialect import Dialect
from ragtide_consumers.labelers.judge.prompts import trace_prompt
from ragtide_consumers.text.sentences import cut
from ragtide_roles.serving import work
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging

STREAMS = Streams("ragtide", 0)


def settings_for(url: str, server: str, in_flight: int) -> Settings:
    """Return settings with which a worker asks a server."""
    judge = JudgeSettings(model="m", base_url=server, max_in_flight=in_flight)
    return Settings(labeler="judge", redis_url=url, judge=judge, worker_concurrency=in_flight)


async def worker_rate(redis: Any, settings: Settings, rows: list[RagInteraction]) -> float:
    """Return interactions labeled per second, from the stream to the events."""
    await redis.flushall()
    async with InteractionProducer(settings=settings) as producer:
        await producer.apublish_many(rows)
    stop = asyncio.Event()
    running = asyncio.create_task(work(settings, settings.redis_url or "", stop))
    await emitted(redis, len(rows) // 4)
    started, before = time.perf_counter(), await redis.xlen(STREAMS.metrics)
    await emitted(redis, len(rows))
    seconds = time.perf_counter() - started
    stop.set()
    await running
    return float(len(rows) - before) / seconds


async def emitted(redis: Any, count: int) -> None:
    """Wait until so many metric events are there."""
    while await redis.xlen(STREAMS.metrics) < count:
        await asyncio.sleep(0.02)


async def client_rate(server: str, in_flight: int, rows: list[RagInteraction]) -> float:
    """Return calls per second of the client alone."""
    settings = JudgeSettings(model="m")
    dialect = Dialect(settings, "")
    requests = []
    for row in rows:
        sentences = cut(row)
        documents = zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True)
        response = zip(sentences.response_keys, sentences.response, strict=True)
        requests.append(dialect.parameters(trace_prompt(row.question, documents, response, "en")))
    slots = asyncio.Semaphore(in_flight)
    async with openai.AsyncOpenAI(
        api_key="none", base_url=server, max_retries=0, http_client=openai.DefaultAioHttpClient()
    ) as client:

        async def call(request: dict[str, Any]) -> None:
            async with slots:
                await client.post("/chat/completions", cast_to=object, body=request)

        started = time.perf_counter()
        await asyncio.gather(*(call(request) for request in requests))
        return len(rows) / (time.perf_counter() - started)


async def measure(options: argparse.Namespace, url: str) -> dict[str, list[float]]:
    """Return the rates of every round."""
    rates: dict[str, list[float]] = {"worker": [], "worker, no latency": [], "bare client": []}
    rows = interactions(options.interactions)
    async with connect_async(url) as redis:
        for _ in range(options.rounds):
            for name, latency in (("worker", options.latency), ("worker, no latency", 0.0)):
                with judge_server(latency) as server:
                    settings = settings_for(url, server, options.in_flight)
                    rates[name].append(await worker_rate(redis, settings, rows))
            with judge_server(options.latency) as server:
                rates["bare client"].append(await client_rate(server, options.in_flight, rows))
    return rates


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=6000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis.open(Path(folder)) as server:
        rates = asyncio.run(measure(options, server.url))
    ideal = options.in_flight / options.latency
    print(f"ideal: {options.in_flight} in flight / {options.latency:g} s = {ideal:,.0f}/s")
    for name, values in rates.items():
        rate = statistics.median(values)
        print(f"{name:<20}{rate:>8,.0f}/s   {rate / ideal:>5.0%} of the ideal")
    pairs = zip(rates["worker"], rates["worker, no latency"], strict=True)
    print(f"worker / worker, no latency: {statistics.median(a / b for a, b in pairs):.2f}")
    pairs = zip(rates["worker"], rates["bare client"], strict=True)
    print(f"worker / bare client: {statistics.median(a / b for a, b in pairs):.2f}")


if __name__ == "__main__":
    main()
