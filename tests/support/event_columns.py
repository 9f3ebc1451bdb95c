"""Metric events as columns, for tests."""

from collections.abc import Sequence

from ragtide_aggregator.events.columns import EventColumns
from ragtide_aggregator.events.queue import EventQueue
from ragtide_schemas import MetricEvent, to_milliseconds


def columns_of(events: Sequence[MetricEvent], processed_ms: Sequence[int] | None = None) -> EventColumns:
    """Return the columns of events, those with a score outside its range as well."""
    queue = EventQueue()
    for number, event in enumerate(events):
        queue.add(event, to_milliseconds(event.labeled_at) if processed_ms is None else processed_ms[number])
    return queue.columns()
