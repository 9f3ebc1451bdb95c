"""The dependence of neighbouring values, of the metrics of whole pipelines. No clock, no I/O."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from ..events.batch import Scope
from ..events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ..statistics.means.dependence import FIRST_BLOCK, Dependence, DependenceTable, Moved
from ..statistics.means.moments import MomentTable
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.tables import doubled

_NONE: Final = -1


class DependenceRows:
    """A table of block sums with the rows of the state that it measures."""

    def __init__(self) -> None:
        self._table = DependenceTable()
        self._place = np.full(64, _NONE, dtype=np.intp)

    def add_row(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key, which is measured if it is a metric of a whole pipeline."""
        if row == self._place.size:
            self._place = doubled(self._place, _NONE)
        if key.segment is None and key.metric not in UNBOUNDED and not key.metric.startswith(HIDDEN):
            self._place[row] = self._table.add_row()

    def measures(self, row: int) -> bool:
        """Return whether a row is measured."""
        return bool(self._place[row] != _NONE)

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values to rows, in order; rows that are not measured take none."""
        places = self._place[rows]
        measured = np.flatnonzero(places != _NONE)
        self._table.update(places[measured], values[measured])

    def read(self, rows: Rows, moments: MomentTable, moved: Moved | None = None) -> Dependence:
        """Return the dependence of measured rows, without the part that a known change of the mean makes."""
        return self._table.read(self._place[rows], moments.read(rows), moved)

    def block(self, scope: Scope, keys: Sequence[EstimateKey], ruled: Iterable[int], moments: MomentTable) -> int:
        """Return the length of blocks that suits a pipeline and run.

        Args:
            scope: the pipeline and run.
            keys: key of every row.
            ruled: rows that alert rules watch. The longest of their blocks counts; without rules, the median block.
            moments: of every row.
        """
        mine = [row for row, key in enumerate(keys) if (key.pipeline, key.run) == scope and self.measures(row)]
        watched = sorted(set(mine).intersection(ruled))
        if not mine:
            return FIRST_BLOCK
        found = self.read(np.array(watched or mine, dtype=np.intp), moments).block
        return int(found.max()) if watched else int(np.sort(found)[found.size // 2])

    def merge(self, row: int, other: "DependenceRows", other_row: int) -> None:
        """Add the blocks of the same key in another state."""
        if self.measures(row) and other.measures(other_row):
            self._table.merge(int(self._place[row]), other._table, int(other._place[other_row]))

    def impossible(self, rows: Rows) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return which rows hold a number that no values add up to; same shape."""
        places = self._place[rows]
        found = np.zeros(rows.shape, dtype=bool)
        found[places != _NONE] = self._table.impossible(places[places != _NONE])
        return found

    def to_bytes(self, row: int) -> bytes:
        """Return a measured row as bytes."""
        return self._table.to_bytes(int(self._place[row]))

    def load(self, row: int, data: bytes) -> None:
        """Set a measured row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        self._table.load(int(self._place[row]), data)
