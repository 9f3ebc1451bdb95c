"""The growth of labeling with worker processes, and the cost of partitions.

    python benchmarks/scaling.py [--rounds 3]

Real processes of `ragtide worker` on one embedded Redis. Measured is the rate at which metric events appear, over the
middle of a run, so that starting and stopping do not count.

- local: the local labeler, which is bound by the processor, with 1 and 2 worker processes.
- judge: a judge that answers after a second and lets each worker have 16 calls in flight, so that workers wait nearly
  all the time, with 1, 2, 4 and 8 worker processes; ideal is 16 a second and worker.
- partitions: the same two workers with 1, 4 and 16 partitions.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from processes import interactions, judge_server, role, until

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

PIPELINES = 64


def rate(redis: Any, url: str, folder: Path, *, count: int, workers: int, settings: Mapping[str, str]) -> float:
    """Return interactions labeled a second by so many worker processes."""
    redis.flushall()
    layout = Layout("ragtide", int(settings.get("RAGTIDE_PARTITIONS", "1")))
    with InteractionProducer(url, partitions=layout.partitions) as producer:
        producer.publish_many(interactions(count, PIPELINES))

    def labeled() -> int:
        return sum(int(redis.xlen(streams.metrics)) for streams in layout.all())

    with ExitStack() as stack:
        for number in range(workers):
            stack.enter_context(role("worker", {"RAGTIDE_REDIS_URL": url, **settings}, folder / f"{number}.log"))

        def all_at_work() -> bool:
            found = [redis.xinfo_consumers(streams.interactions, "label") for streams in layout.all()]
            return all(len(consumers) == workers for consumers in found)

        until(lambda: redis.exists(layout.all()[0].interactions) and labeled() > 0)
        until(all_at_work)
        start = labeled()
        end = start + (count - start) * 3 // 4
        began = until(lambda: labeled() > start)
        finished = until(lambda: labeled() >= end)
        return (end - start) / (finished - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        judge_server(1.0) as judge,
    ):
        folder = Path(name)
        local: dict[str, str] = {}
        slow = {
            "RAGTIDE_LABELER": "judge",
            "RAGTIDE_JUDGE_MODEL": "m",
            "RAGTIDE_JUDGE_BASE_URL": judge,
            "RAGTIDE_JUDGE_MAX_IN_FLIGHT": "16",
            "RAGTIDE_WORKER_CONCURRENCY": "16",
            "RAGTIDE_WORKER_BATCH": "16",
        }
        for _ in range(options.rounds):
            for workers in (1, 2):
                value = rate(redis, server.url, folder, count=6000 * workers, workers=workers, settings=local)
                found.setdefault(f"local, {workers} workers", []).append(value)
            for workers in (1, 2, 4, 8):
                value = rate(redis, server.url, folder, count=192 * workers, workers=workers, settings=slow)
                found.setdefault(f"judge, {workers} workers", []).append(value)
            for partitions in (1, 4, 16):
                spread = {"RAGTIDE_PARTITIONS": str(partitions)}
                value = rate(redis, server.url, folder, count=12_000, workers=2, settings=spread)
                found.setdefault(f"local, 2 workers, {partitions} partitions", []).append(value)
    first: dict[str, str] = {"local": "local, 1 workers", "judge": "judge, 1 workers"}
    print(f"{'':<34}{'per second':>12}{'to the first':>14}")
    for what, values in found.items():
        base = found["local, 2 workers, 1 partitions" if "partitions" in what else first[what.split(",")[0]]]
        ratio = statistics.median(value / other for value, other in zip(values, base, strict=True))
        print(f"{what:<34}{statistics.median(values):>12,.0f}{ratio:>14.2f}")


if __name__ == "__main__":
    main()
