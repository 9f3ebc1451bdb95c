"""Evaluates the alert rules on values in the order of their arrival, and returns the alerts that the rules raise."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import Alert, AlertRule
from ragtide_schemas.alert_rule import duration_ms

from ..events.batch import Times
from ..events.keys import EstimateKey
from ..statistics.drift.drift import Alarm, DetectorTable
from ..statistics.tables.batches import Floats, Rows, by_row, distinct
from ..statistics.tables.row_table import RowColumn, RowTable
from .adjusted_rules import AdjustedRules
from .baseline import Place
from .compared_values import ComparedValues
from .earlier_baseline import EarlierBaseline
from .levels import OwnLevel
from .rule_state import FirstAnswerCounts, RuleState, StoredRows, matches
from .rule_values import BEGINNINGS, WAITS, Arrived, Inputs, RuleValues, in_order
from .seasonal_rules import SeasonalRules

VALUES_AFTER_ALARM: Final = 500
"""Number of values that are evaluated at once after an alarm that changed a joint level: the next may follow soon."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An alert, with the position of the value that decided it and the row of the value's key."""

    position: int
    row: int
    alert: Alert


@dataclass(frozen=True, slots=True)
class TakenFirstAnswers:
    """The first answers among values that rules take; shape (n,)."""

    places: Rows
    """Places among the values, rising."""
    numbers: Rows
    """Number of each among the first answers of its key, from 1; of several together, that of the last."""
    answers: Rows
    """Number of answers whose costs each has: those of its key since the first answer before it."""
    costs: Floats | None
    """Sums of these costs, where they are known."""


class _RuleRows(RowTable, what="rules of a key", capacity=16):
    """Per row of the deployment: its detectors, and what its rules need of a value."""

    detectors = RowColumn(np.intp)
    """Index of its first detector."""
    count = RowColumn(np.intp)
    """Number of its detectors."""
    sharing = RowColumn(np.intp)
    """Number of its rules without a run length."""
    learning = RowColumn(np.bool_)
    """Whether a rule learns from single values."""
    first = RowColumn(np.bool_)
    """Whether a rule takes first answers of sessions."""
    low = RowColumn(np.float64, fill=-1.0)
    """Limit below which interactions are remembered."""
    high = RowColumn(np.float64, fill=2.0)


class _RuleDetectors(RowTable, what="detectors of rules", capacity=16):
    """Per detector of a rule on a key."""

    place = RowColumn(np.intp)
    """Its row in the table of detectors."""
    row = RowColumn(np.intp)
    """Row of its key."""
    first = RowColumn(np.intp)
    """Number of first answers of a session that it takes together; 0 if it takes whole clusters and single values."""
    active = RowColumn(np.bool_)
    """Whether it takes values."""
    transforms = RowColumn(np.bool_)
    """Whether its baseline makes its inputs from values."""
    share = RowColumn(np.float64)
    """Number of detectors that share the cost of a value; 0 for a rule with a run length of its own, and while the rule
    is firing."""
    hours = RowColumn(np.intp, fill=-1)
    """Row of its limits by hour; -1 without a seasonal baseline."""
    earlier = RowColumn(np.intp, fill=-1)
    """Row of the values before each value; -1 with another baseline."""
    watching = RowColumn(np.bool_)
    """Whether its rule looks for a change, and not for the end of one."""
    falls = RowColumn(np.bool_)
    """Whether it looks for a fall."""


