"""The cost of specimens: processor time of a label worker that keeps them, beside one that keeps none, in one run.

    python benchmarks/specimens.py [--interactions 4000] [--rounds 5]

Every round labels the same interactions by each of the two, on one embedded Redis, in this one process and in turn, so
that the ratio holds on a noisy machine. Printed: the median rates over the rounds, in interactions per second of
processor time of this process, and the median of their ratios.

- deliver: a labeler that returns scores of a hash of the id at no cost, so that only the road is measured.
- label: the local labeler, the whole work of a worker.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from throughput import STREAMS, until

from ragtide import InteractionProducer, Labeling, LocalLabeler, RagInteraction
from ragtide_consumers import Labeler
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.draws import draw_number
from ragtide_runtime.redis.client import connect, connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_runtime.telemetry.logs import configure_logging

NAMES: Final = ("context_relevance", "context_utilization", "completeness", "adherence", "supported_fraction")


class DrawnLabeler:
    """A labeler whose scores are drawn by a hash, so that some are worse than others."""

    name, version, profile = "drawn", "1", "ragbench"

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return scores that depend on the id only."""
        return Labeling({f"trace.{name}": draw_number(f"{name} {interaction.interaction_id}") for name in NAMES})


async def seconds_of(
    redis: Any, settings: Settings, url: str, rows: Sequence[RagInteraction], labeler: Labeler
) -> tuple[float, int]:
    """Return the processor seconds in which a worker labels all interactions, and the specimens that it keeps."""
    await redis.flushall()
    await create_group(redis, STREAMS.interactions)
    async with InteractionProducer(settings=settings) as producer:
        await producer.apublish_many(rows)

    stop = asyncio.Event()
    started = time.process_time()
    running = asyncio.create_task(run_workers(settings, url, labeler, stop))
    with connect(url) as own:
        await until(lambda: own.xlen(STREAMS.metrics) >= len(rows))
    stop.set()
    await running
    seconds = time.process_time() - started
    return seconds, len(await redis.keys(STREAMS.specimen("*")))


async def measure(count: int, rounds: int, url: str, data_dir: Path) -> None:
    """Measure and print."""
    bundled = demo_interactions()
    rows = [
        bundled[number % len(bundled)].model_copy(update={"interaction_id": f"b-{number}", "pipeline": "bench"})
        for number in range(count)
    ]
    variants = {
        enabled: Settings(redis_url=url, data_dir=data_dir, specimens=SpecimenSettings(enabled=enabled))
        for enabled in (False, True)
    }
    redis = connect_async(url)
    print(f"{'stage':<10}{'without':>10}{'with':>10}{'ratio':>8}{'kept':>8}")
    try:
        for stage, labeler in (("deliver", DrawnLabeler()), ("label", LocalLabeler())):
            rates: dict[bool, list[float]] = {False: [], True: []}
            kept = 0
            for _ in range(rounds):
                for enabled, settings in variants.items():
                    seconds, kept = await seconds_of(redis, settings, url, rows, labeler)
                    rates[enabled].append(count / seconds)
            ratio = statistics.median(on / off for off, on in zip(rates[False], rates[True], strict=True))
            off, on = (statistics.median(rates[enabled]) for enabled in (False, True))
            print(f"{stage:<10}{off:>10,.0f}{on:>10,.0f}{ratio:>8.2f}{kept:>8,}")
    finally:
        await redis.aclose()


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    configure_logging("error")
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        asyncio.run(measure(arguments.interactions, arguments.rounds, server.url, Path(name)))


if __name__ == "__main__":
    main()
