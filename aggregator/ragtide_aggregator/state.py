"""The aggregator's state: what every metric event so far adds up to. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ragtide_schemas import Alert, AlertRule, MetricEvent, to_milliseconds, value_range
from ragtide_schemas.diagnosis import PATTERNS, Score, diagnose

from .columns import EventColumns, Refused
from .gathering import Events, Gathered, Plan, Queue, Stamp, Times
from .keys import HIDDEN, LATENCY, UNBOUNDED, EstimateKey, PairKey
from .observations import (
    EventPart,
    Kind,
    Observations,
    Pair,
    estimate_key,
    gold_observations,
    pair_key,
    parts_of,
    scopes_of,
)
from .pairs import PairRows
from .panes import PaneBook
from .replaying import Replay
from .rows import SIZE as ROW_SIZE
from .rows import KeyRows
from .statistics.batches import Floats, grouped
from .statistics.budget import Budget
from .statistics.moments import MomentTable
from .statistics.quantiles import Quantiles, counted
from .statistics.tables import doubled
from .statistics.windows import Panes
from .watch import Watch
from .watching import Batch, Raised, Watching

AT_ONCE: Final = 20_000
"""Values that are gathered before they are worked on."""

COLUMNS_AT_ONCE: Final = 60_000
"""The same of events in columns: more would not fit the processor's cache, fewer would be handled too often."""

_ROW, _WATCH, _PANE, _PROCESSED = "estimate:", "watch:", "pane:", "processed:"
_PAIR, _QUANTILES, _CLOCK = "pair:", "quantiles:", "clock"

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
    origin: str = ""
    """Tells alerts of one rule and key apart where a pipeline is split over partitions."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the last time: for one commit."""

    keys: Sequence[EstimateKey] = ()
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    alerts: Sequence[Alert] = ()