class RuleEvaluator:
    """The states of all rules on all keys, with their detectors in one table.

    Values of all keys are evaluated together. After an alarm of a rule, the values that follow are evaluated again for
    this rule; with a joint level, for all rules.

    Args:
        level: of the rules without a run length; they have the default run length unless given.
        origin: makes alert ids of a split pipeline different in each partition.
    """

    def __init__(self, rules: tuple[AlertRule, ...], level: OwnLevel | None = None, origin: str = "") -> None:
        self._rules = rules
        self._origin = origin
        self.level = level or OwnLevel()
        self._table = DetectorTable()
        self._seasonal = SeasonalRules()
        self.adjusted = AdjustedRules(rules)
        """Rules that hold the mix of a segment fixed."""
        self._rows, self._numbers = _RuleRows(), _RuleDetectors()
        self._states: list[list[RuleState]] = []
        # Each detector is one of a rule state.
        self._detectors: list[tuple[RuleState, int]] = []
        self._detectors_of: dict[RuleState, slice] = {}
        # Lengths of the windows for baselines, and the number of the present window of each length.
        self._sizes = {duration_ms(rule.baseline_window) for rule in rules if rule.baseline_window is not None}
        self._windows: dict[int, int] = {}
        # Of the rows whose rules take first answers.
        self._first_counts: dict[int, dict[int, FirstAnswerCounts]] = {}
        self._compared = ComparedValues()
        self.firing_states: dict[RuleState, int] = {}
        """The states whose alerts fire, with their rows."""
        self.hour = 0
        """The newest hour of values, counted from 1970."""

    def add_row(self, key: EstimateKey, rules: Sequence[AlertRule] | None = None) -> int:
        """Add the rules on the key of the next row, those that match it unless given; return the row."""
        row, rows = self._rows.add_row(), self._rows
        rules = [rule for rule in self._rules if matches(rule, key)] if rules is None else rules
        shared = self._table, self._origin, self._seasonal.tables
        states = [RuleState(rule, key, *shared, compared=self._compared) for rule in rules]
        self._states.append(states)
        self._seasonal.add_row(states)
        self.adjusted.add_row(key, states)
        rows.sharing[row] = sum(state.rule.run_length is None for state in states)
        self._add_detectors(row)
        if states:
            self.refresh(row)
        return row

    def add_rows_without_rules(self, count: int) -> None:
        """Add rows without rules; much faster than one by one."""
        self._rows.add_rows(count)
        self._states += [[] for _ in range(count)]
        self._seasonal.add_rows_without_rules(count)
        self.adjusted.add_rows_without_rules(count)

    def _add_detectors(self, row: int) -> None:
        self._rows.detectors[row] = len(self._detectors)
        for state in self._states[row]:
            begin = len(self._detectors)
            for number, detector in enumerate(state.detectors):
                index = self._numbers.add_row()
                self._numbers.place[index], self._numbers.row[index] = detector.row, row
                self._numbers.first[index] = detector.first
                baseline = state.baseline_of(detector)
                self._numbers.transforms[index] = baseline.transforms
                self._numbers.earlier[index] = baseline.row if isinstance(baseline, EarlierBaseline) else -1
                self._numbers.falls[index] = detector.movement == "fall"
                self._numbers.hours[index] = self._seasonal.add_detector(state)
                self._detectors.append((state, number))
            self._detectors_of[state] = slice(begin, len(self._detectors))
        self._rows.count[row] = len(self._detectors) - self._rows.detectors[row]

    def begin_first_answers(self, row: int) -> None:
        """Let the rules of a row take first answers of sessions from now on, before these sessions are closed."""
        counts = self._first_counts.get(row) or {length: FirstAnswerCounts() for length in BEGINNINGS}
        # Each of them begins.
        if not sum(state.begin_first_answers(counts) for state in self._states[row]):
            return
        self._first_counts[row] = counts
        self._rows.first[row] = True
        earlier = slice(self._rows.detectors[row], self._rows.detectors[row] + self._rows.count[row])
        self._numbers.active[earlier] = False
        self._seasonal.begin_first_answers(row, self._states[row])
        self._add_detectors(row)
        self.refresh(row)

    def takes_first_answers(self, row: int) -> bool:
        """Return whether rules of a row take first answers of sessions."""
        return row in self._first_counts

    def first_answers(
        self, length: int, rows: Rows, is_first: NDArray[np.bool_], costs: Floats | None
    ) -> "TakenFirstAnswers":
        """Count answers of sessions, in order; return those with which a session has so many first answers.

        Args:
            length: number of first answers that count together, one of `BEGINNINGS`.
            is_first: whether each is the last one of so many first answers of its session.
            costs: of the values, of a rule that shares a level; None if they are not known yet.
        """
        owed = [0.0] * rows.size if costs is None else costs.tolist()
        entries: list[tuple[int, int, int, float]] = []
        for place, (row, first, cost) in enumerate(zip(rows.tolist(), is_first.tolist(), owed, strict=True)):
            of_row = self._first_counts.get(row)
            counts = None if of_row is None else of_row[length]
            charged = None if counts is None else counts.take(is_first=first, cost=cost)
            if counts is not None and charged is not None:
                entries.append((place, counts.n * length, *charged))
        places, numbers, answers, charged_costs = zip(*entries, strict=True) if entries else ((), (), (), ())
        return TakenFirstAnswers(
            np.array(places, dtype=np.intp),
            np.array(numbers, dtype=np.intp),
            np.array(answers, dtype=np.intp),
            None if costs is None else np.array(charged_costs, dtype=np.float64),
        )

    def of(self, row: int) -> list[RuleState]:
        """Return the states of the rules on a row."""
        return self._states[row]

    def evidence(self, rows: Rows) -> Floats:
        """Return the largest evidence of a change among the rules of each row, as a part of the line of its rule.

        It is 0 without a rule that looks for a change.
        """
        value_of, detector_of = self._expanded(rows)
        looking = self._numbers.active[detector_of] & self._numbers.watching[detector_of]
        largest = np.zeros(rows.size)
        np.maximum.at(largest, value_of[looking], self._table.evidence(self._numbers.place[detector_of[looking]]))
        return largest

    def firing(self) -> list[Alert]:
        """Return the alerts that fire, of all rows."""
        return [state.firing for states in self._states for state in states if state.firing is not None]

    def end_alert(self, state: RuleState) -> None:
        """Let a rule whose alert fires look for a change again, because the version of the alert has ended."""
        row = self.firing_states[state]
        state.end_alert()
        self._changed(row, state)

    def _changed(self, row: int, state: RuleState) -> None:
        self.firing_states.pop(state, None)
        if state.firing is not None:
            self.firing_states[state] = row
        self.refresh(row)

    def refresh(self, row: int) -> None:
        """Copy the changes of the rule states of a row into the arrays."""
        states, numbers = self._states[row], self._numbers
        self._rows.learning[row] = any(state.learns for state in states)
        limits = [state.baseline.beyond(state.whole) for state in states if state.looks_for_change]
        limits += [
            first.baseline.beyond(first.detectors)
            for state in states
            if state.looks_for_change
            for first in state.beginnings
        ]
        self._rows.low[row] = max((low for low, _ in limits), default=-1.0)
        self._rows.high[row] = min((high for _, high in limits), default=2.0)
        for index in range(self._rows.detectors[row], self._rows.detectors[row] + self._rows.count[row]):
            state, number = self._detectors[index]
            numbers.active[index] = state.detectors[number].active
            numbers.share[index] = state.share if state.rule.run_length is None and state.looks_for_change else 0
            numbers.watching[index] = state.looks_for_change
            self._seasonal.set_limits(int(numbers.hours[index]), state, number)
        self._seasonal.refresh(row)

    @property
    def _next_ms(self) -> float:
        windows = [(self._windows.get(size, -1) + 1) * size for size in self._sizes]
        return min(self.level.next_ms, *windows) if windows else self.level.next_ms

    def interrupts(self, time_ms: int) -> bool:
        """Return whether a period or a window begins at a time; all earlier values must be evaluated before it."""
        return time_ms >= self._next_ms

    def uninterrupted(self, times_ms: Times) -> int:
        """Return the number of values before the first value at which a period or a window begins."""
        interrupting = np.flatnonzero(times_ms >= self._next_ms)
        return int(interrupting[0]) if interrupting.size else times_ms.size

    def begin(self, time_ms: int) -> list[int]:
        """Begin the periods and windows that begin at a time; return the rows whose rule states changed."""
        changed: list[int] = []
        for size in {size for size in self._sizes if time_ms // size > self._windows.get(size, -1)}:
            ended, self._windows[size] = self._windows.get(size), time_ms // size
            # After a gap the window before this window is empty.
            followed = ended is not None and ended + 1 == time_ms // size
            for row, states in enumerate(self._states):
                of_window = [state for state in states if state.window_ms == size]
                for state in of_window:
                    state.next_window(followed=followed)
                if of_window:
                    self.refresh(row)
                    changed.append(row)
        if time_ms < self.level.next_ms:
            return changed
        numbers = self._numbers
        sharing = np.flatnonzero((numbers.share > 0) & numbers.active)
        evidence = self._table.evidence(numbers.place[sharing])
        # An exact sum, whatever the order of the rows.
        factor = self.level.begin(time_ms, lambda: fsum(evidence.tolist()))
        if factor != 1:
            sharing = sharing[evidence > 0]
            self._table.scale(numbers.place[sharing], factor)
            changed += np.unique(numbers.row[sharing]).tolist()
        return changed

    def with_rules(self, rows: Rows) -> Rows:
        """Return the places of the rows that have rules."""
        return np.flatnonzero(self._rows.count[rows])

    def costs(self, rows: Rows) -> Floats | None:
        """Return the cost of each arriving value, in order, for a rule that shares a level; None if it is not known.

        A value has this cost even if no detector takes it.
        """
        return self.level.costs_at_arrival(self._rows.sharing[rows])

    def evaluate(self, arrived: Sequence[Arrived]) -> list[Raised]:
        """Evaluate the rules on values of distinct keys; return the alerts with the parts that decided them."""
        if not self._detectors or not any(stretch.parts.size for stretch in arrived):
            return []
        values, parts = in_order(arrived)
        costs = self.level.costs_when_counted(self._rows.sharing[values.rows], values.charged)
        batch = Arrived(values if costs is None else replace(values, costs=costs), parts)
        raised = []
        for stretch in self._seasonal.stretches(batch):
            for row in (*self._seasonal.begin(stretch.values), *self.adjusted.take(stretch.values)):
                self.refresh(row)
            turns: dict[RuleState, list[int]] = {}
            alerts = sorted(self._walk(stretch.values, turns), key=lambda alert: alert.position)
            self._compared.settle()
            raised += [replace(alert, position=int(stretch.parts[alert.position])) for alert in alerts]
            self._seasonal.learn(stretch.values, turns)
        return raised

    def _walk(self, batch: RuleValues, turns: dict[RuleState, list[int]]) -> list[Raised]:
        raised: list[Raised] = []
        value_of, detector_of = self._expanded(batch.rows)
        # By detector: the last position that its rule has taken.
        done = self._learn(batch)
        at_once = batch.rows.size
        while value_of.size:
            start = int(done.min()) + 1
            stop = min(start + at_once, batch.rows.size)
            end = int(np.searchsorted(value_of, stop))
            value, detector = value_of[:end], detector_of[:end]
            taken = self._numbers.active[detector] & (value > done[detector])
            if self._first_counts:
                taken &= self._numbers.first[detector] == (0 if batch.first is None else batch.first[value])
            first = self._first_alarms(batch, value[taken], detector[taken])
            if self.level.is_joint and first:
                stop = min(position for position, _, _ in first.values()) + 1
            until = np.full_like(done, stop - 1)
            for state, (position, _, _) in first.items():
                until[self._detectors_of[state]] = position
            self._remember(batch, done, until, slice(start, stop))
            for state, (position, index, alarm) in first.items():
                alert = self._alarmed(batch, position, index, alarm)
                if alert is not None:
                    turns.setdefault(state, []).append(position)
                    raised.append(alert)
            done = np.maximum(done, until)
            at_once = 2 * at_once if not (self.level.is_joint and first) else VALUES_AFTER_ALARM
            # Only rules that alarmed have values left before the end, or all rules with a joint level.
            begin = int(np.searchsorted(value_of, done.min(), side="right"))
            value_of, detector_of = value_of[begin:], detector_of[begin:]
        return raised

    def _expanded(self, rows: Rows) -> tuple[Rows, Rows]:
        counts = self._rows.count[rows]
        # Most rows have one detector, or none if only their level is watched.
        if np.all(counts <= 1):
            ruled = np.flatnonzero(counts)
            return ruled, self._rows.detectors[rows[ruled]]
        value_of = np.repeat(np.arange(rows.size), counts)
        within = np.arange(value_of.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return value_of, self._rows.detectors[rows][value_of] + within

    def _learn(self, batch: RuleValues) -> NDArray[np.int64]:
        done = np.full(len(self._detectors), -1, dtype=np.int64)
        for row in np.unique(batch.rows[self._rows.first[batch.rows]]).tolist() if self._first_counts else ():
            for state in self._states[row]:
                state.begin_batch()
        for position in np.flatnonzero(self._rows.learning[batch.rows]).tolist():
            row, values = int(batch.rows[position]), batch.learned(position)
            length = 0 if batch.first is None else int(batch.first[position])
            for state in self._states[row]:
                # Detectors of the other kinds take the values before this one, too.
                if length and state.learn_first(length, values):
                    done[self._first_of(state, length)] = position
                    self.refresh(row)
                elif not length and state.learn(values):
                    done[self._whole_of(state)] = position
                    self.refresh(row)
        return done

    def _whole_of(self, state: RuleState) -> slice:
        begin = self._detectors_of[state].start
        return slice(begin, begin + len(state.whole))

    def _first_of(self, state: RuleState, length: int) -> slice:
        begin = self._whole_of(state).stop
        for first in state.beginnings:
            if first.length == length:
                return slice(begin, begin + len(first.detectors))
            begin += len(first.detectors)
        return slice(begin, begin)

    def _first_alarms(
        self, batch: RuleValues, value_of: Rows, detector_of: Rows
    ) -> dict[RuleState, tuple[int, int, Alarm]]:
        numbers = self._numbers
        values, limits, centers = self._inputs(batch, value_of, detector_of)
        if limits is not None:
            known = limits != WAITS
            value_of, detector_of, values, limits = value_of[known], detector_of[known], values[known], limits[known]
            centers = None if centers is None else centers[known]
        places, share = numbers.place[detector_of], numbers.share[detector_of]
        costs = self._table.costs(places)
        sizes = None if batch.sizes is None else batch.sizes[value_of]
        answers = None if batch.charged is None else batch.charged[value_of]
        if answers is not None:
            costs = costs * answers
        if batch.costs is not None:
            shared = batch.costs[value_of]
            costs = np.where((share > 0) & ~np.isnan(shared), shared / np.maximum(share, 1), costs)
        joint = self.level.is_joint
        alarms, _ = self._table.update(
            places,
            values,
            batch.times_ms[value_of],
            costs=costs,
            sizes=sizes,
            answers=answers,
            levels=np.where(share > 0, self.level.level, 1.0) if joint else None,
            looks=value_of if joint else None,
            limits=limits,
            centers=centers,
        )
        first: dict[RuleState, tuple[int, int, Alarm]] = {}
        for alarm in alarms:
            detector = int(detector_of[alarm.position])
            first.setdefault(self._detectors[detector][0], (int(value_of[alarm.position]), detector, alarm))
        return first

    def _inputs(self, batch: RuleValues, value_of: Rows, detector_of: Rows) -> Inputs:
        values, centers = batch.values[value_of], None
        limits = self._seasonal.limits(self._numbers.hours[detector_of], batch.hours[value_of])
        for mine, own in self._own_inputs(batch, value_of, detector_of):
            values[mine] = own.values
            if own.limits is not None:
                limits = np.full(values.size, np.nan) if limits is None else limits
                limits[mine] = own.limits
            if own.centers is not None:
                centers = np.zeros(values.size) if centers is None else centers
                centers[mine] = own.centers
        return Inputs(values, limits, centers)

    def _own_inputs(self, batch: RuleValues, value_of: Rows, detector_of: Rows) -> Iterator[tuple[Rows, Inputs]]:
        """Yield places of values that detectors take as their baselines make them, and these inputs."""
        numbers = self._numbers
        ranked = np.flatnonzero((numbers.earlier[detector_of] >= 0) & numbers.watching[detector_of])
        if ranked.size:
            detectors, which, _ = distinct(detector_of[ranked])
            rows, falls = numbers.earlier[detectors], numbers.falls[detectors]
            yield ranked, self._compared.inputs(rows, falls, batch, value_of[ranked], which)
        transformed = np.flatnonzero(numbers.transforms[detector_of])
        for index, places in by_row(detector_of[transformed]):
            mine = transformed[places]
            state, number = self._detectors[index]
            detector = state.detectors[number]
            own = state.baseline_of(detector).inputs(detector, batch, value_of[mine], watching=state.looks_for_change)
            yield mine, own

    def _remember(self, batch: RuleValues, after: NDArray[np.int64], until: NDArray[np.int64], part: slice) -> None:
        rows = batch.rows[part]
        beyond = (batch.lowest[part] < self._rows.low[rows]) | (batch.highest[part] > self._rows.high[rows])
        beyond = np.flatnonzero(beyond) + part.start
        if batch.first is None:
            self._remember_of(batch, beyond, after, until, length=0)
            return
        for length in (0, *BEGINNINGS):
            self._remember_of(batch, beyond[batch.first[beyond] == length], after, until, length=length)

    def _remember_of(
        self, batch: RuleValues, beyond: Rows, after: NDArray[np.int64], until: NDArray[np.int64], *, length: int
    ) -> None:
        for row, places in by_row(batch.rows[beyond]):
            for state in self._states[row]:
                if not state.looks_for_change or (length and not state.beginnings):
                    continue
                baseline, detectors, contributors = state.baseline, state.whole, state.contributors
                detector = self._detectors_of[state].start
                if length:
                    first = state.beginning(length)
                    baseline, detectors, contributors = first.baseline, first.detectors, first.contributors
                    detector = self._first_of(state, length).start
                begin, end = after[detector], until[detector]
                if begin < end:
                    mine = beyond[places[(begin < beyond[places]) & (beyond[places] <= end)]]
                    for contributor in batch.remembered(mine, *baseline.beyond(detectors, mine)):
                        contributors.add(contributor)

    def _alarmed(self, batch: RuleValues, position: int, detector: int, alarm: Alarm) -> Raised | None:
        state, number = self._detectors[detector]
        row = int(batch.rows[position])
        event = batch.source.event(int(batch.event_of[position]))
        at = Place(int(batch.numbers[position]), int(batch.hours[position]), position)
        rate = self.level.rate if state.rule.run_length is None else None
        alert = state.alarmed(state.detectors[number], alarm, at, event, rate=rate)
        if alert is None:
            return None
        self.level.count(int(self._numbers.share[detector] > 0))
        self._changed(row, state)
        return Raised(position, row, alert.model_copy(update={"n": int(batch.numbers[position])}))

    def load(self, row: int, state: RuleState, data: bytes) -> None:
        """Set a state of a row to what `dump` returned.

        Raises:
            ValueError: another version wrote it, or a number is not finite.
        """
        if RuleState.took_first_answers(data):
            self.begin_first_answers(row)
        state.load(data)
        self._changed(row, state)

    def dump(self, numbers: Mapping[int, int]) -> dict[str, bytes]:
        """Return the rule states of rows by the names of their fields.

        Args:
            numbers: by row the number of values that its key has so far.

        Raises: ValueError if a number of a detector is not finite.
        """
        states = [(state, number) for row, number in numbers.items() for state in self._states[row]]
        stored = StoredRows.of([state for state, _ in states], self._table, self._compared.table)
        return {state.field: state.to_bytes(number, stored) for state, number in states}

    def dump_clock(self) -> bytes:
        """Return the shared level, the present windows and the newest hour, for `load_clock`."""
        windows = {str(size): number for size, number in sorted(self._windows.items())}
        return json.dumps({"windows": windows, "hour": self.hour, **self.level.dump()}).encode()

    def load_clock(self, data: bytes) -> None:
        """Set level, windows and hour to those that `dump_clock` returned."""
        state = json.loads(data)
        self.hour = state.get("hour", 0)
        self._windows = {int(size): number for size, number in state["windows"].items() if int(size) in self._sizes}
        self.level.load(state)
