"""The values, or the closed clusters of values, that alert rules take, in the order of their arrival. No state."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ..events.batch import EventSource
from ..statistics.tables.batches import Floats, Rows
from .contributors import Contributor, contenders

WAITS: Final = 0.0
"""Limit of a value that a detector does not take, because too little is known."""


class LearnedValues(NamedTuple):
    """A value in [0, 1], or a closed cluster of values."""

    mean: float
    mean_square: float
    size: int = 1
    position: int = 0
    """In its batch."""


class Inputs(NamedTuple):
    """Values as a detector takes them; shape (n,)."""

    values: Floats
    limits: Floats | None = None
    """The limit of each, `WAITS` for one that is not taken; None for that of the detector."""
    centers: Floats | None = None
    """Subtracted from each in the mean of an alarm; None for 0."""


class ValueExtremes(NamedTuple):
    """The extreme values of clusters, and the interactions that have them."""

    lowest: Floats
    highest: Floats
    lowest_ids: Sequence[str | None]
    """None for a single value, whose event has the id."""
    highest_ids: Sequence[str | None]

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
        part = self.at_places(np.arange(first, last))
        return part._replace(of=part.of - start)


BEGINNINGS: Final = (1, 2, 4)
"""Numbers of first answers of a session that rules count together, before the session closes."""


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
    """Largest contribution of each value to the expected number of false alarms; None, or nan, without a budget."""
    sizes: Rows | None = None
    """Number of values of each cluster; None for single values. So are the following."""
    mean_squares: Floats | None = None
    """Mean of the squares of each cluster's values; nan for a single value among clusters."""
    extremes: ValueExtremes | None = None
    within: Mapping[str, SegmentsWithin] = field(default_factory=dict)
    """By name of a segment whose mix a rule holds fixed."""
    first: Rows | None = None
    """Of the mean of the first answers of a session, which counts before its session closes, their number, one of
    `BEGINNINGS`; 0 of another value. None if none is."""
    answers: Rows | None = None
    """Number of answers whose costs each has, where some are of first answers: those of its key since the last."""

    @property
    def charged(self) -> Rows | None:
        """Number of answers whose costs each has; None if it is 1."""
        return self.sizes if self.answers is None else self.answers

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
            name: array[start:end]
            for name in (
                "rows",
                "values",
                "times_ms",
                "numbers",
                "event_of",
                "hours",
                "costs",
                "sizes",
                "mean_squares",
                "first",
                "answers",
            )
            if (array := getattr(self, name)) is not None
        }
        extremes = None if self.extremes is None else self.extremes.part(start, end)
        within = {name: segments.part(start, end) for name, segments in self.within.items()}
        return replace(self, **arrays, extremes=extremes, within=within)

    def interaction_id(self, place: int, *, low: bool) -> str:
        """Return the id of the interaction with the lowest or the highest value."""
        known = None
        if self.extremes is not None:
            known = (self.extremes.lowest_ids if low else self.extremes.highest_ids)[place]
        return self.source.interaction_id(int(self.event_of[place])) if known is None else known

    def remembered(self, places: Rows, low: Any, high: Any) -> Iterator[Contributor]:
        """Yield the interactions beyond limits that are to be remembered.

        Args:
            low: scaled values below which they are remembered: a number, or one for each place, nan for none.
            high: above which they are.
        """
        lowest, highest = self.lowest[places], self.highest[places]
        excess = np.fmax(low - lowest, highest - high)
        outside = (lowest < low) | (highest > high)
        places, excess, below = places[outside], excess[outside], (excess == low - lowest)[outside]
        for index in contenders(excess).tolist():
            place = int(places[index])
            name = self.interaction_id(place, low=bool(below[index]))
            yield Contributor(int(self.numbers[place]), float(excess[index]), name)

    def learned(self, position: int) -> LearnedValues:
        """Return a value or a cluster as a learner takes it."""
        mean = float(self.values[position])
        if self.sizes is None or self.mean_squares is None:
            return LearnedValues(mean, mean * mean, position=position)
        return LearnedValues(mean, float(self.mean_squares[position]), int(self.sizes[position]), position)


class Arrived(NamedTuple):
    """Values, and for each the part of the batch at which it came, or at which its cluster was closed; not falling."""

    values: RuleValues
    parts: Rows

    def between(self, first: int, end: int) -> "Arrived":
        """Return the values of the parts from one up to another (exclusive)."""
        start, stop = np.searchsorted(self.parts, [first, end]).tolist()
        return Arrived(self.values.part(start, stop), self.parts[start:stop])


def in_order(arrived: Sequence[Arrived]) -> Arrived:
    """Return values of several batches in the order of their arrival; all are from one source.

    The values that an event adds at once come before the clusters that it closes, in the order of the batches.
    """
    arrived = [batch for batch in arrived if batch.parts.size] or arrived[:1]
    if len(arrived) == 1:
        return arrived[0]
    all_values, parts = [batch.values for batch in arrived], np.concatenate([batch.parts for batch in arrived])
    order = np.argsort(parts, kind="stable")

    def joined(arrays: Sequence[Any]) -> Any:
        return np.concatenate(arrays)[order]

    def known(name: str, fill: float) -> Any:
        columns = [getattr(values, name) for values in all_values]
        if all(array is None for array in columns):
            return None
        sizes = [values.rows.size for values in all_values]
        return joined([np.full(n, fill) if a is None else a for a, n in zip(columns, sizes, strict=True)])

    sizes = known("sizes", 1)
    extremes = None
    if any(values.extremes is not None for values in all_values):
        ids = [
            joined([_ids(values, number) for values in all_values])
            for number in (ValueExtremes._fields.index("lowest_ids"), ValueExtremes._fields.index("highest_ids"))
        ]
        lowest, highest = (joined([getattr(values, name) for values in all_values]) for name in ("lowest", "highest"))
        extremes = ValueExtremes(lowest, highest, *ids)
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.arange(order.size)
    rows, means, times_ms, numbers, event_of, hours = (
        joined([getattr(values, name) for values in all_values])
        for name in ("rows", "values", "times_ms", "numbers", "event_of", "hours")
    )
    within = _within(all_values, place)
    values = RuleValues(
        rows, means, times_ms, numbers, event_of, all_values[0].source, hours, known("costs", np.nan),
        None if sizes is None else sizes.astype(np.intp), known("mean_squares", np.nan), extremes, within,
    )  # fmt: skip
    if any(batch.first is not None for batch in all_values):
        counts = [batch.charged for batch in all_values]
        answers = joined([np.ones(v.rows.size) if n is None else n for n, v in zip(counts, all_values, strict=True)])
        values = replace(values, first=known("first", 0).astype(np.intp), answers=answers.astype(np.intp))
    return Arrived(values, parts[order])


def _ids(values: RuleValues, number: int) -> Any:
    ids = np.full(values.rows.size, None, dtype=object)
    if values.extremes is not None:
        ids[:] = values.extremes[number]
    return ids


def _within(batches: Sequence[RuleValues], place: Rows) -> dict[str, SegmentsWithin]:
    edges = np.cumsum([0, *(values.rows.size for values in batches)])
    segments = {}
    for name in {name for values in batches for name in values.within}:
        some = [
            (start, values.within[name]) for start, values in zip(edges, batches, strict=False) if name in values.within
        ]
        of = np.concatenate([place[start + within.of] for start, within in some])
        rest = [np.concatenate(arrays) for arrays in zip(*(within[1:] for _, within in some), strict=True)]
        segments[name] = SegmentsWithin(of, *rest).at_places(np.argsort(of, kind="stable"))
    return segments
