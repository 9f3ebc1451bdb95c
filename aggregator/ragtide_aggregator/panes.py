"""Moments of every key in panes of event time, from which windows are put together. No clock, no I/O."""

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from .statistics.batches import Floats, Rows
from .statistics.moments import Moments, MomentTable
from .statistics.tables import doubled
from .statistics.windows import Panes, Window

_COUNTS: Final = struct.Struct("<2q")


class Covered(NamedTuple):
    """What a window holds of each of some keys; arrays with one element a key."""

    moments: Moments
    n_absent: Rows
    n_processed: Rows


class PaneBook:
    """Which panes of which keys there are, and what they hold.

    A pane of a key is a row of moments, with the number of times the metric was absent, and the number of values that
    were scored during it. Rows of panes that no window needs any more are used again.
    """

    def __init__(self, panes: Panes) -> None:
        self._panes = panes
        self._moments = MomentTable(bounded=False)
        self._n_absent = np.zeros(16, dtype=np.int64)
        self._n_processed = np.zeros(16, dtype=np.int64)
        self._of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()

    def add(self, rows: Rows, panes: Rows, values: Floats, guesses: Floats) -> None:
        """Add values, scaled to [0, 1], to panes of keys.

        Args:
            rows: row of each value's key, shape (n,).
            panes: number of each value's pane, same shape.
            values: in order, same shape.
            guesses: mean of the key before each value, same shape: what the first value of a pane is predicted to be.
        """
        self._moments.update(self._places(rows, panes), values, guesses)

    def absent(self, rows: Rows, panes: Rows) -> None:
        """Count that metrics were absent."""
        np.add.at(self._n_absent, self._places(rows, panes), 1)

    def processed(self, rows: Rows, panes: Rows) -> None:
        """Count values by the pane in which they were scored."""
        np.add.at(self._n_processed, self._places(rows, panes), 1)

    def _places(self, rows: Rows, panes: Rows) -> Rows:
        pairs, inverse = np.unique(np.stack([rows, panes]), axis=1, return_inverse=True)
        places = np.array([self._place(row, pane) for row, pane in pairs.T.tolist()], dtype=np.intp)
        self._changed.update(zip(*pairs.tolist(), strict=True))
        return places[inverse.ravel()]

    def _place(self, row: int, pane: int) -> int:
        of = self._of[row]
        place = of.get(pane)
        if place is not None:
            return place
        place = self._free.pop() if self._free else self._new()
        of[pane] = place
        self._gone.discard((row, pane))
        for old in [one for one in of if one <= max(of) - self._panes.kept]:
            self._drop(row, old)
        return place

    def _new(self) -> int:
        place = self._moments.add_row()
        if place == self._n_absent.size:
            self._n_absent, self._n_processed = doubled(self._n_absent), doubled(self._n_processed)
        return place

    def _drop(self, row: int, pane: int) -> None:
        place = self._of[row].pop(pane)
        self._moments.clear(place)
        self._n_absent[place] = self._n_processed[place] = 0
        self._free.append(place)
        self._changed.discard((row, pane))
        self._gone.add((row, pane))

    def covered(self, rows: Iterable[int], start_ms: int, end_ms: int) -> Covered:
        """Return what a stretch of event time holds of each key."""
        first, last = start_ms // self._panes.pane_ms, end_ms // self._panes.pane_ms
        nothing = self._free[-1] if self._free else self._new()
        if not self._free:
            self._free.append(nothing)
        places: list[int] = []
        starts = []
        for row in rows:
            starts.append(len(places))
            found = [place for pane, place in sorted(self._of[row].items()) if first <= pane < last]
            places += found or [nothing]
        index, groups = np.array(places, dtype=np.intp), np.array(starts, dtype=np.intp)
        if not index.size:
            return Covered(self._moments.read(index), index, index)
        return Covered(
            self._moments.pooled(index, groups),
            np.add.reduceat(self._n_absent[index], groups),
            np.add.reduceat(self._n_processed[index], groups),
        )

    def windows(self) -> tuple[Window, ...]:
        """Return the windows that are kept."""
        return self._panes.windows

    def take_changes(self) -> tuple[dict[tuple[int, int], bytes], list[tuple[int, int]]]:
        """Return panes to write, by row and number, and panes to remove, since the last call."""
        written = {}
        for row, pane in sorted(self._changed):
            place = self._of[row][pane]
            counts = _COUNTS.pack(int(self._n_absent[place]), int(self._n_processed[place]))
            written[row, pane] = counts + self._moments.to_bytes(place)
        gone = sorted(self._gone)
        self._changed, self._gone = set(), set()
        return written, gone

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of a key to what `take_changes` wrote.

        Raises: ValueError if the bytes were written by another version.
        """
        place = self._place(row, pane)
        self._n_absent[place], self._n_processed[place] = _COUNTS.unpack_from(data)
        self._moments.load(place, data[_COUNTS.size :])
