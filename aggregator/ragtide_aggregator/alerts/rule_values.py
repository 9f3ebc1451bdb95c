"""The values, or the closed clusters of values, that alert rules take. No state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..events.batch import EventSource
from ..statistics.tables.batches import Floats, Rows
from .baseline import LearnedValues


class ValueExtremes(NamedTuple):
    """The extreme values of clusters, and the interactions that have them."""

    lowest: Floats
    highest: Floats
    lowest_ids: Sequence[str]
    highest_ids: Sequence[str]

    def part(self, start: int, end: int) -> "ValueExtremes":
        """Return those of some clusters in a row."""
        inside = slice(start, end)
        return ValueExtremes(
            self.lowest[inside], self.highest[inside], self.lowest_ids[inside], self.highest_ids[inside]
        )


class SegmentsWithin(NamedTuple):
    """The segment values of values of whole pipelines, for one segment; shape (n,). A cluster may have several."""

    of: Rows
    """Position of the value, not falling."""
    rows: Rows
    """Row of the key of the segment value."""
    values: Floats
    """Mean of the interactions with the segment value."""
    sizes: Rows
    """Number of these interactions."""

    def at_places(self, places: Rows) -> "SegmentsWithin":
        """Return those at some places."""
        return SegmentsWithin(self.of[places], self.rows[places], self.values[places], self.sizes[places])

    def part(self, start: int, end: int) -> "SegmentsWithin":
        """Return those of the values from a position up to another."""
        first, last = np.searchsorted(self.of, [start, end]).tolist()
        found = self.at_places(np.arange(first, last))
        return found._replace(of=found.of - start)


@dataclass(frozen=True, slots=True)
class RuleValues:
    """Values of many keys, or means of closed clusters of values, in the order of their arrival; shape (n,)."""

    rows: Rows
    """Row of each value's key."""
    values: Floats
    """The values, scaled to [0, 1]."""
    times_ms: Rows
    """Time of each value's interaction; of a cluster, that of its first."""
    numbers: Rows
    """Number of each value among the values of its key, from 1; of a cluster, the number of its last value."""
    event_of: Rows
    """Place of each value's event in the source."""
    source: EventSource
    hours: Rows
    """Hour since 1970 of its pipeline's newest event time when each counts."""
    costs: Floats | None = None
    """Largest contribution of each value to the expected number of false alarms; None without a budget."""
    sizes: Rows | None = None
    """Number of values of each cluster; None for single values. So are the following."""
    mean_squares: Floats | None = None
    """Mean of the squares of each cluster's values."""
    extremes: ValueExtremes | None = None
    within: Mapping[str, SegmentsWithin] = field(default_factory=dict)
    """By name of a segment whose mix a rule holds fixed."""

    @property
    def lowest(self) -> Floats:
        """The lowest value of each."""
        return self.values if self.extremes is None else self.extremes.lowest

    @property
    def highest(self) -> Floats:
        """The highest value of each."""
        return self.values if self.extremes is None else self.extremes.highest

    def part(self, start: int, end: int) -> "RuleValues":
        """Return the values from a position up to another."""
        arrays = {
            name: found[start:end]
            for name in ("rows", "values", "times_ms", "numbers", "event_of", "hours", "costs", "sizes", "mean_squares")
            if (found := getattr(self, name)) is not None
        }
        extremes = None if self.extremes is None else self.extremes.part(start, end)
        within = {name: one.part(start, end) for name, one in self.within.items()}
        return replace(self, **arrays, extremes=extremes, within=within)

    def interaction_id(self, place: int, *, low: bool) -> str:
        """Return the id of the interaction with the lowest or the highest value."""
        if self.extremes is None:
            return self.source.interaction_id(int(self.event_of[place]))
        return (self.extremes.lowest_ids if low else self.extremes.highest_ids)[place]

    def learned(self, position: int) -> LearnedValues:
        """Return a value or a cluster as a learner takes it."""
        mean = float(self.values[position])
        if self.sizes is None or self.mean_squares is None:
            return LearnedValues(mean, mean * mean)
        return LearnedValues(mean, float(self.mean_squares[position]), int(self.sizes[position]))


class Arrived(NamedTuple):
    """Values, and for each the part of the batch at which it came, or at which its cluster was closed; not falling."""

    values: RuleValues
    parts: Rows

    def between(self, first: int, end: int) -> "Arrived":
        """Return the values of the parts from one up to another (exclusive)."""
        start, stop = np.searchsorted(self.parts, [first, end]).tolist()
        return Arrived(self.values.part(start, stop), self.parts[start:stop])
