"""How waiting and memory grow with the keys of one partition.

    python benchmarks/growth.py [--keys 1000 10000 100000] [--folder benchmarks/measured]

For each number of keys, an aggregator gets one metric event of each of so many pipelines (six keys each: five scores
and the time of labeling), with a raised cap on keys. Its memory is looked at when all are committed. It is stopped, one
more event is published, and the time of a restart is that from the start of the process to the commit with that event.
Then a service starts and is asked for the fleet and for the page, twice each, and `ragtide estimates --pipeline` runs.
Writes growth.md and growth.svg into the folder.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# The measurements of `make capacity` start a cluster as the tests do.
sys.path.append(str(Path(__file__).parents[1]))

import many_pipelines
from growing import pages
from growing.axes import Axis, Rows
from growing.unit_costs import KEYS, machine
from many_pipelines import FLEET, STREAMS, Look, estimates, fill, reader
from processes import commit, role

PICTURE = "growth.svg"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Size:
    """What was measured with some number of keys."""

    keys: int
    looks: dict[str, Look]
    filled_mib: float
    """Memory of the aggregator after the first event of every key."""
    restart_s: float
    restart_cpu_s: float
    restarted_mib: float
    checkpoint_mib: float


def measured(keys: int) -> Size:
    """Measure with so many keys, or a few less."""
    pipelines = keys // KEYS
    with many_pipelines.empty() as (redis, folder, settings):
        log = folder / "aggregator.log"
        with role("aggregator", settings, log) as running:
            fill(redis, 0, pipelines)
            filled = psutil.Process(running.pid).memory_info().rss
        begun = time.perf_counter()
        with role("aggregator", settings, log) as running:
            fill(redis, pipelines, pipelines + 1)
            restart_s, process = time.perf_counter() - begun, psutil.Process(running.pid)
            restart_cpu_s, restarted = sum(process.cpu_times()[:2]), process.memory_info().rss
        looks: dict[str, Look] = {}
        for name, address in (("fleet", FLEET), ("page", "/")):
            with reader(redis, folder, settings) as read:
                looks |= {name: read(address), f"{name} again": read(address)}
        looks["estimates"] = estimates(redis, settings)
        failed = {name: look.status for name, look in looks.items() if look.status not in {"200", "exit 0"}}
        if failed:
            raise RuntimeError(f"{keys:,} keys: {failed}")
        of_checkpoint = (redis.memory_usage(STREAMS.checkpoint, samples=0) or 0) / MIB
    return Size(pipelines * KEYS, looks, filled / MIB, restart_s, restart_cpu_s, restarted / MIB, of_checkpoint)


COLUMNS = (
    "keys", f"{FLEET}, s", "fleet again, s", "page /, s", "page again, s", "ragtide estimates --pipeline, s",
    "restart of the aggregator, s",
)  # fmt: skip
NAMES = ("fleet", "fleet again", "page", "page again", "estimates")
IN_MEMORY = ("keys", "aggregator, MiB", "aggregator after a restart, MiB", "checkpoint in Redis, MiB")


def axes(sizes: Sequence[Size]) -> list[Axis]:
    """Return the axes of waiting, processor time and memory."""
    waiting: Rows = [(size.keys, *(size.looks[name].seconds for name in NAMES), size.restart_s) for size in sizes]
    processor: Rows = [(size.keys, *(size.looks[name].all_s for name in NAMES), size.restart_cpu_s) for size in sizes]
    memory: Rows = [(size.keys, size.filled_mib, size.restarted_mib, size.checkpoint_mib) for size in sizes]
    waits = "Seconds until the answer, or from the start of the process to its first commit."
    works = "Seconds of the process and of Redis together; of a restart, without Redis."
    holds = "Resident memory of the aggregator after the first event of every key, and after a restart."
    return [
        Axis("waiting", "Waiting", COLUMNS, waiting, 6, waits),
        Axis("processor", "Processor time", COLUMNS, processor, 6, works),
        Axis("memory", "Memory", IN_MEMORY, memory, 3, holds),
    ]


PAGE = """\
# How a partition grows

Written by `make growth` (`benchmarks/growth.py`) on {date}, commit {commit}: {machine}, Python {python}; the load of
the machine was {load}. One partition with one aggregator and one `ragtide serve`; a pipeline has {keys} keys and one
metric event, so the pipelines grow with the keys. The page and the list of the fleet show 21 pipelines; a
service that has just started is asked for each of them twice.

![Waiting, processor time and memory by the number of keys, with logarithmic scales]({picture})
"""


def page(sizes: Sequence[Size], load: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield PAGE.format(
        date=time.strftime("%Y-%m-%d"),
        commit=commit(),
        machine=machine(),
        python=platform.python_version(),
        load=load,
        keys=KEYS,
        picture=PICTURE,
    ).removesuffix("\n")
    for axis in axes(sizes):
        yield from pages.section(axis)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/measured"))
    options = parser.parse_args()
    begun = os.getloadavg()[0]
    sizes = [measured(keys) for keys in options.keys]
    load = f"{begun:.1f} before and {os.getloadavg()[0]:.1f} at the end"
    pages.draw(axes(sizes), options.folder / PICTURE)
    (options.folder / "growth.md").write_text("\n".join(page(sizes, load)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
