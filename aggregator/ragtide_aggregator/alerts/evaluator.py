"""All watches of a state: which values go to which detector, what each may cost, and what the alarms become."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ragtide_schemas import Alert, AlertRule
from ragtide_schemas.alert import duration_ms

from ..events.batch import Origins, Times
from ..events.keys import EstimateKey
from ..statistics.batches import Floats, Rows, grouped
from ..statistics.budget import Budget
from ..statistics.drift import Alarm, DetectorTable
from ..statistics.tables import doubled
from .contributors import Bad, contenders
from .rule_state import Watch, matches

_CAPACITY: Final = 16

MOST_AT_ONCE: Final = 0.1
"""Most of a false alarm that one value may cost: a run length of at least 10."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Values of many keys, in the order in which they came; arrays have shape (n,)."""

    rows: Rows
    """Row of each value's key."""
    values: Floats
    """The values, scaled to [0, 1]."""
    times_ms: Rows
    """Time of each value's interaction."""
    numbers: Rows
    """Which value of its key each one is, from 1."""
    event_of: Rows
    """Place of each value's event among the origins."""
    origins: Origins


@dataclass(frozen=True, slots=True)
class Raised:
    """An alert, and the value that decided it."""

    position: int
    row: int
    alert: Alert


class Watching:
    """The watches of every row, with their detectors in one table."""

    def __init__(self, rules: tuple[AlertRule, ...], budget: Budget | None, origin: str = "") -> None:
        self._rules = rules
        self._origin = origin
        self.budget = budget
        self._detectors = DetectorTable()
        self._watches: list[list[Watch]] = []
        # Per row of the state: its first leg and how many it has. Per leg: watch, detector, whether it takes values.
        self._first = np.zeros(_CAPACITY, dtype=np.intp)
        self._count = np.zeros(_CAPACITY, dtype=np.intp)
        self._legs: list[tuple[Watch, int]] = []
        self._detector = np.zeros(_CAPACITY, dtype=np.intp)
        self._active = np.zeros(_CAPACITY, dtype=bool)
        # Whether it looks at a spread; by how many the cost of a value is shared, 0 for a rule with a run length or one
        # that looks for the end of a change.
        self._spread = np.zeros(_CAPACITY, dtype=bool)
        self._share = np.zeros(_CAPACITY)
        # Per row: whether a watch of it takes values one by one, and beyond which values they are remembered.
        self._slow = np.zeros(_CAPACITY, dtype=bool)
        self._low = np.full(_CAPACITY, -1.0)
        self._high = np.full(_CAPACITY, 2.0)
        self._budgeted = np.zeros(_CAPACITY, dtype=np.intp)
        # Lengths of past windows that baselines are of, and the number of the present one of each.
        self._sizes = {duration_ms(rule.baseline_window) for rule in rules if rule.baseline_window is not None}
        self._windows: dict[int, int] = {}

    def add_row(self, key: EstimateKey) -> None:
        """Add the watches of the next row of the state."""
        row = len(self._watches)
        if row == self._first.size:
            for name in ("_first", "_count", "_slow", "_budgeted"):
                setattr(self, name, doubled(getattr(self, name)))
            self._low, self._high = doubled(self._low, -1.0), doubled(self._high, 2.0)
        watches = [Watch(rule, key, self._detectors, self._origin) for rule in self._rules if matches(rule, key)]
        self._watches.append(watches)
        self._first[row] = len(self._legs)
        for watch in watches:
            for place, leg in enumerate(watch.legs):
                if len(self._legs) == self._detector.size:
                    for name in ("_detector", "_active", "_spread", "_share"):
                        setattr(self, name, doubled(getattr(self, name)))
                self._detector[len(self._legs)] = leg.row
                self._spread[len(self._legs)] = leg.quantity.name == "spread"
                self._legs.append((watch, place))
        self._count[row] = len(self._legs) - self._first[row]
        self._budgeted[row] = sum(watch.rule.run_length is None and watch.peer is None for watch in watches)
        self.refresh(row)

    def of(self, row: int) -> list[Watch]:
        """Return the watches of a row."""
        return self._watches[row]

    def refresh(self, row: int) -> None:
        """Take over what changed in the watches of a row."""
        watches = self._watches[row]
        self._slow[row] = any(watch.learns or watch.peer is not None for watch in watches)
        lines = [watch.lines() for watch in watches if watch.watching]
        self._low[row] = max((low for low, _ in lines), default=-1.0)
        self._high[row] = min((high for _, high in lines), default=2.0)
        for index in range(self._first[row], self._first[row] + self._count[row]):
            watch, place = self._legs[index]
            self._active[index] = watch.legs[place].active
            self._share[index] = watch.share if watch.rule.run_length is None and watch.watching else 0

    def interrupts(self, time_ms: int) -> bool:
        """Return whether a period or a window begins with a time: all values before it are to be taken first."""
        if self.budget is not None and self.budget.begins(time_ms):
            return True
        return any(time_ms // size > self._windows.get(size, -1) for size in self._sizes)

    def uninterrupted(self, times_ms: Times) -> int:
        """Return how many values at these times may be taken together: those before the first that interrupts."""
        breaks: list[float] = [(self._windows.get(size, -1) + 1) * size for size in self._sizes]
        if self.budget is not None:
            breaks.append(self.budget.next_ms)
        interrupting = np.flatnonzero(times_ms >= min(breaks)) if breaks else np.zeros(0, dtype=np.intp)
        return int(interrupting[0]) if interrupting.size else times_ms.size

    def begin(self, time_ms: int) -> list[int]:
        """Begin the periods and windows that begin with a time; return the rows whose watches changed."""
        if self.budget is not None and self.budget.begins(time_ms):
            self.budget.begin(time_ms)
        begun = {size for size in self._sizes if time_ms // size > self._windows.get(size, -1)}
        changed = []
        for size in begun:
            ended, self._windows[size] = self._windows.get(size), time_ms // size
            # After a gap the window before this one is empty.
            followed = ended is not None and ended + 1 == time_ms // size
            changed += [row for row in range(len(self._watches)) if self._next_window(row, size, followed=followed)]
        return changed

    def _next_window(self, row: int, size: int, *, followed: bool) -> bool:
        mine = [watch for watch in self._watches[row] if watch.window_ms == size]
        for watch in mine:
            watch.next_window(followed=followed)
        if mine:
            self.refresh(row)
        return bool(mine)

    def watched(self, rows: Rows) -> Rows:
        """Return the places of rows that have watches."""
        return np.flatnonzero(self._count[rows])

    def update(self, batch: Batch) -> list[Raised]:
        """Give values to the watches, and return the alerts that they raise, in the order of the values."""
        if not self._legs:
            return []
        costs = self._costs(batch)
        raised: list[Raised] = []
        # For each watch, the position after which it takes values.
        after = self._slowly(batch, raised)
        value_of, leg_of = self._expanded(batch.rows)
        taken = self._active[leg_of]
        if after:
            begins = np.array([after.get(watch, -1) for watch, _ in self._legs])
            taken &= value_of > begins[leg_of]
        value_of, leg_of = value_of[taken], leg_of[taken]
        everything = True
        while value_of.size:
            first = self._first_alarms(batch, value_of, leg_of, costs)
            self._remember(batch, after, {watch: at for watch, (at, _, _) in first.items()}, everything=everything)
            after, everything = {watch: at for watch, (at, _, _) in first.items()}, False
            raised += [self._alarmed(batch, position, leg, alarm) for position, leg, alarm in first.values()]
            value_of, leg_of = self._rest(batch, after)
        return sorted(raised, key=lambda one: one.position)

    def _costs(self, batch: Batch) -> Floats | None:
        """Return what each value may cost a watch that has its share of the budget; it counts whatever they do."""
        if self.budget is None:
            return None
        counts = self._budgeted[batch.rows]
        ends = np.cumsum(counts)
        spent = self.budget.spend(int(ends[-1]) if ends.size else 0)
        costs = np.zeros(batch.rows.size)
        # The watches of one key cost the same: what the last of them does, which is the least.
        some = counts > 0
        costs[some] = np.minimum(spent, MOST_AT_ONCE)[(ends - 1)[some]]
        return costs

    def _expanded(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return each value with each leg of its row: places of the value, and of the leg."""
        counts = self._count[rows]
        # Most often one each.
        if np.all(counts == 1):
            return np.arange(rows.size), self._first[rows]
        value_of = np.repeat(np.arange(rows.size), counts)
        within = np.arange(value_of.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return value_of, self._first[rows][value_of] + within

    def _slowly(self, batch: Batch, raised: list[Raised]) -> dict[Watch, int]:
        """Give values one by one to watches that learn and to peers; return where those that learned enough begin."""
        begins: dict[Watch, int] = {}
        for position in np.flatnonzero(self._slow[batch.rows]).tolist():
            row, value = int(batch.rows[position]), float(batch.values[position])
            for watch in self._watches[row]:
                if watch.peer is not None:
                    event = partial(batch.origins.event, int(batch.event_of[position]))
                    alert = watch.peer_update(value, event, int(batch.times_ms[position]))
                    if alert is not None:
                        raised.append(Raised(position, row, alert))
                elif watch.learns and watch.learn(value):
                    begins[watch] = position
                    self.refresh(row)
        return begins

    def _first_alarms(
        self, batch: Batch, value_of: Rows, leg_of: Rows, costs: Floats | None
    ) -> dict[Watch, tuple[int, int, Alarm]]:
        """Let the detectors take values, and return for each watch that is alarmed the first: value, leg, and alarm."""
        detectors = self._detector[leg_of]
        values = batch.values[value_of]
        spread = np.flatnonzero(self._spread[leg_of])
        for leg in np.unique(leg_of[spread]).tolist():
            watch, number = self._legs[leg]
            mine = spread[leg_of[spread] == leg]
            values[mine] = watch.legs[number].quantity.taken(values[mine])
        each = self._detectors.costs(detectors)
        if costs is not None:
            share = self._share[leg_of]
            each = np.where(share > 0, costs[value_of] / np.maximum(share, 1), each)
        alarms, _ = self._detectors.update(detectors, values, batch.times_ms[value_of], costs=each)
        first: dict[Watch, tuple[int, int, Alarm]] = {}
        for alarm in alarms:
            leg = int(leg_of[alarm.position])
            first.setdefault(self._legs[leg][0], (int(value_of[alarm.position]), leg, alarm))
        return first

    def _remember(self, batch: Batch, after: dict[Watch, int], until: dict[Watch, int], *, everything: bool) -> None:
        """Remember interactions beyond the lines, of each watch after and up to the values given for it."""
        beyond = np.flatnonzero((batch.values < self._low[batch.rows]) | (batch.values > self._high[batch.rows]))
        last = batch.rows.size
        start = -1 if everything else last
        by_row = grouped(batch.rows[beyond])
        for row, first, count in zip(by_row.rows.tolist(), by_row.starts.tolist(), by_row.counts.tolist(), strict=True):
            places = beyond[by_row.order[first : first + count]]
            for watch in self._watches[row]:
                begin, end = after.get(watch, start), until.get(watch, last)
                if watch.watching and begin < end:
                    self._remember_one(batch, watch, places[(begin < places) & (places <= end)])

    def _remember_one(self, batch: Batch, watch: Watch, places: Rows) -> None:
        low, high = watch.lines()
        values = batch.values[places]
        badness = np.where(values < low, low - values, values - high)
        outside = (values < low) | (values > high)
        places, badness = places[outside], badness[outside]
        for one in contenders(badness).tolist():
            place = places[one]
            of = batch.origins.interaction_id(int(batch.event_of[place]))
            watch.observed(Bad(int(batch.numbers[place]), float(badness[one]), of))

    def _alarmed(self, batch: Batch, position: int, leg: int, alarm: Alarm) -> Raised:
        watch, number = self._legs[leg]
        row = int(batch.rows[position])
        event = batch.origins.event(int(batch.event_of[position]))
        alert = watch.alarmed(watch.legs[number], alarm, int(batch.numbers[position]), event)
        self.refresh(row)
        return Raised(position, row, alert.model_copy(update={"n": int(batch.numbers[position])}))

    def _rest(self, batch: Batch, after: dict[Watch, int]) -> tuple[Rows, Rows]:
        """Return the values after their alarms with the legs of their watches as they are now."""
        found = [np.zeros((0, 2), dtype=np.intp)]
        for watch, position in after.items():
            row = int(batch.rows[position])
            later = np.flatnonzero(batch.rows[position + 1 :] == row) + position + 1
            legs = range(self._first[row], self._first[row] + self._count[row])
            mine = [leg for leg in legs if self._active[leg] and self._legs[leg][0] is watch]
            found += [np.stack([later, np.full_like(later, leg)], axis=1) for leg in mine]
        values, legs = np.concatenate(found).T
        order = np.lexsort((legs, values))
        return values[order], legs[order]

    def dump(self, row: int, number: int) -> dict[str, bytes]:
        """Return the watches of a row by the names of their fields; `number` is which value of its key was the last."""
        return {watch.field: watch.to_bytes(number) for watch in self._watches[row]}

    def dump_clock(self) -> bytes:
        """Return the budget and the windows that have begun."""
        windows = {str(size): number for size, number in sorted(self._windows.items())}
        budget = None if self.budget is None else self.budget.to_bytes().hex()
        return json.dumps({"windows": windows, "budget": budget}).encode()

    def load_clock(self, data: bytes) -> None:
        """Take on what `dump_clock` returned."""
        state = json.loads(data)
        self._windows = {int(size): number for size, number in state["windows"].items() if int(size) in self._sizes}
        if self.budget is not None and state["budget"] is not None:
            self.budget.load(bytes.fromhex(state["budget"]))
