"""`ragtide serve` under load, beside its ceilings; printed as Markdown.

    python benchmarks/ingest.py [--rounds 3] [--fast] [--only traces,memory,posts]

One process of `ragtide serve` with an embedded Redis; the senders are in this process. Every round measures each row
once beside its ceiling, so that ratios hold on a noisy machine. Printed are medians over the rounds.

Other programs share the processors, so ratios of traces compare processor times.

- Traces: the captured traces of six applications with new trace ids, 512 spans a request as an SDK sends them, over
  four connections. The time is that from the first request to the last interaction in the stream, with `settle_s` 0.2.
  Ceilings: protobuf parsing alone, and parsing and mapping alone, in one thread of this process.
- Memory: traces that stay open are sent until the service answers 429, with the default limits.
- Interactions: JSON of the demo's interactions in batches of 1, 10 and 100. Ceiling: redis-py adds the same bytes with
  XADD, each batch in a pipeline.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from ingesting.measures import Cost, OpenTraces, PostRates, TraceCosts, measure_memory, measure_posts, measure_traces

from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.telemetry.logs import configure_logging

PARTS = ("traces", "memory", "posts")
SIZES = (1, 10, 100)
CONNECTIONS = (1, 8)
MIB = 2**20


def traces_table(rounds: Sequence[TraceCosts]) -> Iterator[str]:
    """Yield the lines about traces; ratios compare processor times, because other programs share the processors."""
    stages: dict[str, Callable[[TraceCosts], Cost]] = {
        "protobuf parsing alone": lambda costs: costs.parsed,
        "parsing and mapping alone": lambda costs: costs.mapped,
        "`ragtide serve`, from the request to the stream": lambda costs: costs.served,
    }
    yield "## Traces\n"
    yield "| | spans a second | spans in a second of processor time | to parsing | to mapping |"
    yield "|---|---|---|---|---|"
    for name, cost in stages.items():
        rate = median(costs.spans / cost(costs).wall_s for costs in rounds)
        of_processor = median(costs.spans / cost(costs).processor_s for costs in rounds)
        to_parsing = median(costs.parsed.processor_s / cost(costs).processor_s for costs in rounds)
        to_mapping = median(costs.mapped.processor_s / cost(costs).processor_s for costs in rounds)
        yield f"| {name} | {rate:,.0f} | {of_processor:,.0f} | {to_parsing:.3f} | {to_mapping:.2f} |"
    rate = median(costs.interactions / costs.served.wall_s for costs in rounds)
    of_processor = median(costs.interactions / costs.served.processor_s for costs in rounds)
    each = rounds[0].spans / rounds[0].interactions
    yield f"\nInteractions, each of {each:.1f} spans: {rate:,.0f} a second, {of_processor:,.0f} of processor time."
    yield f"\nRequests that were answered with 429 and sent again: {sum(costs.retries for costs in rounds):,}."


def memory_table(found: dict[str, OpenTraces], limits: IngestSettings) -> Iterator[str]:
    """Yield the lines about memory."""
    yield "## Memory of open traces\n"
    yield (
        f"Traces are sent until the service answers 429: at {limits.traces_cap:,} traces (`ingest.traces_cap`) or "
        f"{limits.traces_bytes / MIB:,.0f} MiB of spans (`ingest.traces_bytes`). Measured once, in MiB.\n"
    )
    yield "| | open traces | spans, counted | Redis, grown by | service before | service after | answers 429 |"
    yield "|---|---|---|---|---|---|---|"
    for name, memory in found.items():
        sizes = (memory.stored, memory.redis_used, memory.resident_before, memory.resident_after)
        cells = " | ".join(f"{size / MIB:,.0f}" for size in sizes)
        yield f"| {name} | {memory.traces:,} | {cells} | {memory.refused:,} |"


def posts_table(rounds: Sequence[dict[tuple[int, int], PostRates]]) -> Iterator[str]:
    """Yield the lines about interactions."""
    yield "## Interactions as JSON\n"
    yield "| in a request | connections | interactions a second | of processor time | XADD | ratio |"
    yield "|---|---|---|---|---|---|"
    for size, connections in rounds[0]:
        found = [by_size[size, connections] for by_size in rounds]
        rates = (
            median(post.http for post in found),
            median(post.http_of_processor for post in found),
            median(post.raw for post in found),
        )
        ratio = median(post.http / post.raw for post in found)
        yield f"| {size} | {connections} | {' | '.join(f'{rate:,.0f}' for rate in rates)} | {ratio:.2f} |"


async def measure(options: argparse.Namespace, url: str, log: Path) -> Iterator[str]:
    """Return the lines to print."""
    lines: list[str] = []
    limits = IngestSettings()
    if options.fast:
        limits = limits.model_copy(update={"traces_cap": 5_000, "traces_bytes": 16 * MIB})
    async with connect_async(url) as redis:
        if "traces" in options.only:
            spans = 6_000 if options.fast else 24_000
            costs = [await measure_traces(redis, url, log, spans, number) for number in range(options.rounds)]
            lines += [*traces_table(costs), ""]
        if "memory" in options.only:
            kinds = {"one span each": False, "whole traces": True}
            memory = {
                name: await measure_memory(
                    redis,
                    url,
                    log,
                    traces_cap=limits.traces_cap,
                    traces_bytes=limits.traces_bytes,
                    whole=whole,
                    seed=1000,
                )
                for name, whole in kinds.items()
            }
            lines += [*memory_table(memory, limits), ""]
        if "posts" in options.only:
            requests = 200 if options.fast else 1_000
            posts = [
                await measure_posts(redis, url, log, requests=requests, sizes=SIZES, connections=CONNECTIONS)
                for _ in range(options.rounds)
            ]
            lines += [*posts_table(posts), ""]
    return iter(lines[:-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fast", action="store_true", help="fewer spans and requests, and lower limits")
    parser.add_argument("--only", type=lambda text: text.split(","), default=PARTS, help="parts, with commas")
    options = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        lines = asyncio.run(measure(options, server.url, Path(name) / "serve.log"))
    print("# Traces and interactions over HTTP\n")
    print(f"Written by `make ingest` (`benchmarks/ingest.py`): medians of {options.rounds} rounds.\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
