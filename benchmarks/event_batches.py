"""The cost of metric events in the aggregator's state, in steps of 1, 10, 100 and 1,000 events.

    python benchmarks/event_batches.py [--rounds 5]

The events are those of `replay_events.py`. All statistics are on, as in a deployment without settings. A step adds
events to the state one by one with `apply`, and takes the changes for a commit. Printed for each size, as medians over
the rounds: milliseconds of processor time for `apply` alone and for the whole step, events a second, and the share of a
processor that steps of this size take at 500 events a second. To compare two commits, run the file with the packages of
each in turn: it calls nothing but `apply` and `take_changes`.
"""

import argparse
import statistics
import time

from replay_events import tables

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.parquet import entries_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

SIZES = (1, 10, 100, 1_000)
WARM_UP = 1_000
EVENTS_A_ROUND = 4_000
STEPS = 150


def recorded(count: int) -> list[MetricEvent]:
    """Return metric events as objects."""
    found = [entry.model for table in tables(count) for entry in entries_of(EntryKind.METRICS, table)]
    return [event for event in found if isinstance(event, MetricEvent)]


def step_ms(events: list[MetricEvent], size: int) -> tuple[float, float]:
    """Return the milliseconds of processor that a step of this size takes: for `apply`, and in all."""
    state = AggregatorState(state_options(Settings()))
    for event in events[:WARM_UP]:
        state.apply(event)
    state.take_changes()
    steps = min(STEPS, EVENTS_A_ROUND // size)
    applying, started = 0.0, time.process_time()
    for number in range(steps):
        begun = time.process_time()
        for event in events[WARM_UP + number * size : WARM_UP + (number + 1) * size]:
            state.apply(event)
        applying += time.process_time() - begun
        state.take_changes()
    return 1000 * applying / steps, 1000 * (time.process_time() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    events = recorded(WARM_UP + EVENTS_A_ROUND)
    print(f"{'events a step':>13} {'apply, ms':>10} {'step, ms':>10} {'events/s':>10} {'share at 500/s':>15}")
    for size in SIZES:
        found = [step_ms(events, size) for _ in range(args.rounds)]
        applying, step = (statistics.median(times) for times in zip(*found, strict=True))
        print(f"{size:>13,} {applying:>10.2f} {step:>10.2f} {1000 * size / step:>10,.0f} {step / 2 / size:>15.0%}")


if __name__ == "__main__":
    main()
