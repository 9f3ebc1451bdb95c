"""A fleet: its needs on paper, and a small one on a local Redis Cluster beside them."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from processes import role, until
from tests.support.redis_processes import cluster

from ragtide import InteractionProducer
from ragtide_offline.capacity.judging import example_interactions
from ragtide_offline.capacity.planning import Capacity, PlannedTraffic, capacity_of
from ragtide_offline.capacity.unit_costs import UnitCosts
from ragtide_runtime.redis.client import connect
from ragtide_runtime.settings.model import Settings

from .stages import Bench, StageCost, own_s, processor_s
from .unit_costs import commits

BIG = PlannedTraffic(rate=20_000, pipelines=10_000)
BIG_PARTITIONS = 64
TICK_S = 0.25


@dataclass(frozen=True)
class FleetRun:
    """What a fleet on a local cluster used, and the prediction."""

    traffic: PlannedTraffic
    masters: int
    partitions: int
    seconds: float
    predicted: Capacity
    producer: float
    """Processors of the producer, which also makes the interactions."""
    worker: float
    """Processors of the worker."""
    aggregator: float
    commits: float
    """Commits of all partitions, in a second."""
    redis: StageCost
    """Of all masters, in a second."""

    def rows(self) -> Iterator[tuple[str, float, float]]:
        """Yield what was predicted and measured."""
        predicted = self.predicted
        yield "worker, processors", predicted.processors("worker"), self.worker
        yield "aggregator, processors", predicted.processors("aggregator"), self.aggregator
        yield "aggregator, commits/s", predicted.commits, self.commits
        yield "all masters, processors", predicted.processors("redis"), self.redis.redis_us / 1e6
        yield "to Redis, MiB/s", predicted.received_bytes / 2**20, self.redis.received / 2**20
        yield "from Redis, MiB/s", predicted.sent_bytes / 2**20, self.redis.sent / 2**20


def on_paper(costs: UnitCosts) -> tuple[PlannedTraffic, Capacity]:
    """Return the traffic of a large fleet, and its needs."""
    return BIG, capacity_of(BIG, Settings(partitions=BIG_PARTITIONS), costs)


def predicted_anew(run: FleetRun, costs: UnitCosts) -> FleetRun:
    """Return a run beside the prediction from these unit costs, which may be newer than the run."""
    return replace(run, predicted=capacity_of(run.traffic, Settings(partitions=run.partitions), costs))


def run_fleet(
    costs: UnitCosts,
    folder: Path,
    *,
    pipelines: int,
    rate: float,
    seconds: float,
    masters: int = 3,
    partitions: int = 16,
) -> FleetRun:
    """Run a fleet on a local cluster at a steady rate, and return what it used."""
    warm_up = max(2 * pipelines, round(5 * rate))
    with cluster(folder, masters=masters, replicas=0) as nodes, ExitStack() as stack:
        settings = {
            "RAGTIDE_REDIS_URL": nodes.url,
            "RAGTIDE_PARTITIONS": str(partitions),
            "RAGTIDE_WORKER_PROCESSES": "1",
        }
        worker, aggregator = (
            psutil.Process(stack.enter_context(role(name, settings, folder / f"{name}.log")).pid)
            for name in ("worker", "aggregator")
        )
        redis = stack.enter_context(connect(nodes.url))
        producer = stack.enter_context(InteractionProducer(nodes.url, partitions=partitions))
        bench = Bench([node.client for node in nodes.masters], Settings(partitions=partitions), own_s, redis)
        producer.publish_many(example_interactions(warm_up, pipelines=pipelines))
        until(lambda: bench.labeled() >= warm_up and bench.is_aggregated())
        rows = example_interactions(round(rate * seconds), pipelines=pipelines, first=warm_up)
        before = (processor_s(worker), processor_s(aggregator), own_s(), bench.so_far(), time.perf_counter())
        done = commits(bench)
        published = 0
        while published < len(rows):
            due = round((time.perf_counter() - before[-1]) * rate)
            if due > published:
                producer.publish_many(rows[published:due])
                published = min(due, len(rows))
            time.sleep(TICK_S)
        until(lambda: bench.labeled() >= warm_up + len(rows) and bench.is_aggregated())
        lasted = time.perf_counter() - before[-1]
        used = [processor_s(worker) - before[0], processor_s(aggregator) - before[1], own_s() - before[2]]
        of_redis, done = bench.so_far() - before[3], commits(bench) - done
    real = PlannedTraffic(rate=len(rows) / lasted, pipelines=pipelines)
    predicted = capacity_of(real, Settings(partitions=partitions), costs)
    in_worker, in_aggregator, in_producer = (value / lasted for value in used)
    return FleetRun(
        real,
        masters,
        partitions,
        lasted,
        predicted,
        in_producer,
        in_worker,
        in_aggregator,
        done / lasted,
        of_redis.of_each(lasted),
    )
