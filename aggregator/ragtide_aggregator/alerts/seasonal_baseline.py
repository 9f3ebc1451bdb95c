"""The baseline of a rule for each hour of the day or of the week, as of the beginning of the present cycle. No clock.

A cycle is a day or a week. The baseline of an hour is set when a cycle begins, from the cells of earlier cycles
(`statistics.seasons`), so no limit depends on the values that it is compared with.
"""

import base64
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import Movement

from ..statistics.drift.seasons import HOUR_MS, SLOTS, Season, SeasonTable
from ..statistics.tables.batches import Floats

NO_CYCLE: Final = np.iinfo(np.int64).min // 2
"""Cycle of a baseline that no value has begun."""


class SeasonalBaseline:
    """The lenient ends of each slot, with the row of a table that learns them.

    Attributes:
        season: whether days or weeks repeat.
        table: learns each slot.
        row: of the table.
        cycle: which cycle since 1970 is the present one.
        cycles: most cycles from which a slot was learned.
        ends: lower and upper ends of each slot, and the number of values from which they were learned; shape
            (3, slots). An unknown slot has the whole range.
    """

    def __init__(self, season: Season, table: SeasonTable) -> None:
        self.season: Season = season
        self.table, self.row = table, table.add_row()
        self.cycle, self.cycles = NO_CYCLE, 0
        self.ends = np.zeros((3, self.slots))
        self.ends[1] = 1.0

    @property
    def slots(self) -> int:
        """Number of slots of a cycle."""
        return SLOTS[self.season]

    @property
    def n(self) -> int:
        """Number of values from which it was learned."""
        return int(np.add.reduce(self.ends[2]))

    def begin(self, cycle: int, cycles: int, ends: Floats) -> None:
        """Begin a cycle with the limits that earlier cycles give."""
        self.cycle, self.cycles, self.ends = cycle, cycles, ends

    def references(self, movement: Movement) -> Floats:
        """Return the lenient end of each slot: the end that a movement must pass; nan for an unknown slot."""
        known = (self.ends[0] > 0) | (self.ends[1] < 1)
        return np.where(known, self.ends[0] if movement == "fall" else self.ends[1], np.nan)

    def reference(self, movement: Movement, hours: NDArray[np.int64]) -> float:
        """Return the mean of the lenient ends of hours since 1970, weighted by their usual numbers of values.

        At least one of the hours has a known slot.
        """
        slots = hours[-self.slots :] % self.slots
        ends = self.references(movement)[slots]
        weights = np.where(np.isnan(ends), 0.0, self.ends[2][slots])
        return float(np.add.reduce(weights * np.where(np.isnan(ends), 0.0, ends)) / np.add.reduce(weights))

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        learned, ends = self.table.to_bytes(self.row), self.ends.astype("<f8").tobytes()
        return {"cycle": self.cycle, "cycles": self.cycles} | {
            name: base64.b64encode(data).decode() for name, data in (("learned", learned), ("ends", ends))
        }

    def load(self, dumped: dict[str, Any]) -> None:
        """Set the state to what `dump` returned.

        Raises: ValueError if another version wrote it, or a number is not finite.
        """
        self.table.load(self.row, base64.b64decode(dumped["learned"]))
        ends = np.frombuffer(base64.b64decode(dumped["ends"]), "<f8").reshape(3, self.slots).copy()
        if not (np.isfinite(ends).all() and isfinite(dumped["cycle"])):
            raise ValueError("a seasonal baseline holds a number that is not finite")
        self.begin(dumped["cycle"], dumped["cycles"], ends)


class SeasonTables:
    """The tables in which all seasonal rules of a partition learn."""

    def __init__(self) -> None:
        self._tables: dict[Season, SeasonTable] = {}

    def baseline(self, season: Season) -> SeasonalBaseline:
        """Return a new baseline, which has learned nothing."""
        return SeasonalBaseline(season, self._tables.setdefault(season, SeasonTable(season)))


def hours_between(first_ms: int, hour: int) -> NDArray[np.int64]:
    """Return the hours since 1970 from the hour of a time to an hour; at least the last."""
    return np.arange(min(first_ms // HOUR_MS, hour), hour + 1, dtype=np.int64)
