"""Sorts a batch of values, so that the arrays of all its rows can be updated together.

Sums need the values of one row side by side (`Grouped`). Recurrences need them in rounds (`Rounds`): the first value of
every row, then the second value of each, and so on. Both give each row the same result, to the bit, as adding value by
value, however the values were cut into batches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
VALUES_OF_A_PIECE: Final = 8192
"""Values that are summed up together: of more, each takes a third more time."""
_SPARSE, _SMALL = 4, 4096
"""A table of all codes is faster than sorting up to `_SPARSE` times their number plus `_SMALL` possible codes."""

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Grouped:
    """A batch sorted by row, the rows with the most values first: n values of k rows."""

    order: Rows
    """Positions in the batch, the values of one row together and in their order; shape (n,)."""
    rows: Rows
    """The distinct rows; shape (k,)."""
    counts: Rows
    """Number of values of each row, not rising; shape (k,)."""
    starts: Rows
    """Index in `order` of the first value of each row; shape (k,)."""

    @cached_property
    def occurrence(self) -> Rows:
        """For each value, the number of values of its row before it in the batch; shape (n,)."""
        return np.arange(self.order.size) - np.repeat(self.starts, self.counts)

    def spread(self, per_row: NDArray[Number]) -> NDArray[Number]:
        """Repeat the element of each row for each of its values (on the last axis)."""
        return np.repeat(per_row, self.counts, axis=-1)

    def before(self, values: NDArray[np.int64], state: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each value its row's state and the sum of the row's values before it; whole numbers only, exact.

        Values, and states of rows, are on the last axis.
        """
        running = np.cumsum(values, axis=-1)
        running -= values
        running += self.spread(state - running[..., self.starts])
        return running

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum of each row's values, on the last axis; whole numbers only, exact."""
        return np.add.reduceat(values, self.starts, axis=-1) if values.size else values

    def pieces(self) -> "Iterator[tuple[Grouped, slice]]":
        """Yield the batch in pieces of whole rows, with the slice of their values in the batch's order.

        The numbers of a piece fit the processor's cache: it has up to `VALUES_OF_A_PIECE` values, or a single row.
        """
        ends, first = self.starts + self.counts, 0
        while first < self.rows.size:
            begin = int(self.starts[first])
            stop = max(int(np.searchsorted(ends, begin + VALUES_OF_A_PIECE, side="right")), first + 1)
            rows, values = slice(first, stop), slice(begin, int(ends[stop - 1]))
            yield Grouped(self.order[values], self.rows[rows], self.counts[rows], self.starts[rows] - begin), values
            first = stop

    @cached_property
    def rounds(self) -> "Rounds":
        """The same values in rounds."""
        by_round = np.argsort(_small(self.occurrence), kind="stable")
        widths = np.bincount(self.occurrence) if self.order.size else np.zeros(0, dtype=np.intp)
        return Rounds(
            by_round,
            np.concatenate([[0], np.cumsum(widths)]),
            np.repeat(np.arange(self.rows.size), self.counts)[by_round],
        )


@dataclass(frozen=True, slots=True)
class Rounds:
    """Values in rounds. The rows of a round are the first rows of the round before it."""

    order: Rows
    """Positions in `Grouped.order`; shape (n,)."""
    edges: Rows
    """Index of the first value of each round, and the end of the last round; shape (rounds + 1,)."""
    ranks: Rows
    """For each value, the index of its row in `Grouped.rows`; shape (n,)."""

    @property
    def place(self) -> Rows:
        """For each value of `Grouped.order`, its index in rounds; shape (n,)."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(self.order.size)
        return place

    def slices(self) -> Iterator[slice]:
        """Yield each round's slice of arrays in the order of rounds."""
        for start, end in pairwise(self.edges.tolist()):
            yield slice(start, end)

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and width of neighbouring rounds of one width, in arrays in the order of rounds."""
        widths = np.diff(self.edges)
        changes = np.flatnonzero(np.diff(widths, prepend=-1, append=-1))
        for first, last in pairwise(changes.tolist()):
            yield int(self.edges[first]), int(self.edges[last]), int(widths[first])


def grouped(rows: Rows) -> Grouped:
    """Return a batch sorted by row, the rows with the most values first.

    >>> batch = grouped(np.array([3, 7, 7, 3, 7]))
    >>> batch.rows.tolist(), batch.counts.tolist(), batch.order.tolist()
    ([7, 3], [3, 2], [1, 2, 4, 0, 3])
    """
    # Rows are indices of tables, so counting them in an array is faster than sorting them.
    occurring = np.bincount(rows) if rows.size else np.zeros(0, dtype=np.intp)
    distinct = np.flatnonzero(occurring)
    distinct = distinct[np.argsort(-occurring[distinct], kind="stable")]
    counts = occurring[distinct]
    rank = np.empty(occurring.size, dtype=np.intp)
    rank[distinct] = np.arange(distinct.size)
    order = np.argsort(_small(rank[rows]), kind="stable")
    return Grouped(order, distinct, counts, np.cumsum(counts) - counts)


def by_row(rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yield each distinct row with the places of its values, in their order; the row with the most values first.

    >>> [(row, places.tolist()) for row, places in by_row(np.array([3, 7, 7]))]
    [(7, [1, 2]), (3, [0])]
    """
    batch = grouped(rows)
    for row, start, count in zip(batch.rows.tolist(), batch.starts.tolist(), batch.counts.tolist(), strict=True):
        yield row, batch.order[start : start + count]


def distinct(codes: Rows) -> tuple[Rows, Rows, Rows]:
    """Return the distinct codes (0 or more), the index of each code among them, and how often each occurs.

    >>> distinct(np.array([7, 2, 7]))
    (array([2, 7]), array([1, 0, 1]), array([1, 2]))
    """
    span = int(codes.max(initial=-1)) + 1
    if span > _SPARSE * codes.size + _SMALL:
        return np.unique(codes, return_inverse=True, return_counts=True)
    occurring = np.bincount(codes, minlength=span)
    codes_found = np.flatnonzero(occurring)
    place = np.empty(span, dtype=np.intp)
    place[codes_found] = np.arange(codes_found.size)
    return codes_found, place[codes], occurring[codes_found]


def _small(numbers: Rows) -> NDArray[np.unsignedinteger]:
    return numbers.astype(np.uint16 if numbers.size == 0 or numbers.max() < 2**16 else np.uint32)