class AggregatorState:
    """Moments of every key in arrays, one row per key, and what else is kept of it.

    `apply` adds one event or, if it raises, changes nothing. Events are gathered, and worked on many at once as soon as
    there are enough of them or somebody looks. The result does not depend on how they were cut into batches, so a
    restart from any checkpoint continues to the bit.
    """

    def __init__(self, options: StateOptions) -> None:
        self._options = options
        budget = None if options.budget is None else Budget(options.budget.false_alarms, options.budget.period_ms)
        self._rows = KeyRows()
        # Values are checked when they are observed; what labeling took has no highest value.
        self._moments = MomentTable(bounded=False)
        self._watching = Watching(options.rules, budget, options.origin)
        self._panes = PaneBook(options.panes) if options.panes.windows else None
        self._pairs = PairRows()
        self._quantiles: dict[int, Quantiles] = {}
        # Whether a row has quantiles.
        self._sketched = np.zeros(64, dtype=bool)
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._changed: set[int] = set()
        self._alerts: list[Alert] = []
        self._gone: list[str] = []
        self._queue = Queue()
        self._queued: list[MetricEvent] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def keys(self) -> list[EstimateKey]:
        """Key of every row."""
        return self._rows.keys

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key, None if no event has had it."""
        return self._rows.find(key)

    @property
    def rows(self) -> KeyRows:
        """What is counted of every row."""
        self._work()
        return self._rows

    @property
    def moments(self) -> MomentTable:
        """Moments of every row."""
        self._work()
        return self._moments

    @property
    def panes(self) -> PaneBook | None:
        """Panes of every row, None without windows."""
        self._work()
        return self._panes

    @property
    def pairs(self) -> PairRows:
        """Pairs of true and cheap scores."""
        self._work()
        return self._pairs

    def row_of(self, key: EstimateKey) -> int:
        """Return the row of a key, added if there is none."""
        return self._row(key)

    def newest_ms(self, key: EstimateKey) -> int:
        """Return the time of the newest interaction of a key's pipeline and run."""
        return self._rows.newest_ms(key.pipeline, key.run) or 0

    def quantiles(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values, None where they are not kept."""
        self._work()
        return self._quantiles.get(row)

    def apply(self, event: MetricEvent, processed_ms: int | None = None) -> None:
        """Add one metric event.

        Args:
            event: what to add.
            processed_ms: when it was scored; the time it says unless given.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        # All parts are looked at before any is added.
        for part, found, kind in parts_of(event):
            self._add(part, found, processed_ms, kind)

    def apply_columns(self, columns: EventColumns, processed_ms: Times | None = None) -> list[Refused]:
        """Add many metric events: what `apply` would make of them one by one, to the bit.

        Args:
            columns: what to add.
            processed_ms: when each was scored; the time it says unless given.

        Returns those that were not added because a score is outside its metric's range, by their places.
        """
        self._work()
        replay = Replay(columns, processed_ms, segments=self._options.segments)
        replay.follow(self._rows)
        replay.prepare(self._plan)
        start = 0
        while start < replay.times_ms.size:
            self._begin(int(replay.times_ms[start]))
            stop = replay.stop(start, COLUMNS_AT_ONCE)
            stop = start + self._watching.uninterrupted(replay.times_ms[start:stop])
            self._take(replay.gathered(start, stop, self._put))
            start = stop
        return sorted(replay.refused, key=lambda one: one.place)

    def apply_gold(self, event: MetricEvent, gold_scores: Mapping[str, float]) -> None:
        """Add gold scores that came later to an event that has been applied, as if the event had brought them.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        parts = [part for part in (event, event.judgement()) if part is not None]
        for part, found in [(part, gold_observations(part, gold_scores)) for part in parts]:
            if found.names:
                self._add(part, found, None, Kind.GRADED)

    def _add(self, event: MetricEvent, found: Observations, processed_ms: int | None, kind: Kind) -> None:
        processed_ms = to_milliseconds(event.labeled_at) if processed_ms is None else processed_ms
        # A clock that runs ahead must not close the windows of everybody else.
        time_ms = min(to_milliseconds(event.occurred_at), processed_ms)
        self._begin(time_ms)
        newest = self._rows.advance(event.pipeline, event.run, time_ms)
        stamp = Stamp(time_ms, processed_ms, newest, event.population_size or 0)
        self._queued.append(event)
        self._put(self._queue, len(self._queued) - 1, (event, found, kind), stamp)
        if self._queue.size >= AT_ONCE:
            self._work()

    def _begin(self, time_ms: int) -> None:
        """Begin the periods that begin with a time, after all values before it are taken."""
        if self._watching.interrupts(time_ms):
            self._work()
            self._changed.update(self._watching.begin(time_ms))

    def _put(self, queue: Queue, place: int, part: EventPart, stamp: Stamp) -> None:
        """Put a part of the event at a place into a queue."""
        event, found, kind = part
        plan = self._plan(part)
        values = found.values * plan.scopes
        if kind is Kind.SCORED:
            values += [event.latency_s, event.cost_usd] if plan.usage else [event.latency_s]
        pairs = [(pair.true, pair.cheap, pair.probability) for pair in found.pairs for _ in range(plan.scopes)]
        queue.add(place, plan, values, pairs, stamp)

    def _plan(self, part: EventPart) -> Plan:
        event, found, kind = part
        scopes = scopes_of(event, segments=self._options.segments)
        # Events of one pipeline and segment touch the same rows again and again.
        absent = tuple(event.absent) if kind is not Kind.GRADED else ()
        usage = bool(event.prompts) or event.judged is not None
        pairs = tuple(pair[:4] for pair in found.pairs)
        seen = (
            kind, event.pipeline, event.run, scopes, event.profile, event.labeler, event.labeler_version,
            found.names, absent, pairs, usage,
        )  # fmt: skip
        plan = self._plans.get(seen)
        if plan is None:
            rows = [self._row(estimate_key(event, segment, name)) for segment in scopes for name in found.names]
            missing = [self._row(estimate_key(event, segment, name)) for segment in scopes for name in absent]
            if kind is Kind.SCORED:
                rows += [self._row(estimate_key(event, None, name)) for name in (UNBOUNDED if usage else (LATENCY,))]
            paired = [self._pair(event, segment, pair) for pair in found.pairs for segment in scopes]
            plan = self._plans[seen] = Plan(rows, missing, paired, len(scopes), usage)
        return plan

    def _row(self, key: EstimateKey) -> int:
        row = self._rows.find(key)
        if row is not None:
            return row
        self._moments.add_row()
        self._watching.add_row(key)
        row = self._rows.add(key)
        if row == self._sketched.size:
            self._sketched = doubled(self._sketched)
        if self._options.quantiles and key.segment is None and not key.metric.startswith(HIDDEN):
            self._quantiles[row] = Quantiles()
            self._sketched[row] = True
        return row

    def _pair(self, event: MetricEvent, segment: str | None, pair: Pair) -> int:
        key = pair_key(event, segment, pair)
        row = self._pairs.find(key)
        return self._pairs.add_row(key, self._row(key.cheap)) if row is None else row

    def _work(self) -> None:
        """Work on what was gathered."""
        if self._queued:
            batch = self._queue.gathered(Events(self._queued))
            self._queue, self._queued = Queue(), []
            self._take(batch)

    def _take(self, batch: Gathered) -> None:
        """Work on a batch."""
        raised = self._watch(batch)
        before = self._learn(batch, raised)
        of = batch.part_of
        late = np.zeros(batch.times_ms.shape, dtype=bool)
        if self._panes is not None:
            late = self._options.panes.late(batch.times_ms, batch.newest_ms)
        out_of_order = batch.times_ms < batch.newest_ms
        self._rows.count(batch.absent, batch.rows[late[of]], batch.rows[out_of_order[of]])
        self._rows.touch(batch.rows, batch.times_ms[of])
        self._rows.touch(batch.absent, batch.times_ms[batch.absent_of])
        self._rows.finite(batch)
        if self._panes is not None:
            self._panes.take(batch, late, before)
        self._sketch(batch)
        if batch.pairs.size:
            self._pairs.add(batch.pairs, batch.scores)
        self._changed.update(batch.grouped.rows.tolist(), batch.absent.tolist())

    def _watch(self, gathered: Gathered) -> list[Raised]:
        if not self._options.rules:
            return []
        places = self._watching.watched(gathered.rows)
        if not places.size:
            return []
        rows, of = gathered.rows[places], gathered.part_of[places]
        batch = grouped(rows)
        numbers = np.empty_like(rows)
        numbers[batch.order] = batch.occurrence + 1
        numbers += self._moments.counts(rows)
        watched = Batch(
            rows, gathered.values[places], gathered.times_ms[of], numbers, gathered.places[of], gathered.origins
        )
        return [replace(one, position=int(places[one.position])) for one in self._watching.update(watched)]

    def _learn(self, batch: Gathered, raised: list[Raised]) -> Floats:
        """Add the values to the moments, and the alerts with what was known when they were raised.

        Returns the mean of each value's key before it.
        """
        if not raised:
            return self._moments.update(batch.rows, batch.values, batch=batch.grouped)
        before = np.empty(batch.values.shape)
        start = 0
        for one in raised:
            end = int(np.searchsorted(batch.part_of, batch.part_of[one.position], side="right"))
            if end > start:
                before[start:end] = self._moments.update(batch.rows[start:end], batch.values[start:end])
                start = end
            alert = one.alert
            if alert.status == "firing":
                alert = alert.model_copy(update={"diagnosis": self._diagnosis(self.keys[one.row])})
            self._alerts.append(alert)
        before[start:] = self._moments.update(batch.rows[start:], batch.values[start:])
        return before

    def _diagnosis(self, key: EstimateKey) -> tuple[str, ...]:
        """Return what the recent scores of a scope suggest; the mean since the first would lag behind the alert."""
        recent = {}
        for metric in sorted({metric for pattern in PATTERNS for metric in pattern.conditions}):
            row = self._rows.find(key._replace(metric=metric))
            if row is not None and self._moments.n(row):
                lowest, highest = value_range(metric)
                recent[metric] = Score(lowest + (highest - lowest) * self._moments.recent(row))
        return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))

    def _sketch(self, batch: Gathered) -> None:
        if not self._quantiles:
            return
        places = np.flatnonzero(self._sketched[batch.rows])
        for row, key, count in counted(batch.rows[places], batch.values[places]):
            self._quantiles[row].add_bin(key, count)

    def raise_alerts(self, alerts: Sequence[Alert]) -> None:
        """Add alerts that others raised to those of the next commit."""
        self._alerts += alerts

    def take_changes(self) -> Changes:
        """Return what changed since the last call, for a commit, and forget it."""
        self._work()
        changed = sorted(self._changed)
        fields: dict[str, bytes] = {}
        for row in changed:
            name = self.keys[row].encode()
            fields[_ROW + name] = self._rows.to_bytes(row) + self._moments.to_bytes(row)
            fields |= {_WATCH + at: data for at, data in self._watching.dump(row, self._moments.n(row)).items()}
            if row in self._quantiles:
                fields[_QUANTILES + name] = self._quantiles[row].to_bytes()
        fields |= {_PAIR + name: data for name, data in self._pairs.take_changes().items()}
        gone = self._gone
        if self._panes is not None:
            written, dropped = self._panes.take_changes(self.keys)
            fields |= {_PANE + name: data for name, data in written.items()}
            gone = gone + [_PANE + name for name in dropped]
            fields |= {_PROCESSED + name: data for name, data in self._panes.take_processed(self.keys).items()}
        if changed:
            fields[_CLOCK] = self._watching.dump_clock()
        changes = Changes([self.keys[row] for row in changed], fields, gone, self._alerts)
        self._changed, self._gone, self._alerts = set(), [], []
        return changes

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
            kind = name.partition(":")[0]
            by_kind[kind + ":"].append((name.removeprefix(kind + ":"), data))
        for name, data in by_kind[_ROW]:
            row = state._row(EstimateKey.decode(name))
            state._rows.load(row, data)
            state._moments.load(row, data[ROW_SIZE:])
        for name, data in by_kind[_PAIR]:
            key = PairKey.decode(name)
            state._pairs.load(state._pairs.add_row(key, state._row(key.cheap)), data)
        for name, data in by_kind[_QUANTILES]:
            row = state._row(EstimateKey.decode(name))
            if row in state._quantiles:
                state._quantiles[row] = Quantiles.from_bytes(data)
        for kind in (_PANE, _PROCESSED):
            state._gone += [kind + name for name, data in by_kind[kind] if not state._load_pane(kind, name, data)]
        for _, data in by_kind[_CLOCK + ":"]:
            state._watching.load_clock(data)
        state._load_watches(by_kind[_WATCH])
        return state

    def _load_pane(self, kind: str, name: str, data: bytes) -> bool:
        """Take on a pane or counts by processing time; return False if panes have another length now."""
        length, _, rest = name.partition(":")
        if self._panes is None or int(length) != self._options.panes.pane_ms:
            return False
        if kind == _PROCESSED:
            self._panes.load_processed(self._row(EstimateKey.decode(rest)), data)
            return True
        pane, _, key = rest.partition(":")
        self._panes.load(self._row(EstimateKey.decode(key)), int(pane), data)
        return True

    def _load_watches(self, stored: list[tuple[str, bytes]]) -> None:
        watches = {watch.field: (row, watch) for row in range(len(self)) for watch in self._watching.of(row)}
        for name, data in stored:
            if name in watches:
                row, watch = watches[name]
                watch.load(data)
                self._watching.refresh(row)
            else:
                self._gone.append(_WATCH + name)
                self._alerts += Watch.withdrawn(data)
