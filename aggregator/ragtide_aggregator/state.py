"""The aggregator's state: what every metric event so far adds up to. No clock, no I/O."""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_schemas import Alert, AlertRule, MetricEvent, to_milliseconds, value_range
from ragtide_schemas.diagnosis import PATTERNS, Score, diagnose

from .keys import HIDDEN, LATENCY, UNBOUNDED, EstimateKey, PairKey
from .observations import (
    Observations,
    Pair,
    estimate_key,
    gold_observations,
    observations,
    pair_key,
    scopes_of,
)
from .panes import PaneBook
from .statistics.batches import Floats, Rows, grouped
from .statistics.budget import Budget
from .statistics.moments import MomentTable
from .statistics.prediction_powered import PairTable
from .statistics.quantiles import Quantiles
from .statistics.tables import doubled
from .statistics.windows import Panes
from .watch import Watch
from .watching import Batch, Raised, Watching

AT_ONCE: Final = 20_000
"""Values that are gathered before they are worked on."""

_ROW_FIELD = "estimate:"
_PANE_FIELD = "pane:"
_PROCESSED_FIELD = "processed:"
_PAIR_FIELD = "pair:"
_QUANTILES_FIELD = "quantiles:"
_WATCH_FIELD = "watch:"
_CLOCK_FIELD = "clock"
_COUNTS = struct.Struct("<3QqQ")
_CAPACITY = 64


NO_WINDOWS: Final = Panes((), 0)


@dataclass(frozen=True, slots=True)
class AlertBudget:
    """At most so many false alarms in a period, over all rules and keys that have no run length of their own."""

    false_alarms: float
    period_ms: int


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What is kept: the alert rules and their budget, segment values, windows, and quantiles."""

    rules: tuple[AlertRule, ...] = ()
    segments: bool = True
    panes: Panes = NO_WINDOWS
    budget: AlertBudget | None = None
    quantiles: bool = True


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the last time: for one commit."""

    keys: Sequence[EstimateKey] = ()
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    alerts: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where what events of one kind bring belongs."""

    rows: list[int]
    """Rows of the values, scope by scope, and then of what labeling took."""
    absent: list[int]
    usage: bool
    """Whether what labeling cost is among them."""


class Kind(Enum):
    """What an event is to the state."""

    SCORED = "scored"
    JUDGED = "judged"
    """The judge's part of it."""
    GRADED = "graded"
    """Gold scores that came later."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An event, or a part of it, and when it was."""

    event: MetricEvent
    n_values: int
    time_ms: int
    processed_ms: int
    late: bool
    out_of_order: bool


