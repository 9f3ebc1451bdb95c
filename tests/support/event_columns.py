"""Metric events as columns, for tests."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from ragtide_aggregator.events.batch import Events
from ragtide_aggregator.events.columns import Codes, EventColumns
from ragtide_schemas import MetricEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def coded(things: Iterable[Hashable]) -> Codes:
    """Return equal numbers for equal things."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(thing, len(known)) for thing in things], dtype=np.int64)


def columns_of(events: Sequence[MetricEvent]) -> EventColumns:
    """Return the columns of events."""

    def scores(field: str) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
        names = sorted({name for one in events for name in getattr(one, field)})
        return {name: np.array([getattr(one, field).get(name, np.nan) for one in events]) for name in names}

    # Of several declarations one is that of the columns; events with another are taken alone.
    declared = next((one.declared for one in events if one.declared), None)
    other = [bool(one.judged) or (one.declared or None) != declared for one in events]
    return EventColumns(
        origins=Events(events),
        sources=coded((one.pipeline, one.run) for one in events),
        alike=tuple(
            coded(of(one) for one in events)
            for of in (
                lambda one: (one.labeler, one.labeler_version, one.profile),
                lambda one: tuple(sorted(one.absent)),
                lambda one: bool(one.prompts),
                lambda one: repr(one.declared),
            )
        ),
        segments=coded(tuple(sorted(one.segments.items())) for one in events),
        scores=scores("scores"),
        gold_scores=scores("gold_scores"),
        occurred_us=np.array([(one.occurred_at - _EPOCH) // timedelta(microseconds=1) for one in events]),
        labeled_us=np.array([(one.labeled_at - _EPOCH) // timedelta(microseconds=1) for one in events]),
        latency_s=np.array([one.latency_s for one in events]),
        cost_usd=np.array([one.cost_usd for one in events]),
        population_size=np.array([one.population_size or 0 for one in events], dtype=np.int64),
        alone=np.array(other, dtype=bool),
        declared=declared,
        declarations=coded([None, *(repr(one.declared) if one.declared else None for one in events)])[1:],
    )
