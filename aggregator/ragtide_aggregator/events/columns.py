"""Many metric events as columns: what a recording holds without an object for each event. NumPy only; no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import InvalidEntryError, to_milliseconds
from ragtide_schemas.limits import COST_MAX_USD, LATENCY_MAX_S, TIME_MAX

from ..statistics.batches import Floats, Rows
from .batch import Origins, Times
from .keys import COST, GOLD, LATENCY, SQUARED_ERROR
from .values import Declarations, at_most, layout, squared_error

Codes = NDArray[np.int64]
"""One number of 0 or more an event; equal ones stand for equal things."""

_LATEST_US: Final = 1000 * to_milliseconds(TIME_MAX)
_MOST_CODES: Final = 2**62
_BITS: Final = 30


@dataclass(frozen=True)
class EventColumns:
    """Metric events in the order in which they are to be applied: every array has one element an event.

    Attributes:
        origins: the events themselves, each by its place; few are asked for. Their scores are those of the columns.
        sources: which events have one pipeline and run.
        alike: more codes: events that are equal in all of them, and in `sources`, have the same pipeline, run, labeler
            with its version, profile, and absent metrics with their reasons, and either all or none have prompts.
        segments: which events have the same segments.
        scores: by metric; nan where an event has none.
        gold_scores: the same of true scores.
        occurred_us: microseconds since 1970 at which the response was given.
        labeled_us: the same of when it was scored.
        latency_s: seconds that labeling took.
        cost_usd: what it cost.
        population_size: number of interactions of the run, 0 where it is not known.
        alone: which events have more than columns can say, such as a judge's scores, or scores of a metric that they
            declare in another way than `declared`.
        declared: declarations of metrics that are not ragtide's own.
        declarations: which events declare the same, 0 for those that declare nothing.
    """

    origins: Origins
    sources: Codes
    alike: tuple[Codes, ...]
    segments: Codes
    scores: Mapping[str, Floats]
    gold_scores: Mapping[str, Floats]
    occurred_us: NDArray[np.int64]
    labeled_us: NDArray[np.int64]
    latency_s: Floats
    cost_usd: Floats
    population_size: NDArray[np.int64]
    alone: NDArray[np.bool_]
    declared: Declarations
    declarations: Codes

    def __len__(self) -> int:
        return self.occurred_us.size


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that was not added."""

    place: int
    error: InvalidEntryError


@dataclass(frozen=True)
class Table:
    """What the columns bring, by the names of the observations.

    Attributes:
        names: place of every observation's values in `values`.
        values: scaled to [0, 1] where they are scores; shape (names, events).
        wrong: which events have a score outside its metric's range.
        present: which events have which scores, as codes.
    """

    names: dict[str, int]
    values: Floats
    wrong: NDArray[np.bool_]
    present: tuple[Codes, ...]


def table(columns: EventColumns) -> Table:
    """Return what the columns bring: the numbers that `observations` returns of each event, to the bit."""
    named: dict[str, Floats] = {}
    wrong = np.zeros(len(columns), dtype=bool)
    flags = []
    known = layout(columns.scores, columns.declared)
    scaled = []
    for metric, lower, upper in known.ranges:
        there, values, bad = _scaled(columns.scores[metric], lower, upper)
        wrong |= bad
        flags.append(there)
        scaled.append(values)
        named[metric] = values
        gold = columns.gold_scores.get(metric)
        if gold is not None:
            graded, true, bad = _scaled(gold, lower, upper)
            # A true score without a score says nothing.
            wrong |= bad & there
            flags.append(graded & there)
            named[SQUARED_ERROR + metric], named[GOLD + metric] = squared_error(values, true), true
    for name, place, edge in known.edges:
        named[name] = (scaled[place] <= at_most(edge)).astype(np.float64)
    named[LATENCY], named[COST] = columns.latency_s, columns.cost_usd
    return Table(
        names={name: place for place, name in enumerate(named)},
        values=np.array(list(named.values())).reshape(len(named), len(columns)),
        wrong=wrong,
        present=tuple(_packed(flags[start : start + _BITS]) for start in range(0, len(flags), _BITS)),
    )


def _scaled(scores: Floats, lower: float, upper: float) -> tuple[NDArray[np.bool_], Floats, NDArray[np.bool_]]:
    """Return which events have a score, the scaled scores, and which are outside their range."""
    there = ~np.isnan(scores)
    return there, np.minimum((scores - lower) / (upper - lower), 1.0), there & ~((lower <= scores) & (scores <= upper))


def _packed(flags: list[NDArray[np.bool_]]) -> Codes:
    codes = np.zeros(flags[0].size, dtype=np.int64)
    for bit, flag in enumerate(flags):
        codes |= flag.astype(np.int64) << bit
    return codes


def combined(codes: tuple[Codes, ...]) -> tuple[Rows, Rows]:
    """Return the number of each event's combination of codes, and the place of the first event with each.

    >>> combined((np.array([5, 5, 0, 5]), np.array([1, 0, 1, 1])))
    (array([2, 1, 0, 2]), array([2, 1, 0]))
    """
    whole, span = codes[0], int(codes[0].max(initial=0)) + 1
    for code in codes[1:]:
        size = int(code.max(initial=0)) + 1
        if span * size >= _MOST_CODES:
            found, whole = np.unique(whole, return_inverse=True)
            span = found.size
        whole, span = whole * size + code, span * size
    _, first, numbers = np.unique(whole, return_index=True, return_inverse=True)
    return numbers, first


def milliseconds(microseconds: NDArray[np.int64]) -> Times:
    """Return the whole milliseconds of microseconds since 1970: those of `to_milliseconds`, which goes by seconds."""
    return (microseconds / 1e6 * 1000).astype(np.int64)


def beyond_bounds(columns: EventColumns) -> NDArray[np.bool_]:
    """Return which events have a time, a latency or a cost that the schema does not admit.

    A recording of an older release may hold such events. `milliseconds` is exact for all other times.
    """
    beyond = np.zeros(len(columns), dtype=bool)
    for microseconds in (columns.occurred_us, columns.labeled_us):
        beyond |= (microseconds < 0) | (microseconds > _LATEST_US)
    for values, most in ((columns.latency_s, LATENCY_MAX_S), (columns.cost_usd, COST_MAX_USD)):
        beyond |= ~((values >= 0) & (values <= most))
    return beyond


class Patterns:
    """Rows, and columns that go with them, of events of several kinds; all events of a kind have the same.

    Args:
        kinds: of each kind its rows, and one column for each row.
    """

    def __init__(self, kinds: Sequence[tuple[list[int], list[int]]]) -> None:
        self.widths = np.array([len(rows) for rows, _ in kinds], dtype=np.intp)
        self._begins = np.cumsum(self.widths) - self.widths
        self._rows = np.array([row for rows, _ in kinds for row in rows], dtype=np.intp)
        self._columns = np.array([column for _, columns in kinds for column in columns], dtype=np.intp)

    def expanded(self, kinds: Rows) -> tuple[Rows, Rows, Rows]:
        """Return for events of these kinds, one after the other: place of the event, row, and column."""
        each = self.widths[kinds]
        of = np.repeat(np.arange(kinds.size), each)
        # Where each event's kind begins in the lists, less where the event begins in what is returned.
        begin = self._begins[kinds] - (np.cumsum(each) - each)
        place = np.arange(of.size) + np.repeat(begin, each)
        return of, self._rows[place], self._columns[place]
