"""Scores of experiments without calls: executions and metric events, added to a results table or to Redis."""

from typing import Any

import numpy as np

from ragtide_offline.experiments.decisions import race_decision
from ragtide_offline.experiments.results import ResultsTable
from ragtide_offline.experiments.state import ExperimentState
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import (
    MetricEvent,
    utc_now,
)
from ragtide_schemas.experiments import (
    Execution,
    LogEntry,
)

METRIC = "trace.adherence"


STREAMS = Streams("ragtide.run.e", 0)


def event(config: str, item: int, value: float | None) -> MetricEvent:
    return MetricEvent(
        interaction_id=f"item-{item}",
        pipeline=config,
        run="e",
        occurred_at=utc_now(),
        labeled_at=utc_now(),
        labeler="test",
        labeler_version="1",
        profile="ragbench",
        scores={} if value is None else {METRIC: value},
        absent={METRIC: "undefined"} if value is None else {},
    )


def executed(config: str, item: int, failure: str | None = None) -> Execution:
    return Execution(
        config=config,
        item=item,
        item_id=f"q{item}",
        interaction_id=None if failure else f"item-{item}",
        failure=failure,
        cost_usd=0.01,
        latency_s=0.1,
    )


def scored(results: ResultsTable, config: str, item: int, value: float | None) -> None:
    results.add_execution(executed(config, item))
    results.add_event(event(config, item, value))


def filled(scores: dict[str, list[float]]) -> ResultsTable:
    results = ResultsTable()
    for config, values in scores.items():
        for item, value in enumerate(values):
            scored(results, config, item, value)
    return results


def raced(state: ExperimentState) -> list[LogEntry]:
    """Run the race to the end; each decision is applied at once."""
    log: list[LogEntry] = []
    while entries := race_decision(state):
        for entry in entries:
            assert state.apply(entry) is None
        log += entries
    return log


def spread(count: int, size: int, seed: int = 1) -> dict[str, list[float]]:
    """Scores of configs from bad to good; what an item is like is the same for all of them."""
    random = np.random.default_rng(seed)
    hard = random.uniform(-0.2, 0.2, size)
    return {
        f"c{number}": np.clip(0.2 + 0.5 * number / (count - 1) + hard + random.normal(0, 0.05, size), 0, 1).tolist()
        for number in range(count)
    }


async def write(redis: Any, config: str, items: range, values: list[float]) -> None:
    for item in items:
        await redis.xadd(STREAMS.executions, {DATA_FIELD: executed(config, item).encode()})
        await redis.xadd(STREAMS.metrics, {DATA_FIELD: event(config, item, values[item]).encode()})
