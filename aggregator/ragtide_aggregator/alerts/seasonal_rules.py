"""The rules with a seasonal baseline: the limit of each value, and learning from values. No clock, no I/O.

A value counts to the hour of its pipeline's newest event time when it counts; a cluster of values to that at which it
is closed. These hours never go back. A limit depends on cells of earlier days alone, so a batch is cut where a day
begins, and inside a day limits are looked up. A rule that is firing learns nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np

from ..statistics.drift.seasons import SLOTS
from ..statistics.tables.batches import Floats, Rows, grouped
from ..statistics.tables.row_table import RowColumn, RowTable
from .baseline import BASELINE_CONFIDENCE
from .rule_state import RuleState
from .rule_values import Arrived, RuleValues
from .seasonal_baseline import NO_CYCLE, SeasonalBaseline, SeasonTables

_WIDTH: Final = SLOTS["week"]
"""Hours of a week: hours of the day occur seven times."""

Turns = Mapping[RuleState, list[int]]
"""Positions of values after which rules fire or resolve, in turns."""


class _HourLimits(RowTable, what="limits of hours", capacity=16):
    """The limits of one detector by hour of the week; `WAITS` while too little is known of an hour."""

    of_hour = RowColumn(np.float64, (_WIDTH,), axis=0)


class _SeasonalRows(RowTable, what="seasonal rules of a key", capacity=16):
    """Per row of the deployment: index of its first state, number of its states, and the day of its last value."""

    first = RowColumn(np.intp)
    count = RowColumn(np.intp)
    day = RowColumn(np.int64, fill=NO_CYCLE)


class _SeasonalStates(RowTable, what="seasonal rules", capacity=16):
    """Per baseline of a state: whether the state looks for a change, and of how many first answers it is, 0 of none."""

    watching = RowColumn(np.bool_)
    first = RowColumn(np.intp)


class SeasonalRules:
    """All rule states with a seasonal baseline.

    Attributes:
        tables: in which they learn.
    """

    def __init__(self) -> None:
        self.tables = SeasonTables()
        self._limits, self._rows, self._numbers = _HourLimits(), _SeasonalRows(), _SeasonalStates()
        self._states: list[tuple[RuleState, SeasonalBaseline]] = []

    def add_row(self, states: Iterable[RuleState]) -> None:
        """Add the states of the rules on the next row."""
        self._add_baselines(self._rows.add_row(), states)

    def add_rows_without_rules(self, count: int) -> None:
        """Add rows without rules."""
        self._rows.add_rows(count)

    def _add_baselines(self, row: int, states: Iterable[RuleState]) -> None:
        self._rows.first[row] = len(self._states)
        for state in states:
            beginnings = [(first.length, first.baseline) for first in state.beginnings]
            for length, baseline in ((0, state.baseline), *beginnings):
                if isinstance(baseline, SeasonalBaseline):
                    index = self._numbers.add_row()
                    self._numbers.first[index] = length
                    self._states.append((state, baseline))
        self._rows.count[row] = len(self._states) - self._rows.first[row]

    def begin_first_answers(self, row: int, states: Iterable[RuleState]) -> None:
        """Add the baselines of first answers of a row's states."""
        if self._rows.count[row]:
            self._add_baselines(row, states)
            # The new baselines begin their first cycle with the next value, as after a restart.
            self._rows.day[row] = NO_CYCLE
            self.refresh(row)

    def add_detector(self, state: RuleState) -> int:
        """Add a detector of a state; return the row of its limits, -1 without a seasonal baseline."""
        return self._limits.add_row() if isinstance(state.baseline, SeasonalBaseline) else -1

    def set_limits(self, place: int, state: RuleState, number: int) -> None:
        """Copy the limits of a state's detector to their row."""
        detector = state.detectors[number]
        baseline = state.baseline_of(detector)
        if isinstance(baseline, SeasonalBaseline):
            limits = baseline.limits(detector, watching=state.looks_for_change)
            self._limits.of_hour[place] = np.resize(limits, _WIDTH)

    def refresh(self, row: int) -> None:
        """Copy whether the states of a row look for a change."""
        for index in range(self._rows.first[row], self._rows.first[row] + self._rows.count[row]):
            self._numbers.watching[index] = self._states[index][0].looks_for_change

    def limits(self, places: Rows, hours: Rows) -> Floats | None:
        """Return the limit of detectors at hours: nan for a detector without a season, `WAITS` if it is to wait.

        None stands for nan everywhere.

        Args:
            places: rows of the limits of detectors.
            hours: in which the values count.
        """
        if not self._states:
            return None
        return np.where(places < 0, np.nan, self._limits.of_hour[places, hours % _WIDTH])

    def stretches(self, arrived: Arrived) -> Iterator[Arrived]:
        """Yield values in stretches of parts, so that no row with a seasonal rule has values of two days in one."""
        cuts = sorted(set(self._day_begins(arrived))) if self._states else []
        if not cuts:
            yield arrived
            return
        for start, end in pairwise([-1, *cuts, np.iinfo(np.intp).max]):
            stretch = arrived.between(start, end)
            if stretch.parts.size:
                yield stretch

    def _day_begins(self, arrived: Arrived) -> list[int]:
        places = np.flatnonzero(self._rows.count[arrived.values.rows])
        by_row = grouped(arrived.values.rows[places])
        ordered = places[by_row.order]
        days = arrived.values.hours[ordered] // SLOTS["day"]
        begins = (np.diff(days, prepend=days[:1]) > 0) & (by_row.occurrence > 0)
        return list(arrived.parts[ordered[begins]].tolist())

    def begin(self, part: RuleValues) -> list[int]:
        """Begin the cycles that begin in a part of a batch; return the rows whose limits changed."""
        if not self._states:
            return []
        places = np.flatnonzero(self._rows.count[part.rows])
        rows, first = np.unique(part.rows[places], return_index=True)
        hours = part.hours[places[first]]
        later = hours // SLOTS["day"] > self._rows.day[rows]
        rows, hours = rows[later], hours[later]
        self._rows.day[rows] = hours // SLOTS["day"]
        begun: dict[str, list[tuple[SeasonalBaseline, int]]] = {}
        for row, hour in zip(rows.tolist(), hours.tolist(), strict=True):
            for index in range(self._rows.first[row], self._rows.first[row] + self._rows.count[row]):
                _, season = self._states[index]
                if hour // season.slots > season.cycle:
                    begun.setdefault(season.season, []).append((season, hour // season.slots))
        for seasons in begun.values():
            _begin(seasons)
        return list(rows.tolist()) if begun else []

    def learn(self, part: RuleValues, turns: Turns) -> None:
        """Let the rules learn from the values for which they were not firing.

        Args:
            part: values that the rules have taken.
            turns: when rules fired or resolved in it.
        """
        if not self._states:
            return
        counts = self._rows.count[part.rows]
        value_of = np.repeat(np.arange(counts.size), counts)
        within = np.arange(value_of.size) - np.repeat(np.cumsum(counts) - counts, counts)
        state_of = np.repeat(self._rows.first[part.rows], counts) + within
        learns = self._numbers.watching[state_of]
        indexes: dict[RuleState, list[int]] = {}
        for index, (state, _) in enumerate(self._states if turns else ()):
            indexes.setdefault(state, []).append(index)
        for state, positions in turns.items():
            for index in indexes.get(state, ()):
                mine = np.flatnonzero(state_of == index)
                # An odd number of turns to come means that the state was the other one.
                to_come = len(positions) - np.searchsorted(positions, value_of[mine], side="left")
                learns[mine] = state.looks_for_change ^ (to_come % 2 == 1)
        learns &= self._numbers.first[state_of] == (0 if part.first is None else part.first[value_of])
        value_of, state_of = value_of[learns], state_of[learns]
        if not value_of.size:
            return
        learning, which = np.unique(state_of, return_inverse=True)
        seasons = [self._states[index][1] for index in learning.tolist()]
        rows = np.array([season.row for season in seasons], dtype=np.intp)[which]
        for name in {season.season for season in seasons}:
            mine = np.array([season.season == name for season in seasons])[which]
            values = value_of[mine]
            table = next(season.table for season in seasons if season.season == name)
            sizes = None if part.sizes is None else part.sizes[values]
            table.add_values(rows[mine], part.hours[values], part.values[values], sizes=sizes)


def _begin(seasons: list[tuple[SeasonalBaseline, int]]) -> None:
    table = seasons[0][0].table
    rows = np.array([season.row for season, _ in seasons], dtype=np.intp)
    table.close(rows)
    means = np.nan_to_num(table.means(rows))
    ends = np.stack([*table.intervals(rows, confidence=BASELINE_CONFIDENCE), table.values(rows), means], axis=1)
    cycles = table.cycles(rows).max(axis=1)
    for (season, cycle), of_season, most in zip(seasons, ends, cycles.tolist(), strict=True):
        season.begin(cycle, most, of_season)
