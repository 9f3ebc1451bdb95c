"""Open cells of seasons: the values of the hour that is not over yet, one cell per row.

Sums are exact, so values may come one by one or many at once without changing a bit.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables import sums
from ..tables.batches import Floats, Rows, distinct, grouped
from ..tables.row_table import RowColumn, RowTable

NEVER: Final = np.iinfo(np.int64).min
"""Hour of a row without values."""

_QUANTITIES: Final = 3


class CellSums(NamedTuple):
    """Sums of the values of cells; arrays with one element a row."""

    n: Floats
    """Number of values."""
    total: Floats
    v: Floats
    """Sum of (Y - n p)^2 over clusters of n values with sum Y, where p is the prediction; n is 1 for a single value."""
    weighted: Floats
    """Sum of n (Y - n p)^2."""


class OpenCells(RowTable, what="open hours", capacity=16):
    """The open cell of each row: its hour, the prediction of its values, and their sums.

    Attributes:
        hour: which hour since 1970.
        guess: the prediction for each value of the cell, made before the cell began.
        n: number of values.
    """

    hour = RowColumn(np.int64, fill=NEVER)
    n = RowColumn(np.int64, least=0)
    guess = RowColumn(np.float64, least=-np.inf)
    # Sums of values, V and weighted V, as exact sums.
    _sums = RowColumn(np.int64, (_QUANTITIES, 3), least=0)

    def begin(self, rows: Rows, hours: NDArray[np.int64], guess: Floats) -> None:
        """Begin the cells of distinct rows, whose cells before are empty."""
        self.hour[rows], self.guess[rows] = hours, guess

    def empty(self, rows: Rows) -> None:
        """Take all values from the cells of rows."""
        self.n[rows] = 0
        self._sums[:, :, rows] = 0

    def add(self, rows: Rows, n: NDArray[np.int64], totals: Floats, v: Floats, weighted: Floats) -> None:
        """Add clusters or panes to the cells of rows; arguments as in `CellSums`."""
        batch = grouped(rows)
        self.n[batch.rows] += batch.sums(n[batch.order])
        for state, added in zip(self._sums, (totals, v, weighted), strict=True):
            sums.add(state, batch, sums.limbs(added[batch.order]))

    def read(self, rows: Rows) -> CellSums:
        """Return the sums of rows."""
        return CellSums(self.n[rows].astype(np.float64), *(sums.totals(state, rows) for state in self._sums))


def in_turns(rows: Rows, hours: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield places of values: those of each row's first hour, then those of each row's second hour, and so on."""
    if not rows.size:
        return
    if (hours == hours[0]).all():  # as in nearly every batch
        yield np.arange(rows.size)
        return
    most = int(rows.max()) + 1
    codes, cell_of, _ = distinct((hours - hours.min()) * most + rows)
    by_row = grouped(codes % most)
    turn = np.empty_like(codes)
    turn[by_row.order] = by_row.occurrence
    turn_of = turn[cell_of]
    order = np.argsort(turn_of, kind="stable")
    edges = np.searchsorted(turn_of[order], np.arange(int(turn.max()) + 2))
    for start, end in pairwise(edges.tolist()):
        yield order[start:end]
