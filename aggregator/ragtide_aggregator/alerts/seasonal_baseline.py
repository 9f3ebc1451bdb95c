"""The baseline of a rule for each hour of the day or of the week, as of the beginning of the present cycle. No clock.

A cycle is a day or a week. The baseline of an hour is set when a cycle begins, from the cells of earlier cycles
(`statistics.seasons`), so no limit depends on the values that it is compared with.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import AlertRule, Movement, from_milliseconds

from ..events.keys import EstimateKey
from ..statistics.drift.drift import Alarm
from ..statistics.drift.seasons import HOUR_MS, SLOTS, Season, SeasonTable
from ..statistics.tables.batches import Floats, Rows
from .baseline import AlarmDetail, AlarmFacts, Place, RuleBaseline
from .statistic import RuleDetector, Statistic, statistic_of
from .stored_form import of_array

NO_CYCLE: Final = np.iinfo(np.int64).min // 2
"""Cycle of a baseline that no value has begun."""


@dataclass(frozen=True, slots=True)
class SeasonalHours(AlarmDetail):
    """The hours of a change that a seasonal baseline speaks of."""

    source = "seasonal"
    season: Season
    cycles: int
    """Most days or weeks from which an hour was learned."""
    first: int
    """First hour since 1970."""
    last: int

    @property
    def normal_of(self) -> str:
        """The hours in words, such as `Mondays 14:00 to 16:00 UTC`."""
        first, last = (from_milliseconds(hour * HOUR_MS) for hour in (self.first, self.last + 1))
        whole = self.last - self.first + 1 >= SLOTS[self.season]
        if whole:
            return f"all hours of the {self.season}"
        if self.season == "day":
            return f"{first:%H:%M} to {last:%H:%M} UTC"
        until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%A}s {last:%H:%M}"
        return f"{first:%A}s {first:%H:%M} to {until} UTC"

    def notes(self, rule: AlertRule, key: EstimateKey) -> tuple[str, ...]:
        """Return the assumption about hours."""
        by = f" by more than {rule.min_effect:g}" if rule.min_effect else ""
        season = self.season
        learned = f"Each hour of the {season} has its own normal value, learned in {self.cycles} {season}s."
        return (f"{learned} The rule assumes that no hour is worse than the same hour of earlier {season}s{by}.",)


class SeasonalBaseline(RuleBaseline):
    """The lenient ends and the mean of each slot, with the row of a table that learns them.

    A rule looks for a change from the beginning, but an hour of which too little is known takes no values.

    Attributes:
        season: whether days or weeks repeat.
        table: learns each slot.
        row: of the table.
        cycle: which cycle since 1970 is the present one.
        cycles: most cycles from which a slot was learned.
        ends: lower and upper ends of each slot, and the number of values from which they were learned; shape
            (3, slots). An unknown slot has the whole range.
    """

    def __init__(self, rule: AlertRule, value_range: tuple[float, float], table: SeasonTable) -> None:
        self._rule = rule
        self._statistic = statistic_of(rule, value_range)
        self.season: Season = rule.season or "day"
        self.table, self.row = table, table.add_row()
        self.cycle, self.cycles = NO_CYCLE, 0
        # Lower ends, upper ends, numbers of values and means of the slots.
        self.ends = np.zeros((4, self.slots))
        self._form = of_array("<f8", 4, self.slots)
        self.ends[1] = 1.0

    @property
    def statistics(self) -> list[Statistic]:
        """The statistic that is compared."""
        return [self._statistic]

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

    def reference(self, movement: Movement, hours: NDArray[np.int64]) -> tuple[float, float, int]:
        """Return the mean of the lenient ends of hours since 1970, the mean of their means, and their number of values.

        Means are weighted by the usual numbers of values of the hours. At least one of the hours has a known slot.
        """
        slots = hours[-self.slots :] % self.slots
        ends = self.references(movement)[slots]
        weights = np.where(np.isnan(ends), 0.0, self.ends[2][slots])
        total = np.add.reduce(weights)
        lenient = np.add.reduce(weights * np.where(np.isnan(ends), 0.0, ends)) / total
        return float(lenient), float(np.add.reduce(weights * self.ends[3][slots]) / total), int(total)

    def limits(self, detector: RuleDetector, *, watching: bool) -> Floats:
        """Return the limits of a detector by slot; 0 for a slot for which it is to wait."""
        limits = np.zeros(self.slots)
        for slot, reference in enumerate(self.references(detector.movement).tolist()):
            if not np.isnan(reference) and 0 < detector.limit(self._rule, reference, watching=True) < 1:
                limits[slot] = detector.limit(self._rule, reference, watching=watching)
        return limits

    def beyond(self, detectors: list[RuleDetector], positions: Rows | None = None) -> tuple[Any, Any]:
        """Return the least lenient limits of all hours: the worst interactions of a change lie far beyond any."""
        low, high = -1.0, 2.0
        for detector in detectors:
            limits = self.limits(detector, watching=True)
            limits = limits[limits > 0]
            if detector.active and limits.size:
                low, high = (float(limits.max()), high) if detector.movement == "fall" else (low, float(limits.min()))
        return low, high

    def facts(self, detector: RuleDetector, alarm: Alarm, at: Place) -> AlarmFacts:
        """Return the facts of an alarm, for the hours of its change."""
        between = hours_between(alarm.change_tag, at.hour)
        hours = SeasonalHours(self.season, self.cycles, int(between[-self.slots :][0]), at.hour)
        reference, normal, n = self.reference(detector.movement, between)
        return AlarmFacts(reference, n, alarm.change_mean, normal, hours)

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it; the table has what was learned of the slots."""
        season = {"cycle": self.cycle, "cycles": self.cycles}
        learned = base64.b64encode(self.table.to_bytes(self.row)).decode()
        return {"season": season | {"learned": learned, "ends": self._form.dump(self.ends)}}

    def load(self, dumped: Mapping[str, Any], *, known: bool) -> None:
        """Set the state to what `dump` returned.

        Raises: ValueError if another version wrote it, or a number is not finite.
        """
        season = dumped["season"]
        self.table.load(self.row, base64.b64decode(season["learned"]))
        ends = self._form.read(season["ends"])
        if not (np.isfinite(ends).all() and isfinite(season["cycle"])):
            raise ValueError("a seasonal baseline holds a number that is not finite")
        self.begin(season["cycle"], season["cycles"], ends)


class SeasonTables:
    """The tables in which all seasonal rules of a partition learn."""

    def __init__(self) -> None:
        self._tables: dict[Season, SeasonTable] = {}

    def baseline(self, rule: AlertRule, value_range: tuple[float, float]) -> SeasonalBaseline:
        """Return a new baseline, which has learned nothing."""
        season: Season = rule.season or "day"
        return SeasonalBaseline(rule, value_range, self._tables.setdefault(season, SeasonTable(season)))


def hours_between(first_ms: int, hour: int) -> NDArray[np.int64]:
    """Return the hours since 1970 from the hour of a time to an hour; at least the last."""
    return np.arange(min(first_ms // HOUR_MS, hour), hour + 1, dtype=np.int64)
