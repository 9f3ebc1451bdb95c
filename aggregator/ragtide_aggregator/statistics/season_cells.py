"""Open cells of seasons: the values of the hour that is not over yet, one cell per row.

Sums are exact, so values may come one by one or many at once without changing a bit.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import sums
from .batches import Floats, Rows, distinct, grouped
from .tables import doubled

NEVER: Final = np.iinfo(np.int64).min
"""Hour of a row without values."""

_CAPACITY = 16
_QUANTITIES: Final = 3
_ROW = struct.Struct(f"<qqd{3 * _QUANTITIES}q")
SIZE: Final = _ROW.size
"""Bytes of one row."""


class CellSums(NamedTuple):
    """Sums of the values of cells; arrays with one element a row."""

    n: Floats
    """Number of values."""
    total: Floats
    v: Floats
    """Sum of (Y - n p)^2 over clusters of n values with sum Y, where p is the prediction; n is 1 for a single value."""
    weighted: Floats
    """Sum of n (Y - n p)^2."""


class OpenCells:
    """The open cell of each row: its hour, the prediction of its values, and their sums.

    Attributes:
        hour: which hour since 1970.
        guess: the prediction for each value of the cell, made before the cell began.
        n: number of values.
    """

    def __init__(self) -> None:
        self.hour = np.full(_CAPACITY, NEVER)
        self.guess = np.zeros(_CAPACITY)
        self.n = np.zeros(_CAPACITY, dtype=np.int64)
        # Sums of values, V and weighted V, as exact sums.
        self._sums = np.zeros((_QUANTITIES, 3, _CAPACITY), dtype=np.int64)

    def reserve(self, rows: int) -> None:
        """Make room for a number of rows."""
        while self.hour.size < rows:
            self.hour, self.guess, self.n = doubled(self.hour, NEVER), doubled(self.guess), doubled(self.n)
            self._sums = doubled(self._sums, axis=-1)

    def begin(self, rows: Rows, hours: NDArray[np.int64], guess: Floats) -> None:
        """Begin the cells of distinct rows, whose cells before are empty."""
        self.hour[rows], self.guess[rows] = hours, guess

    def clear(self, rows: Rows) -> None:
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

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        limbs = self._sums[:, :, row].ravel().tolist()
        return _ROW.pack(int(self.hour[row]), int(self.n[row]), float(self.guess[row]), *limbs)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if a number is not finite or below 0.
        """
        hour, n, guess, *limbs = _ROW.unpack(data)
        if not (np.isfinite(guess) and n >= 0 and min(limbs) >= 0):
            raise ValueError("the open hour of a season holds a number that is not finite, or below 0")
        self.hour[row], self.n[row], self.guess[row] = hour, n, guess
        self._sums[:, :, row] = np.reshape(limbs, (_QUANTITIES, 3))


def in_turns(rows: Rows, hours: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield places of values: those of each row's first hour, then those of each row's second hour, and so on."""
    if not rows.size:
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
