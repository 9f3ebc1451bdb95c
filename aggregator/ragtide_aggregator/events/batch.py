"""A batch of metric events as arrays: their values, absent metrics and score pairs, each with its row in the state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import MetricEvent

from ..statistics.tables.batches import Floats, Grouped, Rows, grouped
from .clusters import cluster_codes, cluster_name

Times = NDArray[np.int64]
"""Milliseconds since 1970."""


Scope = tuple[str, str | None]
"""A pipeline and a run."""


class EventSource(Protocol):
    """The events of values, by their places; only a few events are read."""

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        ...

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        ...


class EventList:
    """An event source in memory."""

    def __init__(self, events: Sequence[MetricEvent]) -> None:
        self._events = events

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        return self._events[place]

    def interaction_id(self, place: int) -> str:
        """Return the interaction id of an event."""
        return self._events[place].interaction_id

    def clusters(self, by: str) -> NDArray[np.int64]:
        """Return the codes of all clusters."""
        return cluster_codes(cluster_name(event, by) for event in self._events)

    def segments(self, place: int) -> dict[str, str]:
        """Return the segments of an event."""
        return self._events[place].segments


@dataclass(frozen=True)
class EventBatch:
    """Arrays of the parts of events, and of their values, absent metrics and pairs; each in the order of the events."""

    source: EventSource
    places: Rows
    """Place of each part's event in the source."""
    rows: Rows
    """Row of each value."""
    values: Floats
    part_of: Rows
    """Part of each value, not falling."""
    absent: Rows
    """Row of each absent metric."""
    absent_of: Rows
    """Part of each absent metric, not falling."""
    pairs: Rows
    """Row of each pair, in the order of the parts."""
    scores: Floats
    """Reference score, proxy score and probability of each pair; shape (3, pairs)."""
    pairs_of: Rows
    """Part of each pair, not falling."""
    times_ms: Times
    """Event time of each part. The arrays below have one element per part, too."""
    processed_ms: Times
    """Time of scoring."""
    newest_ms: Times
    """Newest time of the pipeline and run before the part; the part's own time if it is the first."""
    population: NDArray[np.int64]
    """Size of the run, 0 if unknown."""
    later: NDArray[np.bool_]
    """Whether it holds gold scores that came after their event."""
    unfinished: NDArray[np.bool_]
    """Whether the next part is of the same event."""
    probability: Floats | None = None
    """For each value the probability with which its interaction was kept from the traffic, 1 for values that have no
    weight; None if all are 1."""
    clusters: NDArray[np.int64] | None = None
    """Code of its cluster, 0 for a part by itself; None where clusters are not looked for."""
    scope_of: Rows | None = None
    """Place of each part's pipeline and run in `scopes`; None where clusters are not looked for."""
    scopes: Sequence[Scope] = ()

    @cached_property
    def starts(self) -> Rows:
        """Where the values of each part begin, and the end of the last; shape (parts + 1,)."""
        return np.searchsorted(self.part_of, np.arange(self.places.size + 1))

    def between(self, start: int, stop: int) -> "EventBatch":
        """Return the parts from `start` up to `stop` (exclusive) with their values and absences, without pairs."""
        first, last = (int(one) for one in np.searchsorted(self.part_of, (start, stop)))
        first_absent, last_absent = (int(one) for one in np.searchsorted(self.absent_of, (start, stop)))
        parts, values, absent = slice(start, stop), slice(first, last), slice(first_absent, last_absent)
        return replace(
            self,
            places=self.places[parts],
            rows=self.rows[values],
            values=self.values[values],
            part_of=self.part_of[values] - start,
            absent=self.absent[absent],
            absent_of=self.absent_of[absent] - start,
            pairs=self.pairs[:0],
            pairs_of=self.pairs_of[:0],
            scores=self.scores[:, :0],
            times_ms=self.times_ms[parts],
            processed_ms=self.processed_ms[parts],
            newest_ms=self.newest_ms[parts],
            population=self.population[parts],
            later=self.later[parts],
            probability=None if self.probability is None else self.probability[values],
            clusters=None if self.clusters is None else self.clusters[parts],
            scope_of=None if self.scope_of is None else self.scope_of[parts],
        )

    @cached_property
    def pair_starts(self) -> Rows:
        """Where the pairs of each part begin, and the end of the last; shape (parts + 1,)."""
        return np.searchsorted(self.pairs_of, np.arange(self.places.size + 1))

    @cached_property
    def grouped(self) -> Grouped:
        """The values sorted by row."""
        return grouped(self.rows)
