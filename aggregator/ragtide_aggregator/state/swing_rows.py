"""How far means move with the hour of the day, of the keys of whole pipelines that rules watch. No clock, no I/O."""

from typing import Final

import numpy as np

from ..alerts.rule_values import RuleValues
from ..events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ..statistics.drift.drift import Direction
from ..statistics.drift.seasons import SeasonTable, Swings
from ..statistics.tables.batches import Rows
from ..statistics.tables.tables import doubled

SWING_CONFIDENCE: Final = 0.95
"""Confidence of the ends of a swing."""

_NONE: Final = -1


class SwingRows:
    """A table of hours of the day, with the rows of the state that it measures.

    It takes the values, or the closed clusters, that rules take, in the hours in which they count there.
    """

    def __init__(self) -> None:
        self._table = SeasonTable("day")
        self._place = np.full(64, _NONE, dtype=np.intp)

    def add_row(self, row: int, key: EstimateKey, *, ruled: bool) -> None:
        """Add the row of a key, which is measured if rules watch it and it is a metric of a whole pipeline."""
        if row == self._place.size:
            self._place = doubled(self._place, _NONE)
        if ruled and key.segment is None and key.metric not in UNBOUNDED and not key.metric.startswith(HIDDEN):
            self._place[row] = self._table.add_row()

    def measures(self, row: int) -> bool:
        """Return whether a row is measured."""
        return bool(self._place[row] != _NONE)

    def take(self, values: RuleValues) -> None:
        """Add values or closed clusters that rules take."""
        places = self._place[values.rows]
        mine = np.flatnonzero(places != _NONE)
        sizes = None if values.sizes is None else values.sizes[mine]
        self._table.add_values(places[mine], values.hours[mine], values.values[mine], sizes=sizes)

    def swings(self, rows: Rows, direction: Direction) -> Swings:
        """Return the swings of measured rows, scaled to [0, 1]."""
        return self._table.swings(self._place[rows], direction=direction, confidence=SWING_CONFIDENCE)

    def to_bytes(self, row: int) -> bytes:
        """Return a measured row as bytes."""
        return self._table.to_bytes(int(self._place[row]))

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned; the row is measured from now on.

        Raises: ValueError if the bytes were written by another version, or hold a number that is not finite.
        """
        if not self.measures(row):
            self._place[row] = self._table.add_row()
        self._table.load(int(self._place[row]), data)
