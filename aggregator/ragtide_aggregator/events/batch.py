"""What was added to a state and is not worked on yet: many events become a few arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import MetricEvent

from ..statistics.batches import Floats, Grouped, Rows, grouped

Times = NDArray[np.int64]
"""Milliseconds since 1970."""


class Origins(Protocol):
    """The events that values came from; few are ever looked at."""

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        ...

    def interaction_id(self, place: int) -> str:
        """Return the id of its interaction."""
        ...

    def segments(self, place: int) -> dict[str, str]:
        """Return its segments."""
        ...


class Events:
    """Events that are at hand."""

    def __init__(self, events: Sequence[MetricEvent]) -> None:
        self._events = events

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        return self._events[place]

    def interaction_id(self, place: int) -> str:
        """Return the id of its interaction."""
        return self._events[place].interaction_id

    def segments(self, place: int) -> dict[str, str]:
        """Return its segments."""
        return self._events[place].segments


@dataclass(frozen=True, slots=True)
class Plan:
    """Where what events of one kind bring belongs."""

    rows: list[int]
    """Rows of the values, scope by scope, and then of what labeling took."""
    absent: list[int]
    pairs: list[int]
    """Rows of the pairs, each in every scope."""
    scopes: int
    """Number of scopes."""
    usage: bool
    """Whether what labeling cost is among the values."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an event says besides its values: its times, and how many there will be."""

    time_ms: int
    """When the interaction was, by the state."""
    processed_ms: int
    newest_ms: int
    """Time of the newest interaction of its pipeline and run before it; its own for the first."""
    population: int
    """Size of the run it is of, 0 without one."""


class Queue:
    """Parts of events in the order in which they came, with their values, absent metrics and pairs."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self._stamps: list[Stamp] = []
        self._widths: list[int] = []
        self._rows: list[int] = []
        self._values: list[float] = []
        self._absent: list[int] = []
        self._absent_of: list[int] = []
        self._pairs: list[int] = []
        self._pairs_of: list[int] = []
        self._scores: list[tuple[float, float, float]] = []

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self._values)

    def add(
        self, place: int, plan: Plan, values: list[float], pairs: list[tuple[float, float, float]], stamp: Stamp,
    ) -> None:  # fmt: skip
        """Add a part of the event at a place among the origins.

        Args:
            place: of the event.
            plan: rows of what follows.
            values: one for each of the plan's rows.
            pairs: true score, cheap score and probability, one for each of the plan's pairs.
            stamp: its times.
        """
        part = len(self.places)
        self.places.append(place)
        self._stamps.append(stamp)
        self._widths.append(len(values))
        self._rows += plan.rows
        self._values += values
        self._absent += plan.absent
        self._absent_of += [part] * len(plan.absent)
        self._pairs += plan.pairs
        self._pairs_of += [part] * len(plan.pairs)
        self._scores += pairs

    def gathered(self, origins: Origins) -> "Gathered":
        """Return what is in it as arrays."""
        return Gathered(
            origins=origins,
            places=np.array(self.places, dtype=np.intp),
            rows=np.array(self._rows, dtype=np.intp),
            values=np.array(self._values, dtype=np.float64),
            part_of=np.repeat(np.arange(len(self.places)), np.array(self._widths, dtype=np.intp)),
            absent=np.array(self._absent, dtype=np.intp),
            absent_of=np.array(self._absent_of, dtype=np.intp),
            pairs=np.array(self._pairs, dtype=np.intp),
            pairs_of=np.array(self._pairs_of, dtype=np.intp),
            scores=np.array(self._scores, dtype=np.float64).reshape(-1, 3).T,
            times_ms=np.array([stamp.time_ms for stamp in self._stamps], dtype=np.int64),
            processed_ms=np.array([stamp.processed_ms for stamp in self._stamps], dtype=np.int64),
            newest_ms=np.array([stamp.newest_ms for stamp in self._stamps], dtype=np.int64),
            population=np.array([stamp.population for stamp in self._stamps], dtype=np.int64),
        )


@dataclass(frozen=True)
class Gathered:
    """A queue as arrays: over values, over absent metrics, over pairs, and over parts."""

    origins: Origins
    places: Rows
    """Place of each part's event among the origins."""
    rows: Rows
    """Row of each value."""
    values: Floats
    part_of: Rows
    """Part of each value, not falling."""
    absent: Rows
    """Row of each absent metric."""
    absent_of: Rows
    """Its part, not falling."""
    pairs: Rows
    """Row of each pair."""
    pairs_of: Rows
    """Its part, not falling."""
    scores: Floats
    """True score, cheap score and probability of each pair; shape (3, pairs)."""
    times_ms: Times
    """Event time of each part; so are the rest."""
    processed_ms: Times
    newest_ms: Times
    """Time of the newest interaction before it."""
    population: NDArray[np.int64]
    """Size of the run it is of, 0 without one."""

    @cached_property
    def grouped(self) -> Grouped:
        """The values sorted by row."""
        return grouped(self.rows)


def merged(one: Gathered, other: Gathered) -> Gathered:
    """Return the parts of two in the order of their places, of one set of origins, both sorted by place."""
    places = np.concatenate([one.places, other.places])
    order = np.argsort(places, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)

    def sorted_by_part(of: Rows, other_of: Rows) -> tuple[Rows, Rows]:
        parts = rank[np.concatenate([of, other_of + one.places.size])]
        inside = np.argsort(parts, kind="stable")
        return inside, parts[inside]

    by_value, part_of = sorted_by_part(one.part_of, other.part_of)
    by_absent, absent_of = sorted_by_part(one.absent_of, other.absent_of)
    by_pair, pairs_of = sorted_by_part(one.pairs_of, other.pairs_of)
    return Gathered(
        origins=one.origins,
        places=places[order],
        rows=np.concatenate([one.rows, other.rows])[by_value],
        values=np.concatenate([one.values, other.values])[by_value],
        part_of=part_of,
        absent=np.concatenate([one.absent, other.absent])[by_absent],
        absent_of=absent_of,
        pairs=np.concatenate([one.pairs, other.pairs])[by_pair],
        pairs_of=pairs_of,
        scores=np.concatenate([one.scores, other.scores], axis=1)[:, by_pair],
        times_ms=np.concatenate([one.times_ms, other.times_ms])[order],
        processed_ms=np.concatenate([one.processed_ms, other.processed_ms])[order],
        newest_ms=np.concatenate([one.newest_ms, other.newest_ms])[order],
        population=np.concatenate([one.population, other.population])[order],
    )
