"""How the costs of an interaction grow with every size, and the unit costs of `ragtide capacity`.

    python benchmarks/capacity.py [--short] [--only keys,fleet] [--costs FILE] [--folder benchmarks/measured]

Measured is processor time: of this process, in which each stage runs alone; of processes of the command line, for
workers, `ragtide serve` and the fleet; and of Redis. So other work on the machine changes the figures little.

- keys, documents, partitions, workers, rules, sessions, traces, viewers: the costs at each size.
- units: a few more points, from which the unit costs are fitted with those of keys and documents.
- fleet: a small fleet on a local Redis Cluster, beside the prediction from the unit costs.

Every part is stored in build/capacity when it ends; the page is made from all that are there. So `--only` measures
some parts again, and `--only page` none. The long form takes about half an hour, the short form some minutes.
"""

import argparse
import asyncio
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The cluster is started as the tests start it.
sys.path.append(str(Path(__file__).parents[1]))

from growing import axes, fleet, pages, unit_costs
from growing.label_cost import write_unit_costs
from growing.stages import Bench

from ragtide import LocalLabeler
from ragtide_offline.capacity.unit_costs import SHIPPED
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging

STORE = Path("build/capacity")
SHORT_TEXTS = ((1, 1.0), (5, 1.0), (20, 1.0), (5, 10.0))
LONG_TEXTS = (*SHORT_TEXTS, (2, 1.0), (50, 1.0), (100, 1.0), (1, 100.0), (1, 976.0), (100, 10.0))
STEADY = (
    (2, 20.0, 0.05), (2, 20.0, 0.5), (2, 400.0, 0.05), (40, 100.0, 0.25), (170, 20.0, 0.05), (170, 400.0, 0.05),
    (170, 400.0, 0.5), (600, 400.0, 0.25),
)  # fmt: skip
"""Pipelines, metric events a second, and seconds between two arrivals of events."""
MOST_KIB = 20_000
"""Text of all interactions of a point."""


class Parts:
    """Measures the parts one after the other.

    Args:
        bench: with an empty Redis.
        folder: for logs.
        short: whether sizes and numbers are small.
    """

    def __init__(self, bench: Bench, folder: Path, *, short: bool) -> None:
        self._bench, self._folder, self._short = bench, folder, short
        self._url = bench.settings.redis_url or ""

    def parts(self) -> dict[str, Callable[[], Any]]:
        """Return what measures each part, by its name, in order."""
        bench, short = self._bench, self._short
        return {
            "keys": lambda: axes.key_points(
                bench_with_room(bench), (2, 20, 170, *(() if short else (1700, 16_700))), 4000, say
            ),
            "documents": self._documents,
            "units": self._units,
            "partitions": lambda: axes.partitions_axis(
                bench, (1, 4, 16, 64), 1000 if short else 4000, 3 if short else 10
            ),
            "workers": lambda: axes.workers_axis(
                bench, (1, 2, 4) if short else (1, 2, 4, 8), 1000 if short else 4000, self._folder
            ),
            "rules": lambda: axes.rules_axis(bench, (1, 10, 100, 1000), 2000 if short else 8000),
            "sessions": lambda: axes.sessions_axis(
                bench, (0, 100, 1000, 10_000) if short else (0, 100, 1000, 10_000, 50_000), 4000
            ),
            "traces": lambda: asyncio.run(
                axes.traces_axis(
                    self._url,
                    (0, 1000, 10_000) if short else (0, 1000, 10_000, 50_000),
                    6000,
                    self._folder / "serve.log",
                )
            ),
            "viewers": lambda: asyncio.run(
                axes.viewers_axis(
                    self._url, (0, 1, 10, 50) if short else (0, 1, 10, 50, 200), 4 if short else 15, self._folder
                )
            ),
        }

    def _documents(self) -> list[unit_costs.TextPoint]:
        local = LocalLabeler()
        sizes = SHORT_TEXTS if self._short else LONG_TEXTS
        most = 1500 if self._short else 4000
        unit_costs.text_point(self._bench, 1, 1.0, 300, local=local)  # loads code
        return [
            unit_costs.text_point(
                self._bench, documents, kib, min(max(int(MOST_KIB / documents / kib), 10), most), local=local
            )
            for documents, kib in sizes
        ]

    def _units(self) -> dict[str, Any]:
        bench, short = self._bench, self._short
        sizes = ((1, 1.0), (5, 1.0), (20, 1.0), (2, 8.0))
        usual = Settings().commit_interval_s
        empty = bench.with_settings(commit_interval_s=usual)
        many, idle_s = empty.with_settings(partitions=64), 3 if short else 10
        empty.empty()
        idle = {name: empty.idle(idle_s, name) for name in ("worker", "aggregator")}
        many.empty()
        idle = {name: (many.idle(idle_s, name) - cost).of_each(63) for name, cost in idle.items()}
        return {
            "specimens": [point for _, point in unit_costs.specimen_points(bench, sizes, 300)],
            "judge": unit_costs.judge_points(bench, sizes, 100 if short else 400),
            "steady": unit_costs.steady_points(bench, STEADY, 5.0 if short else 20.0, self._folder)[0],
            "idle": idle,
            "redis": f"Redis {bench.redis.info('server')['redis_version']}",
        }