class _Queue:
    """What was added and is not worked on yet."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.rows: list[int] = []
        self.values: list[float] = []
        self.absent: list[int] = []
        self.absent_of: list[int] = []
        self.pairs: list[tuple[int, Pair]] = []

    def add(self, part: _Part, rows: list[int], values: list[float], absent: list[int]) -> None:
        """Add what a part brings."""
        if absent:
            self.absent += absent
            self.absent_of += [len(self.parts)] * len(absent)
        self.parts.append(part)
        self.rows += rows
        self.values += values


class AggregatorState:
    """Moments of every key in arrays, one row per key, and what else is kept of it.

    `apply` adds one event or, if it raises, changes nothing. Events are gathered, and worked on many at once as soon as
    there are enough of them or somebody looks. The result does not depend on how they were cut into batches, so a
    restart from any checkpoint continues to the bit.
    """

    def __init__(self, options: StateOptions) -> None:
        self._options = options
        self._budget = None if options.budget is None else Budget(options.budget.false_alarms, options.budget.period_ms)
        # Values are checked when they are observed; what labeling took has no highest value.
        self._moments = MomentTable(bounded=False)
        self._watching = Watching(options.rules, self._budget)
        self.panes = PaneBook(options.panes) if options.panes.windows else None
        self._pairs = PairTable()
        self._quantiles: dict[int, Quantiles] = {}
        self.keys: list[EstimateKey] = []
        self.pair_keys: list[PairKey] = []
        self._index: dict[EstimateKey, int] = {}
        self._pair_index: dict[PairKey, int] = {}
        self._pairs_of: defaultdict[int, list[int]] = defaultdict(list)
        self._plans: dict[tuple[object, ...], _Plan] = {}
        # Per row: absent, late and out of order; newest event time; size of the finite population, 0 without one.
        self._counts = np.zeros((3, _CAPACITY), dtype=np.int64)
        self._updated_ms = np.zeros(_CAPACITY, dtype=np.int64)
        self._population = np.zeros(_CAPACITY, dtype=np.int64)
        self._newest_ms: dict[tuple[str, str | None], int] = {}
        self._changed: set[int] = set()
        self._changed_pairs: set[int] = set()
        self._alerts: list[Alert] = []
        self._gone: list[str] = []
        self._queue = _Queue()

    def __len__(self) -> int:
        return len(self.keys)

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key, None if no event has had it."""
        return self._index.get(key)

    @property
    def moments(self) -> MomentTable:
        """Moments of every row."""
        self._work()
        return self._moments

    @property
    def pairs(self) -> PairTable:
        """Pairs of true and cheap scores of every row of `pair_keys`."""
        self._work()
        return self._pairs

    def counts(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """Return how often the metric of rows was absent, came too late for its window, and out of order."""
        self._work()
        absent, late, out_of_order = self._counts[:, rows]
        return absent, late, out_of_order

    def updated_ms(self, rows: Rows) -> NDArray[np.int64]:
        """Return the times of the newest interactions of rows."""
        self._work()
        return self._updated_ms[rows]

    def population_sizes(self, rows: Rows) -> NDArray[np.int64]:
        """Return the sizes of the finite runs that rows are of, 0 without one."""
        self._work()
        return self._population[rows]

    def newest_ms(self, key: EstimateKey) -> int:
        """Return the time of the newest interaction of a key's pipeline and run."""
        return self._newest_ms.get((key.pipeline, key.run), 0)

    def quantiles(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values, None where they are not kept."""
        self._work()
        return self._quantiles.get(row)

    def pairs_of(self, row: int) -> list[int]:
        """Return the rows of the pairs whose cheap score is that of a row."""
        return self._pairs_of.get(row, [])

    def apply(self, event: MetricEvent, processed_ms: int | None = None) -> None:
        """Add one metric event.

        Args:
            event: what to add.
            processed_ms: when it was scored; the time it says unless given.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        judgement = event.judgement() if event.judged is not None else None
        parts = [(part, observations(part)) for part in (event, judgement) if part is not None]
        # All were looked at before any is added.
        for (part, found), kind in zip(parts, (Kind.SCORED, Kind.JUDGED), strict=False):
            self._add(part, found, processed_ms, kind)

    def apply_gold(self, event: MetricEvent, gold_scores: Mapping[str, float]) -> None:
        """Add gold scores that came later to an event that has been applied, as if the event had brought them.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        parts = [part for part in (event, event.judgement()) if part is not None]
        for part, found in [(part, gold_observations(part, gold_scores)) for part in parts]:
            if found.names:
                self._add(part, found, None, Kind.GRADED)

    def _add(self, event: MetricEvent, found: Observations, processed_ms: int | None, kind: "Kind") -> None:
        processed_ms = to_milliseconds(event.labeled_at) if processed_ms is None else processed_ms
        # A clock that runs ahead must not close the windows of everybody else.
        time_ms = min(to_milliseconds(event.occurred_at), processed_ms)
        if self._watching.interrupts(time_ms):
            self._work()
            self._changed.update(self._watching.begin(time_ms))
        scopes = scopes_of(event, segments=self._options.segments)
        plan = self._plan(event, found, scopes, kind)
        scope = (event.pipeline, event.run)
        newest = self._newest_ms.get(scope, time_ms)
        self._newest_ms[scope] = max(newest, time_ms)
        panes = self._options.panes
        late = self.panes is not None and panes.late(time_ms, newest)
        values = found.values * len(scopes)
        if kind is Kind.SCORED:
            values.append(event.latency_s)
            if plan.usage:
                values.append(event.cost_usd)
        part = _Part(event, len(plan.rows), time_ms, processed_ms, late=late, out_of_order=time_ms < newest)
        self._queue.add(part, plan.rows, values, plan.absent)
        for pair in found.pairs:
            for segment in scopes:
                self._queue.pairs.append((self._pair(event, segment, pair), pair))
        if event.population_size is not None:
            self._population[plan.rows + plan.absent] = event.population_size
        if len(self._queue.values) >= AT_ONCE:
            self._work()

    def _plan(self, event: MetricEvent, found: Observations, scopes: tuple[str | None, ...], kind: "Kind") -> _Plan:
        # Events of one pipeline and segment touch the same rows again and again.
        absent = tuple(event.absent) if kind is not Kind.GRADED else ()
        usage = bool(event.prompts) or event.judged is not None
        seen = (
            kind, event.pipeline, event.run, scopes, event.profile, event.labeler, event.labeler_version,
            found.names, absent, usage,
        )  # fmt: skip
        plan = self._plans.get(seen)
        if plan is None:
            rows = [self._row(estimate_key(event, segment, name)) for segment in scopes for name in found.names]
            missing = [self._row(estimate_key(event, segment, name)) for segment in scopes for name in absent]
            if kind is Kind.SCORED:
                rows += [self._row(estimate_key(event, None, name)) for name in (UNBOUNDED if usage else (LATENCY,))]
            plan = self._plans[seen] = _Plan(rows, missing, usage)
        return plan

    def _row(self, key: EstimateKey) -> int:
        row = self._index.get(key)
        if row is not None:
            return row
        row = self._moments.add_row()
        if row == self._updated_ms.size:
            self._counts = doubled(self._counts, axis=1)
            self._updated_ms, self._population = doubled(self._updated_ms), doubled(self._population)
        self.keys.append(key)
        self._watching.add_row(key)
        self._index[key] = row
        if self._options.quantiles and key.segment is None and not key.metric.startswith(HIDDEN):
            self._quantiles[row] = Quantiles()
        return row

    def _pair(self, event: MetricEvent, segment: str | None, pair: Pair) -> int:
        key = pair_key(event, segment, pair)
        index = self._pair_index.get(key)
        if index is None:
            index = self._pair_index[key] = self._pairs.add_row()
            self.pair_keys.append(key)
            self._pairs_of[self._row(key.cheap)].append(index)
        return index

    def _work(self) -> None:
        """Work on what was gathered."""
        queue, self._queue = self._queue, _Queue()
        if not queue.parts:
            return
        parts = queue.parts
        rows, values = np.array(queue.rows, dtype=np.intp), np.array(queue.values)
        part_of = np.repeat(np.arange(len(parts)), [part.n_values for part in parts])
        times = np.array([part.time_ms for part in parts], dtype=np.int64)
        raised = self._watch(queue, rows, values, part_of, times)
        before = self._learn(rows, values, part_of, raised)
        absent, absent_of = np.array(queue.absent, dtype=np.intp), np.array(queue.absent_of, dtype=np.intp)
        self._count(parts, rows, part_of, absent)
        np.maximum.at(self._updated_ms, rows, times[part_of])
        np.maximum.at(self._updated_ms, absent, times[absent_of])
        if self.panes is not None:
            self._add_panes(self.panes, parts, (rows, values, part_of, before), (absent, absent_of))
        self._sketch(rows, values)
        self._add_pairs(queue.pairs)
        self._changed.update(rows.tolist(), absent.tolist())

    def _watch(
        self, queue: _Queue, rows: Rows, values: Floats, part_of: Rows, times: NDArray[np.int64]
    ) -> list[Raised]:
        if not self._options.rules or not rows.size:
            return []
        batch = grouped(rows)
        numbers = np.empty_like(rows)
        numbers[batch.order] = batch.occurrence + 1
        numbers += self._moments.counts(rows)
        events = [part.event for part in queue.parts]
        return self._watching.update(Batch(rows, values, times[part_of], numbers, part_of, events))

    def _learn(self, rows: Rows, values: Floats, part_of: Rows, raised: list[Raised]) -> Floats:
        """Add the values to the moments, and the alerts with what was known when they were raised."""
        before = np.empty(values.shape)
        start = 0
        for one in raised:
            end = int(np.searchsorted(part_of, part_of[one.position], side="right"))
            if end > start:
                before[start:end] = self._moments.update(rows[start:end], values[start:end])
                start = end
            alert = one.alert
            if alert.status == "firing":
                alert = alert.model_copy(update={"diagnosis": self._diagnosis(self.keys[one.row])})
            self._alerts.append(alert)
        before[start:] = self._moments.update(rows[start:], values[start:])
        return before

    def _diagnosis(self, key: EstimateKey) -> tuple[str, ...]:
        """Return what the recent scores of a scope suggest; the mean since the first would lag behind the alert."""
        recent = {}
        for metric in sorted({metric for pattern in PATTERNS for metric in pattern.conditions}):
            row = self._index.get(key._replace(metric=metric))
            if row is not None and self._moments.n(row):
                lowest, highest = value_range(metric)
                recent[metric] = Score(lowest + (highest - lowest) * self._moments.recent(row))
        return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))

    def _count(self, parts: list[_Part], rows: Rows, part_of: Rows, absent: Rows) -> None:
        late = np.array([part.late for part in parts])[part_of]
        out_of_order = np.array([part.out_of_order for part in parts])[part_of]
        for counts, which in zip(self._counts, (absent, rows[late], rows[out_of_order]), strict=True):
            np.add.at(counts, which, 1)

    def _add_panes(
        self,
        panes: PaneBook,
        parts: list[_Part],
        observed: tuple[Rows, Floats, Rows, Floats],
        absent: tuple[Rows, Rows],
    ) -> None:
        of = self._options.panes
        pane = np.array([-1 if part.late else of.pane(part.time_ms) for part in parts], dtype=np.intp)
        processed = np.array([of.pane(part.processed_ms) for part in parts], dtype=np.intp)
        rows, values, part_of, before = observed
        in_time = pane[part_of] >= 0
        panes.add(rows[in_time], pane[part_of][in_time], values[in_time], before[in_time])
        panes.processed(rows, processed[part_of])
        missing, missing_of = absent
        in_time = pane[missing_of] >= 0
        panes.absent(missing[in_time], pane[missing_of][in_time])

    def _sketch(self, rows: Rows, values: Floats) -> None:
        if not self._quantiles:
            return
        batch = grouped(rows)
        ordered = values[batch.order].tolist()
        for row, start, count in zip(batch.rows.tolist(), batch.starts.tolist(), batch.counts.tolist(), strict=True):
            sketch = self._quantiles.get(row)
            if sketch is not None:
                sketch.add(ordered[start : start + count])

    def _add_pairs(self, gathered: list[tuple[int, Pair]]) -> None:
        if not gathered:
            return
        index = np.array([place for place, _ in gathered], dtype=np.intp)
        true, cheap, probability = (
            np.array([getattr(pair, name) for _, pair in gathered]) for name in ("true", "cheap", "probability")
        )
        self._pairs.update(index, true, cheap, probability)
        self._changed_pairs.update(index.tolist())
        self._changed.update(self._index[self.pair_keys[place].cheap] for place in index.tolist())

    def take_changes(self) -> Changes:
        """Return what changed since the last call, for a commit, and forget it."""
        self._work()
        changed = sorted(self._changed)
        fields: dict[str, bytes] = {}
        for row in changed:
            name = self.keys[row].encode()
            counts = _COUNTS.pack(
                *self._counts[:, row].tolist(), int(self._updated_ms[row]), int(self._population[row])
            )
            fields[_ROW_FIELD + name] = counts + self._moments.to_bytes(row)
            fields |= {_WATCH_FIELD + at: data for at, data in self._watching.dump(row, self._moments.n(row)).items()}
            if row in self._quantiles:
                fields[_QUANTILES_FIELD + name] = self._quantiles[row].to_bytes()
        for place in sorted(self._changed_pairs):
            fields[_PAIR_FIELD + self.pair_keys[place].encode()] = self._pairs.to_bytes(place)
        gone = self._gone
        if self.panes is not None:
            written, dropped = self.panes.take_changes()
            fields |= {self._pane_field(row, pane): data for (row, pane), data in written.items()}
            gone = gone + [self._pane_field(row, pane) for row, pane in dropped]
            fields |= {self._processed_field(row): data for row, data in self.panes.take_processed().items()}
        if changed:
            fields[_CLOCK_FIELD] = self._watching.dump_clock()
        changes = Changes([self.keys[row] for row in changed], fields, gone, self._alerts)
        self._changed, self._changed_pairs, self._gone, self._alerts = set(), set(), [], []
        return changes

    def _processed_field(self, row: int) -> str:
        return f"{_PROCESSED_FIELD}{self._options.panes.pane_ms}:{self.keys[row].encode()}"

    def _pane_field(self, row: int, pane: int) -> str:
        return f"{_PANE_FIELD}{self._options.panes.pane_ms}:{pane}:{self.keys[row].encode()}"

    @classmethod
    def from_fields(cls, options: StateOptions, fields: Mapping[str, bytes]) -> "AggregatorState":
        """Return the state that the fields of a checkpoint hold.

        A watch whose rule was removed or changed is dropped; if its alert was firing, the alert resolves. Panes of
        another length than now are dropped as well.

        Raises:
            ValueError: a field was written by another version.
        """
        state = cls(options)
        by_kind: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
        for name, data in fields.items():
            kind, _, rest = name.partition(":")
            by_kind[kind].append((rest, data))
        for rest, data in by_kind["estimate"]:
            state._load_row(EstimateKey.decode(rest), data)
        for rest, data in by_kind["pair"]:
            state._load_pair(PairKey.decode(rest), data)
        for rest, data in by_kind["quantiles"]:
            row = state._row(EstimateKey.decode(rest))
            if row in state._quantiles:
                state._quantiles[row] = Quantiles.from_bytes(data)
        for rest, data in by_kind["pane"]:
            state._load_pane(rest, data)
        for rest, data in by_kind["processed"]:
            length, _, name = rest.partition(":")
            if state.panes is None or int(length) != options.panes.pane_ms:
                state._gone.append(_PROCESSED_FIELD + rest)
            else:
                state.panes.load_processed(state._row(EstimateKey.decode(name)), data)
        if state.panes is not None:
            state.panes.take_changes()
        for _, data in by_kind[_CLOCK_FIELD]:
            state._watching.load_clock(data)
        state._load_watches(by_kind["watch"])
        return state

    def _load_row(self, key: EstimateKey, data: bytes) -> None:
        row = self._row(key)
        *counts, self._updated_ms[row], self._population[row] = _COUNTS.unpack_from(data)
        self._counts[:, row] = counts
        self._moments.load(row, data[_COUNTS.size :])
        scope = (key.pipeline, key.run)
        self._newest_ms[scope] = max(self._newest_ms.get(scope, 0), int(self._updated_ms[row]))

    def _load_pair(self, key: PairKey, data: bytes) -> None:
        index = self._pair_index[key] = self._pairs.add_row()
        self.pair_keys.append(key)
        self._pairs_of[self._row(key.cheap)].append(index)
        self._pairs.load(index, data)

    def _load_pane(self, rest: str, data: bytes) -> None:
        length, pane, name = rest.split(":", 2)
        if self.panes is None or int(length) != self._options.panes.pane_ms:
            self._gone.append(_PANE_FIELD + rest)
            return
        self.panes.load(self._row(EstimateKey.decode(name)), int(pane), data)

    def _load_watches(self, stored: list[tuple[str, bytes]]) -> None:
        watches = {watch.field: (row, watch) for row in range(len(self)) for watch in self._watching.of(row)}
        for name, data in stored:
            if name in watches:
                row, watch = watches[name]
                watch.load(data)
                self._watching.refresh(row)
            else:
                self._gone.append(_WATCH_FIELD + name)
                self._alerts += Watch.withdrawn(data)
