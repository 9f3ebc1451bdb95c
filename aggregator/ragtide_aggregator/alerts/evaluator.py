"""Evaluates the alert rules on a batch of values, and returns the alerts that the rules raise."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ragtide_schemas import Alert, AlertRule
from ragtide_schemas.alert_rule import duration_ms

from ..events.batch import Times
from ..events.keys import EstimateKey
from ..statistics.drift.budget import Budget
from ..statistics.drift.drift import Alarm, DetectorTable
from ..statistics.drift.false_discovery import AlarmLevel
from ..statistics.tables.batches import Floats, Rows, grouped
from ..statistics.tables.tables import doubled
from .adjusted_rules import AdjustedRules, OnScale
from .contributors import Contributor, contenders
from .rule_state import Place, RuleState, matches
from .rule_values import Arrived, RuleValues
from .seasonal_rules import WAITS, SeasonalRules

_CAPACITY: Final = 16

MOST_AT_ONCE: Final = 0.1
"""Highest cost of one value, in false alarms, so that a run length is at least 10."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alert, with the position of the value that decided it and the row of the value's key."""

    position: int
    row: int
    alert: Alert


class RuleEvaluator:
    """The states of all rules on all keys, with their detectors in one table."""

    false_discovery_rate: float | None = None
    """Largest mean share of false alarms among the alarms of rules without a run length; None where it is unbounded."""

    def __init__(self, rules: tuple[AlertRule, ...], budget: Budget | None, origin: str = "") -> None:
        self._rules = rules
        self._origin = origin
        self.budget = budget
        # Rules and budgets that have periods.
        self._periods: Budget | AlarmLevel | None = budget
        self._table = DetectorTable()
        self._seasonal = SeasonalRules()
        self.adjusted = AdjustedRules(rules)
        """Rules that hold the mix of a segment fixed."""
        # Positions of the values of the present stretch at which rules fired or resolved.
        self._turns: dict[RuleState, list[int]] = {}
        self._states: list[list[RuleState]] = []
        # Per row: index of its first detector, and number of its detectors. Per detector: its rule state with its place
        # there, its row in the table, and whether it takes values.
        self._first = np.zeros(_CAPACITY, dtype=np.intp)
        self._count = np.zeros(_CAPACITY, dtype=np.intp)
        self._detectors: list[tuple[RuleState, int]] = []
        self._table_row = np.zeros(_CAPACITY, dtype=np.intp)
        self._active = np.zeros(_CAPACITY, dtype=bool)
        # Per detector: whether its statistic is a spread, and the number of detectors that share the cost of a value; 0
        # for a rule with a run length of its own, and while the rule is firing.
        self._spread = np.zeros(_CAPACITY, dtype=bool)
        self._share = np.zeros(_CAPACITY)
        # Per row: whether a rule learns a baseline, and the limits beyond which interactions are remembered.
        self._learning = np.zeros(_CAPACITY, dtype=bool)
        self._low = np.full(_CAPACITY, -1.0)
        self._high = np.full(_CAPACITY, 2.0)
        self._budgeted = np.zeros(_CAPACITY, dtype=np.intp)
        # Lengths of the windows for baselines, and the number of the present window of each length.
        self._sizes = {duration_ms(rule.baseline_window) for rule in rules if rule.baseline_window is not None}
        self._windows: dict[int, int] = {}

    def add_row(self, key: EstimateKey) -> None:
        """Add the rules on the key of the next row."""
        row = len(self._states)
        if row == self._first.size:
            for name in ("_first", "_count", "_learning", "_budgeted"):
                setattr(self, name, doubled(getattr(self, name)))
            self._low, self._high = doubled(self._low, -1.0), doubled(self._high, 2.0)
        states = [
            RuleState(rule, key, self._table, self._origin, self._seasonal.tables)
            for rule in self._rules
            if matches(rule, key)
        ]
        self._states.append(states)
        self._seasonal.add_row(row, states)
        self.adjusted.add_row(row, key, states)
        self._first[row] = len(self._detectors)
        for state in states:
            for place, detector in enumerate(state.detectors):
                if len(self._detectors) == self._table_row.size:
                    for name in ("_table_row", "_active", "_spread", "_share"):
                        setattr(self, name, doubled(getattr(self, name)))
                self._table_row[len(self._detectors)] = detector.row
                self._spread[len(self._detectors)] = detector.statistic.name == "spread"
                self.adjusted.set_detector(len(self._detectors), state, place)
                self._detectors.append((state, place))
        self._count[row] = len(self._detectors) - self._first[row]
        self._budgeted[row] = sum(state.rule.run_length is None for state in states)
        self.refresh(row)

    def of(self, row: int) -> list[RuleState]:
        """Return the states of the rules on a row."""
        return self._states[row]

    def firing(self) -> list[Alert]:
        """Return the alerts that fire, of all rows."""
        return [state.firing for states in self._states for state in states if state.firing is not None]

    def refresh(self, row: int) -> None:
        """Copy the changes of the rule states of a row into the arrays."""
        states = self._states[row]
        self._learning[row] = any(state.learns for state in states)
        limits = [state.limits() for state in states if state.looks_for_change]
        self._low[row] = max((low for low, _ in limits), default=-1.0)
        self._high[row] = min((high for _, high in limits), default=2.0)
        for index in range(self._first[row], self._first[row] + self._count[row]):
            state, place = self._detectors[index]
            self._active[index] = state.detectors[place].active
            self._share[index] = state.share if state.rule.run_length is None and state.looks_for_change else 0
            self._seasonal.set_limits(index, state, place)
        self._seasonal.refresh(row)

    def interrupts(self, time_ms: int) -> bool:
        """Return whether a period or a window begins at a time; all earlier values must be evaluated before it."""
        if self._periods is not None and self._periods.begins(time_ms):
            return True
        return any(time_ms // size > self._windows.get(size, -1) for size in self._sizes)

    def uninterrupted(self, times_ms: Times) -> int:
        """Return the number of values before the first value at which a period or a window begins."""
        breaks: list[float] = [(self._windows.get(size, -1) + 1) * size for size in self._sizes]
        if self._periods is not None:
            breaks.append(self._periods.next_ms)
        interrupting = np.flatnonzero(times_ms >= min(breaks)) if breaks else np.zeros(0, dtype=np.intp)
        return int(interrupting[0]) if interrupting.size else times_ms.size

    def begin(self, time_ms: int) -> list[int]:
        """Begin the periods and windows that begin at a time; return the rows whose rule states changed."""
        if self.budget is not None and self.budget.begins(time_ms):
            self.budget.begin(time_ms)
        begun = {size for size in self._sizes if time_ms // size > self._windows.get(size, -1)}
        changed = []
        for size in begun:
            ended, self._windows[size] = self._windows.get(size), time_ms // size
            # After a gap the window before this window is empty.
            followed = ended is not None and ended + 1 == time_ms // size
            changed += [row for row in range(len(self._states)) if self._next_window(row, size, followed=followed)]
        return changed

    def _next_window(self, row: int, size: int, *, followed: bool) -> bool:
        states = [state for state in self._states[row] if state.window_ms == size]
        for state in states:
            state.next_window(followed=followed)
        if states:
            self.refresh(row)
        return bool(states)

    def with_rules(self, rows: Rows) -> Rows:
        """Return the places of the rows that have rules."""
        return np.flatnonzero(self._count[rows])

    def evaluate(self, arrived: Sequence[Arrived]) -> list[Raised]:
        """Evaluate the rules on values of distinct keys; return the alerts with the parts that decided them."""
        raised: list[Raised] = []
        for stretch in self._seasonal.stretches(arrived):
            self._turns = {}
            for these in stretch:
                for row in (*self._seasonal.begin(these.values), *self.adjusted.take(these.values)):
                    self.refresh(row)
            raised += self._evaluate(stretch)
            for these in stretch:
                self._seasonal.learn(these.values, self._turns)
        return raised

    def _evaluate(self, arrived: Sequence[Arrived]) -> list[Raised]:
        """Evaluate the rules on values whose own limits are known."""
        raised = [
            replace(one, position=int(these.parts[one.position]))
            for these in arrived
            for one in self._update(these.values)
        ]
        return sorted(raised, key=lambda one: one.position)

    def _update(self, batch: RuleValues) -> list[Raised]:
        """Evaluate the rules on values, and return the alerts that they raise, in the order of the values."""
        if not self._detectors:
            return []
        raised: list[Raised] = []
        # The position after which a rule state takes values, if it does not take all.
        after = self._learn(batch)
        value_of, detector_of = self._expanded(batch.rows)
        taken = self._active[detector_of]
        if after:
            begins = np.array([after.get(state, -1) for state, _ in self._detectors])
            taken &= value_of > begins[detector_of]
        value_of, detector_of = value_of[taken], detector_of[taken]
        start, last = -1, batch.rows.size
        while value_of.size:
            first = self._first_alarms(batch, value_of, detector_of)
            until = {state: at for state, (at, _, _) in first.items()}
            self._remember(batch, _between(after, until, start, last), slice(0, last))
            after, start = until, last
            raised += [self._alarmed(batch, position, detector, alarm) for position, detector, alarm in first.values()]
            value_of, detector_of = self._rest(batch, after)
        return sorted(raised, key=lambda one: one.position)

    def costs(self, rows: Rows) -> Floats | None:
        """Return the cost of each value, in order, for a rule that shares the budget; None without a budget.

        A value has this cost even if no detector takes it.
        """
        if self.budget is None:
            return None
        counts = self._budgeted[rows]
        ends = np.cumsum(counts)
        spent = self.budget.spend(int(ends[-1]) if ends.size else 0)
        costs = np.zeros(rows.size)
        # All rules on one key have the same cost: the cost of the last rule, which is the lowest.
        some = counts > 0
        costs[some] = np.minimum(spent, MOST_AT_ONCE)[(ends - 1)[some]]
        return costs

    def _expanded(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return each value with each detector of its row, as places of values and indexes of detectors."""
        counts = self._count[rows]
        # Most rows have one detector.
        if np.all(counts == 1):
            return np.arange(rows.size), self._first[rows]
        value_of = np.repeat(np.arange(rows.size), counts)
        within = np.arange(value_of.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return value_of, self._first[rows][value_of] + within

    def _learn(self, batch: RuleValues) -> dict[RuleState, int]:
        """Give values one by one to the rules that learn; return the positions after which learned baselines hold."""
        begins: dict[RuleState, int] = {}
        for position in np.flatnonzero(self._learning[batch.rows]).tolist():
            row, values = int(batch.rows[position]), batch.learned(position)
            for state in self._states[row]:
                if state.learns and state.learn(values):
                    begins[state] = position
                    self.refresh(row)
        return begins

    def _first_alarms(
        self, batch: RuleValues, value_of: Rows, detector_of: Rows
    ) -> dict[RuleState, tuple[int, int, Alarm]]:
        """Update the detectors; return the first alarm of each rule, with its value and its detector."""
        limits, scale = self._own_limits(value_of, detector_of, batch.hours[value_of])
        if limits is not None:
            known = limits != WAITS
            value_of, detector_of, limits = value_of[known], detector_of[known], limits[known]
            scale = None if scale is None else scale.at_places(known)
        values, costs, sizes = self._steps(batch, value_of, detector_of)
        values, centers = (values, None) if scale is None else scale.applied(values)
        rows, times_ms = self._table_row[detector_of], batch.times_ms[value_of]
        alarms, _ = self._table.update(rows, values, times_ms, costs=costs, sizes=sizes, limits=limits, centers=centers)
        first: dict[RuleState, tuple[int, int, Alarm]] = {}
        for alarm in alarms:
            detector = int(detector_of[alarm.position])
            first.setdefault(self._detectors[detector][0], (int(value_of[alarm.position]), detector, alarm))
        return first

    def _own_limits(self, value_of: Rows, detector_of: Rows, hours: Rows) -> tuple[Floats | None, OnScale | None]:
        """Return the limit of each value for a detector, and the scale on which it has that limit.

        Args:
            value_of: positions of the values.
            detector_of: indexes of the detectors.
            hours: in which the values count.

        Returns:
            Limits, nan for that of the detector and `WAITS` if it is to wait, or None for nan everywhere; and the
            scale, or None if all values stay as they are.
        """
        return self.adjusted.limits(value_of, detector_of, self._seasonal.limits(detector_of, hours))

    def _steps(self, batch: RuleValues, value_of: Rows, detector_of: Rows) -> tuple[Floats, Floats, Rows | None]:
        """Return the input of detectors: the values of their statistics, the costs, and the sizes."""
        values = batch.values[value_of]
        spread = np.flatnonzero(self._spread[detector_of])
        for detector in np.unique(detector_of[spread]).tolist():
            state, number = self._detectors[detector]
            places = spread[detector_of[spread] == detector]
            squares = None if batch.mean_squares is None else batch.mean_squares[value_of[places]]
            values[places] = state.detectors[number].statistic.transformed(values[places], squares)
        each = self._table.costs(self._table_row[detector_of])
        sizes = None if batch.sizes is None else batch.sizes[value_of]
        if sizes is not None:
            each = each * sizes
        if batch.costs is not None:
            share = self._share[detector_of]
            each = np.where(share > 0, batch.costs[value_of] / np.maximum(share, 1), each)
        return values, each, sizes

    def _remember(self, batch: RuleValues, between: Callable[[RuleState], tuple[int, int]], part: slice) -> None:
        """Remember interactions beyond the alarm limits.

        Args:
            batch: values.
            between: the positions of each rule's values: after the first, up to the second.
            part: the values to look at.
        """
        rows = batch.rows[part]
        beyond = (batch.lowest[part] < self._low[rows]) | (batch.highest[part] > self._high[rows])
        beyond = np.flatnonzero(beyond) + part.start
        by_row = grouped(batch.rows[beyond])
        for row, first, count in zip(by_row.rows.tolist(), by_row.starts.tolist(), by_row.counts.tolist(), strict=True):
            places = beyond[by_row.order[first : first + count]]
            for state in self._states[row]:
                begin, end = between(state)
                if state.looks_for_change and begin < end:
                    self._remember_one(batch, state, places[(begin < places) & (places <= end)])

    def _remember_one(self, batch: RuleValues, state: RuleState, places: Rows) -> None:
        low, high = state.limits() if state.adjusted is None else self.adjusted.beyond(state, places)
        lowest, highest = batch.lowest[places], batch.highest[places]
        excess = np.fmax(low - lowest, highest - high)
        outside = (lowest < low) | (highest > high)
        places, excess, below = places[outside], excess[outside], (excess == low - lowest)[outside]
        for one in contenders(excess).tolist():
            place = int(places[one])
            of = batch.interaction_id(place, low=bool(below[one]))
            state.contributors.add(Contributor(int(batch.numbers[place]), float(excess[one]), of))

    def _alarmed(self, batch: RuleValues, position: int, detector: int, alarm: Alarm) -> Raised:
        state, number = self._detectors[detector]
        row = int(batch.rows[position])
        event = batch.source.event(int(batch.event_of[position]))
        rate = self.false_discovery_rate if state.rule.run_length is None else None
        self._turns.setdefault(state, []).append(position)
        at = Place(int(batch.numbers[position]), int(batch.hours[position]), position)
        alert = state.alarmed(state.detectors[number], alarm, at, event, rate=rate)
        self.refresh(row)
        return Raised(position, row, alert.model_copy(update={"n": int(batch.numbers[position])}))

    def _rest(self, batch: RuleValues, after: dict[RuleState, int]) -> tuple[Rows, Rows]:
        """Return the values after each rule's alarm, with the detectors that are active since the alarm."""
        found = [np.zeros((0, 2), dtype=np.intp)]
        for state, position in after.items():
            row = int(batch.rows[position])
            later = np.flatnonzero(batch.rows[position + 1 :] == row) + position + 1
            detectors = range(self._first[row], self._first[row] + self._count[row])
            found += [
                np.stack([later, np.full_like(later, detector)], axis=1)
                for detector in detectors
                if self._active[detector] and self._detectors[detector][0] is state
            ]
        values, detectors = np.concatenate(found).T
        order = np.lexsort((detectors, values))
        return values[order], detectors[order]

    def dump(self, row: int, number: int) -> dict[str, bytes]:
        """Return the rule states of a row, whose key has `number` values so far, by the names of their fields."""
        return {state.field: state.to_bytes(number) for state in self._states[row]}

    def dump_clock(self) -> bytes:
        """Return the budget and the present windows, for `load_clock`."""
        windows = {str(size): number for size, number in sorted(self._windows.items())}
        budget = None if self.budget is None else self.budget.to_bytes().hex()
        return json.dumps({"windows": windows, "budget": budget}).encode()

    def load_clock(self, data: bytes) -> None:
        """Set budget and windows to those that `dump_clock` returned."""
        state = json.loads(data)
        self._windows = {int(size): number for size, number in state["windows"].items() if int(size) in self._sizes}
        if self.budget is not None and state["budget"] is not None:
            self.budget.load(bytes.fromhex(state["budget"]))


def _between(
    after: dict[RuleState, int], until: dict[RuleState, int], start: int, last: int
) -> Callable[[RuleState], tuple[int, int]]:
    return lambda state: (after.get(state, start), until.get(state, last))