def bench_with_room(bench: Bench) -> Bench:
    """Return the bench with settings that allow 100,000 keys of a partition."""
    return bench.with_settings(partition_keys_cap=1_000_000)


def say(what: str) -> None:
    """Show progress."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def stored(name: str) -> Any:
    """Return the result of a part that was measured; None without one."""
    file = STORE / f"{name}.pickle"
    return pickle.loads(file.read_bytes()) if file.exists() else None  # noqa: S301 - written by this command


def store(name: str, found: Any) -> Any:
    """Store the result of a part, and return it."""
    STORE.mkdir(parents=True, exist_ok=True)
    (STORE / f"{name}.pickle").write_bytes(pickle.dumps(found))
    return found


def measure(names: list[str], *, short: bool) -> None:
    """Measure parts."""
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        # A commit after each read, not after some time, so that a slow machine makes no more commits than a fast one.
        settings = Settings(redis_url=server.url, data_dir=Path(name), commit_interval_s=0.0)
        bench = Bench([redis], settings)
        bench.measure_start()
        bench.measure_start()  # the first has loaded code
        for part, work in Parts(bench, Path(name), short=short).parts().items():
            if part in names:
                say(part)
                bench.empty()
                store(part, work())


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="keys,documents,units,partitions,workers,rules,sessions,traces,viewers,fleet")
    parser.add_argument("--costs", type=Path, default=SHIPPED)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/measured"))
    options = parser.parse_args()
    configure_logging("error")
    names, short = options.only.split(","), options.short
    if names != ["page"]:
        measure(names, short=short)
    keys, documents, units = stored("keys"), stored("documents"), stored("units")
    found = unit_costs.Measured(
        texts=documents,
        specimens=units["specimens"],
        judge=units["judge"],
        keys=keys,
        steady=units["steady"],
        aggregator_idle=units["idle"]["aggregator"],
        worker_idle=units["idle"]["worker"],
    )
    costs = unit_costs.unit_costs(found, units["redis"])
    write_unit_costs(costs, options.costs)
    if "fleet" in names:
        say("fleet")
        pipelines, rate, seconds = (200, 50.0, 20.0) if short else (1000, 100.0, 60.0)
        with tempfile.TemporaryDirectory() as name:
            store("fleet", fleet.run_fleet(costs, Path(name), pipelines=pipelines, rate=rate, seconds=seconds))
    drawn = [axes.documents_axis(documents), axes.keys_axis(keys)]
    drawn += [
        axis for name in ("partitions", "workers", "rules", "sessions", "traces", "viewers") if (axis := stored(name))
    ]
    pages.draw(drawn, options.folder / pages.PICTURE)
    run = stored("fleet")
    shown = None if run is None else fleet.predicted_anew(run, costs)
    errors = unit_costs.fit_errors(found, costs)
    lines = pages.page(drawn, costs, errors, fleet.on_paper(costs), shown, short=short)
    (options.folder / "capacity.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
