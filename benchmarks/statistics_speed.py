"""Metric values a second of processor time, with a `running` interval and a drift detector on every key.

    python benchmarks/statistics_speed.py [--rounds 3] [--events 500 4000]

Every round runs everything once, so that ratios hold on a noisy machine; printed are medians over the rounds. An
aggregator that keeps up has some hundred events in a commit, one that is behind applies 4,000 at once.

- core: arrays in. A batch of so many events with 10 metrics each is added to moments and to a drift detector per key,
  and the `running` intervals of all keys that changed are computed, after every batch.
- river: the same values one by one into river's mean, variance and ADWIN, one of each per key.

Ours keeps more: exact sums, which no order and no division into batches changes by a bit, extremes, a recent mean, an
interval that is valid at every look, and a detector with a stated run length, that knows when the change began. ADWIN
keeps a window of values in buckets, and so the mean since its last change.

- state: `AggregatorState` as the aggregator runs it, metric events in: everything it keeps, windows, quantiles and a
  drift rule on every metric, and the estimates of all keys that changed at the end of every 20 batches.
- bytes: of a key's state in a checkpoint, without windows; of its arrays in memory.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import drift, stats

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.drift import DetectorTable
from ragtide_aggregator.statistics.intervals.running import running_interval
from ragtide_aggregator.statistics.means.moments import MomentTable
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_schemas import AlertRule, MetricEvent

EVENTS, METRICS = 500, 10
EVENTS_BEHIND = 4_000
"""Events of a batch of an aggregator that is behind."""
NAMES = tuple(f"speed.m{number}" for number in range(METRICS))


def batches(
    keys: int, count: int, seed: int = 1, events: int = EVENTS
) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Return batches of rows and values: so many events, each with 10 metrics of one scope."""
    rng = np.random.default_rng(seed)
    scopes = max(keys // METRICS, 1)
    found = []
    for _ in range(count):
        scope = rng.integers(0, scopes, events)
        rows = (scope[:, None] * METRICS + np.arange(METRICS)).ravel()
        found.append((rows, rng.beta(4, 2, rows.size)))
    return found


def core(keys: int, count: int, events: int = EVENTS) -> float:
    """Return values a second of processor time through the statistics core."""
    moments, detectors = MomentTable(), DetectorTable()
    for _ in range(keys):
        moments.add_row()
        detectors.configure(detectors.add_row(), limit=0.6, direction="fall", run_length=1e6)
    work = batches(keys, count, events=events)
    tags = np.zeros(events * METRICS, dtype=np.int64)
    started = time.process_time()
    for rows, values in work:
        moments.update(rows, values)
        detectors.update(rows, values, tags)
        seen = moments.read(np.unique(rows))
        running_interval(seen.mean, seen.n, seen.v, confidence=0.95)
    return count * events * METRICS / (time.process_time() - started)


def river(keys: int, count: int, events: int = EVENTS) -> float:
    """Return values a second of processor time through river, one by one."""
    adwin_of: Callable[[], Any] = drift.ADWIN
    per_key = [(stats.Mean(), stats.Var(), adwin_of()) for _ in range(keys)]
    work = [(rows.tolist(), values.tolist()) for rows, values in batches(keys, count, events=events)]
    started = time.process_time()
    for rows, values in work:
        for row, value in zip(rows, values, strict=True):
            mean, variance, adwin = per_key[row]
            mean.update(value)
            variance.update(value)
            adwin.update(value)
    return count * events * METRICS / (time.process_time() - started)


def event_batches(keys: int, count: int, events: int = EVENTS) -> list[list[MetricEvent]]:
    """Return batches of metric events."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    result = []
    number = 0
    for rows, values in batches(keys, count, events=events):
        batch = []
        for scope, scores in zip(rows[::METRICS] // METRICS, values.reshape(-1, METRICS).tolist(), strict=True):
            when = start + timedelta(milliseconds=20 * number)
            number += 1
            batch.append(
                MetricEvent(
                    interaction_id=f"i-{number}",
                    pipeline=f"p-{scope}",
                    occurred_at=when,
                    labeled_at=when,
                    labeler="local",
                    labeler_version="1",
                    profile="ragbench",
                    scores=dict(zip(NAMES, scores, strict=True)),
                )
            )
        result.append(batch)
    return result


RULES = tuple(
    AlertRule(name=name, kind="drift", metric=name, direction="fall", baseline=0.66, run_length=1e6) for name in NAMES
)


def options(windows: tuple[str, ...]) -> StateOptions:
    """Return the default options of the state, without rules."""
    panes = type(StateOptions().panes)(tuple(window(text) for text in windows), 3_600_000)
    return StateOptions(rules=RULES, segments=False, panes=panes)


def state(keys: int, count: int, events: int = EVENTS) -> float:
    """Return values a second of processor time through the aggregator's state."""
    kept = AggregatorState(options(("1h", "24h/1h")))
    work = event_batches(keys, count, events)
    started = time.process_time()
    for number, batch in enumerate(work):
        for event in batch:
            kept.apply(event)
        if number % 20 == 19:
            changes = kept.take_changes()
            estimates(kept, keys=changes.keys)
    kept.take_changes()
    return count * events * METRICS / (time.process_time() - started)


def state_bytes() -> tuple[float, float]:
    """Return bytes of a key with a drift rule in a checkpoint, without windows: without quantiles, and with them."""
    sizes = []
    for quantiles in (False, True):
        kept = AggregatorState(StateOptions(rules=RULES, segments=False, quantiles=quantiles))
        for batch in event_batches(1000, 40):
            for event in batch:
                kept.apply(event)
        rows = kept.take_changes().rows
        keys = sum(name.startswith("estimate:") and "speed." in name for name in rows)
        sizes.append(sum(len(data) for name, data in rows.items() if "speed." in name) / keys)
    return sizes[0], sizes[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, nargs="+", default=[EVENTS, EVENTS_BEHIND])
    parser.add_argument("--values", type=int, default=300_000)
    arguments = parser.parse_args()
    stages: dict[str, Callable[[int, int, int], float]] = {"core": core, "river": river, "state": state}
    print(f"values a second of processor time, {METRICS} metrics an event; medians of {arguments.rounds} rounds")
    print(f"{'events':>8} {'keys':>8} {'core':>10} {'river':>10} {'core/river':>10} {'state':>10}")
    for events in arguments.events:
        count = max(arguments.values // (METRICS * events), 1)
        for keys in (10, 1_000, 100_000):
            rates: dict[str, list[float]] = {name: [] for name in stages}
            for _ in range(arguments.rounds):
                for name, stage in stages.items():
                    rates[name].append(stage(keys, count, events))
            middle = {name: statistics.median(measured) for name, measured in rates.items()}
            ratio = statistics.median(a / b for a, b in zip(rates["core"], rates["river"], strict=True))
            print(
                f"{events:>8,} {keys:>8,} {middle['core']:>10,.0f} {middle['river']:>10,.0f} {ratio:>10.2f} "
                f"{middle['state']:>10,.0f}",
                flush=True,
            )
    plain, sketched = state_bytes()
    print(f"bytes a key in a checkpoint: {plain:,.0f} with its drift rule, {sketched:,.0f} with quantiles too")


if __name__ == "__main__":
    main()
