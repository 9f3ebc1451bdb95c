"""The growth of labeling with worker processes, and the cost of partitions.

    python benchmarks/scaling.py [--rounds 3] [--only processes]

Real processes of `ragtide worker` on one embedded Redis. Measured are the rate at which metric events appear, and the
processor time of all processes of the workers, over the middle of a run, so that starting and stopping do not count.
The rate needs a machine without other work; processor time an interaction does not, and must not grow.

- processes: the local labeler, which is bound by the processor, in one command with `--processes` 1 and 2.
- local: the same with 1 and 2 commands of one process each.
- judge: a judge that answers after a second and lets each worker have 16 calls in flight, so that workers wait nearly
  all the time, with 1, 2, 4 and 8 worker processes; ideal is 16 a second and worker.
- partitions: the same two workers with 1, 4 and 16 partitions.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import interactions, judge_server, role, until

from ragtide import InteractionProducer
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

PIPELINES = 64


@dataclass(frozen=True, slots=True)
class Growth:
    """The middle of a run."""

    rate: float
    """Interactions labeled a second."""
    us: float
    """Processor time of all processes of the workers, in microseconds an interaction."""


def processor_s(pid: int) -> float:
    """Return the processor time of a process and its children, in seconds."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_s(int(child)) for child in children)


def measure(
    redis: Any, url: str, folder: Path, *, count: int, workers: int, settings: Mapping[str, str], processes: int = 1
) -> Growth:
    """Return rate and cost of so many commands with so many worker processes each."""
    redis.flushall()
    layout = Layout("ragtide", int(settings.get("RAGTIDE_PARTITIONS", "1")))
    with InteractionProducer(url, partitions=layout.partitions) as producer:
        producer.publish_many(interactions(count, PIPELINES))

    def labeled() -> int:
        return sum(int(redis.xlen(streams.metrics)) for streams in layout.all())

    environment = {"RAGTIDE_REDIS_URL": url, "RAGTIDE_WORKER_PROCESSES": str(processes), **settings}
    with ExitStack() as stack:
        started = [
            stack.enter_context(role("worker", environment, folder / f"{number}.log")) for number in range(workers)
        ]

        def all_at_work() -> bool:
            found = [redis.xinfo_consumers(streams.interactions, "label") for streams in layout.all()]
            return all(len(consumers) == workers * processes for consumers in found)

        def used_s() -> float:
            return sum(processor_s(process.pid) for process in started)

        until(lambda: redis.exists(layout.all()[0].interactions) and labeled() > 0)
        until(all_at_work)
        start = labeled()
        end = start + (count - start) * 3 // 4
        began = until(lambda: labeled() > start)
        used_before_s, done_before = used_s(), labeled()
        finished = until(lambda: labeled() >= end)
        cost_s = used_s() - used_before_s
        return Growth((end - start) / (finished - began), 1e6 * cost_s / (labeled() - done_before))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("processes", "local", "judge", "partitions"))
    options = parser.parse_args()
    found: dict[str, list[Growth]] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis.open(Path(name)) as server,
        connect(server.url) as redis,
        judge_server(1.0) as judge,
    ):
        folder = Path(name)
        slow = {
            "RAGTIDE_LABELER": "judge",
            "RAGTIDE_JUDGE_MODEL": "m",
            "RAGTIDE_JUDGE_BASE_URL": judge,
            "RAGTIDE_JUDGE_MAX_IN_FLIGHT": "16",
            "RAGTIDE_WORKER_CONCURRENCY": "16",
            "RAGTIDE_WORKER_BATCH": "16",
        }

        def add(what: str, count: int, workers: int, settings: Mapping[str, str], processes: int = 1) -> None:
            if options.only in (None, what.split(",", maxsplit=1)[0]):
                grown = measure(
                    redis, server.url, folder, count=count, workers=workers, settings=settings, processes=processes
                )
                found.setdefault(what, []).append(grown)

        for _ in range(options.rounds):
            for processes in (1, 2):
                add(f"processes, {processes} of one worker", 6000 * processes, 1, {}, processes)
            for workers in (1, 2):
                add(f"local, {workers} workers", 6000 * workers, workers, {})
            for workers in (1, 2, 4, 8):
                add(f"judge, {workers} workers", 192 * workers, workers, slow)
            for partitions in (1, 4, 16):
                spread = {"RAGTIDE_PARTITIONS": str(partitions)}
                add(f"partitions, 2 workers, {partitions} partitions", 12_000, 2, spread)
    first: dict[str, str] = {}
    print(f"{'':<34}{'per second':>12}{'to the first':>14}{'lowest':>8}{'highest':>9}{'us':>8}{'to the first':>14}")
    for what, runs in found.items():
        base = found[first.setdefault(what.split(",")[0], what)]
        rates = sorted(run.rate / other.rate for run, other in zip(runs, base, strict=True))
        costs = [run.us / other.us for run, other in zip(runs, base, strict=True)]
        print(
            f"{what:<34}{statistics.median(run.rate for run in runs):>12,.0f}{statistics.median(rates):>14.2f}"
            f"{rates[0]:>8.2f}{rates[-1]:>9.2f}{statistics.median(run.us for run in runs):>8,.0f}"
            f"{statistics.median(costs):>14.2f}"
        )


if __name__ == "__main__":
    main()
