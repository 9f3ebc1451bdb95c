"""Metric events as columns of numbers, without an object for each event. NumPy only; no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import InvalidEntryError

from ..statistics.tables.batches import Floats, Rows
from .batch import EventSource, Times
from .keys import COST, GOLD, LATENCY, SQUARED_ERROR
from .values import MISSING, DeclaredMetrics, EventPart, Targets, at_most, layout, squared_error

Codes = NDArray[np.int64]
"""One number of 0 or more per event; equal numbers mean equal properties."""

MISSING_SCORE: Final = ""
"""Name of the values of a metric that no event of the columns has a score of."""

_MOST_CODES: Final = 2**62
_BITS: Final = 30


class ColumnSource(EventSource, Protocol):
    """The events of columns, by their places."""

    def segments(self, place: int) -> dict[str, str]:
        """Return the segments of an event, without decoding the event."""
        ...

    def clusters(self, by: str) -> Codes:
        """Return the code of each event's cluster (`clusters.cluster_codes`)."""
        ...


@dataclass(frozen=True)
class EventColumns:
    """Metric events in the order in which they are applied; every array has one element per event.

    Attributes:
        source: the events themselves, with the same scores as the columns.
        runs: codes of pipeline and run.
        groups: further codes. Events with equal codes, here and in `runs`, have the same pipeline, run, labeler with
            its version, profile, and absent metrics with their reasons, and either all or none of them have prompts.
        segments: codes of the segments.
        scores: by metric; nan for an event without the score.
        gold_scores: gold scores by metric; nan for an event without the gold score.
        occurred_ms: time of the response.
        processed_ms: time of scoring.
        latency_s: seconds of labeling.
        cost_usd: US dollars of labeling.
        population_size: number of interactions of the run, 0 if unknown.
        probability: probability with which the interaction was kept from the traffic and chosen for the evaluator.
        row_wise: whether an event has values that columns cannot represent, such as a judge's scores, or scores of a
            metric that is declared differently in `declared`. These values are extracted event by event.
        declared: declarations of metrics that are not ragtide's own.
        declarations: codes of declarations, 0 for events without declarations.
        gold: later gold scores in their order, each with the number of events before it.
    """

    source: ColumnSource
    runs: Codes
    groups: tuple[Codes, ...]
    segments: Codes
    scores: Mapping[str, Floats]
    gold_scores: Mapping[str, Floats]
    occurred_ms: Times
    processed_ms: Times
    latency_s: Floats
    cost_usd: Floats
    population_size: NDArray[np.int64]
    probability: Floats
    row_wise: NDArray[np.bool_]
    declared: DeclaredMetrics
    declarations: Codes
    gold: Sequence[tuple[int, EventPart]] = ()

    def __len__(self) -> int:
        return self.occurred_ms.size


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """An event that cannot be counted, by its place in the columns."""

    place: int
    error: InvalidEntryError


@dataclass(frozen=True)
class ExtractedColumns:
    """The values of all columns, with the names of `ExtractedValues`.

    Attributes:
        names: index in `values` of each name.
        values: scores scaled to [0, 1], and other values as they are; shape (names, events).
        out_of_range: whether an event has a score outside its metric's range.
        present: codes of the set of scores that an event has.
    """

    names: dict[str, int]
    values: Floats
    out_of_range: NDArray[np.bool_]
    present: tuple[Codes, ...]


def extracted(columns: EventColumns, targets: Targets = ()) -> ExtractedColumns:
    """Return the values of columns; they equal the numbers of `parts_of` for each event, to the bit.

    Args:
        targets: rules on quantiles, whose shares are counted.
    """
    named: dict[str, Floats] = {MISSING_SCORE: np.full(len(columns), MISSING)}
    out_of_range = np.zeros(len(columns), dtype=bool)
    flags = []
    known = layout(columns.scores, columns.declared, targets)
    scaled = []
    for metric, lower, upper in known.ranges:
        there, values, outside = _scaled(columns.scores[metric], lower, upper)
        out_of_range |= outside
        flags.append(there)
        scaled.append(values)
        named[metric] = values
    for metric, lower, upper in layout(columns.gold_scores, columns.declared).ranges:
        graded, reference, outside = _scaled(columns.gold_scores[metric], lower, upper)
        # A gold score counts only if its metric is known: the event itself says so.
        out_of_range |= outside
        flags.append(graded)
        named[GOLD + metric] = reference
        if metric in named:
            named[SQUARED_ERROR + metric] = squared_error(named[metric], reference)
    for name, place, edge, above in known.edges:
        beyond = scaled[place] > at_most(edge) if above else scaled[place] <= at_most(edge)
        named[name] = beyond.astype(np.float64)
    named[LATENCY], named[COST] = columns.latency_s, columns.cost_usd
    return ExtractedColumns(
        names={name: place for place, name in enumerate(named)},
        values=np.array(list(named.values())).reshape(len(named), len(columns)),
        out_of_range=out_of_range,
        present=tuple(_packed(flags[start : start + _BITS]) for start in range(0, len(flags), _BITS)),
    )


def _scaled(scores: Floats, lower: float, upper: float) -> tuple[NDArray[np.bool_], Floats, NDArray[np.bool_]]:
    there = ~np.isnan(scores)
    return there, np.minimum((scores - lower) / (upper - lower), 1.0), there & ~((lower <= scores) & (scores <= upper))


def _packed(flags: list[NDArray[np.bool_]]) -> Codes:
    codes = np.zeros(flags[0].size, dtype=np.int64)
    for bit, flag in enumerate(flags):
        codes |= flag.astype(np.int64) << bit
    return codes


def combined(codes: Sequence[Codes]) -> tuple[Rows, Rows]:
    """Return the number of each event's combination of codes, and the first event of each combination.

    >>> combined((np.array([5, 5, 0, 5]), np.array([1, 0, 1, 1])))
    (array([2, 1, 0, 2]), array([2, 1, 0]))
    """
    whole, span = codes[0], int(codes[0].max(initial=0)) + 1
    for code in codes[1:]:
        size = int(code.max(initial=0)) + 1
        if span * size >= _MOST_CODES:
            codes_so_far, whole = np.unique(whole, return_inverse=True)
            span = codes_so_far.size
        whole, span = whole * size + code, span * size
    _, first, numbers = np.unique(whole, return_index=True, return_inverse=True)
    return numbers, first


class GroupTable:
    """Lines of whole numbers for groups of events; every event of a group has the same lines.

    Args:
        groups: lines of each group, each a row of the state and further numbers.
        width: numbers in a line.
    """

    def __init__(self, groups: Sequence[Sequence[tuple[int, ...]]], width: int) -> None:
        self.sizes = np.array([len(lines) for lines in groups], dtype=np.intp)
        self._begins = np.cumsum(self.sizes) - self.sizes
        lines = [line for lines in groups for line in lines]
        self._lines = np.array(lines, dtype=np.intp).reshape(-1, width).T

    def expanded(self, groups: Rows) -> tuple[Rows, NDArray[np.intp]]:
        """Return the lines of events with these groups: the event of each line, and the lines, shape (width, lines)."""
        sizes = self.sizes[groups]
        event_of = np.repeat(np.arange(groups.size), sizes)
        # Begin of each event's group in the table, minus begin of the event in the result.
        begin = self._begins[groups] - (np.cumsum(sizes) - sizes)
        return event_of, self._lines[:, np.arange(event_of.size) + np.repeat(begin, sizes)]
