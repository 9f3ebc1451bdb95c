"""The aggregator's state: what every metric event so far adds up to. No clock, no I/O."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import Alert, MetricDefinition, MetricEvent, to_milliseconds

from ..events.batch import Events, Queue, Stamp, Times
from ..events.columns import EventColumns, Refused
from ..events.keys import EstimateKey
from ..events.values import EventPart, Kind, Observations, gold_observations, parts_of
from ..statistics.moments import MomentTable
from ..statistics.quantiles import Quantiles
from .absence_rows import AbsenceRows
from .checking import check
from .checkpoint_encoding import load, written
from .column_batches import Replay
from .declarations import Declarations
from .options import AlertBudget, Changes, StateOptions
from .pairs import PairRows
from .panes import PaneBook
from .rows import LATEST_MS, KeyRows
from .table import Kept

__all__ = ["AggregatorState", "AlertBudget", "Changes", "StateOptions"]

AT_ONCE: Final = 20_000
"""Values that are gathered before they are worked on."""

COLUMNS_AT_ONCE: Final = 60_000
"""The same of events in columns: more would not fit the processor's cache, fewer would be handled too often."""


class AggregatorState:
    """Moments of every key in arrays, one row per key, and what else is kept of it.

    `apply` adds one event or, if it raises InvalidEntryError, changes nothing. After any other error the state is of no
    use: begin again from its last fields. Events are gathered, and worked on many at once as soon as
    there are enough of them or somebody looks. The result does not depend on how they were cut into batches, so a
    restart from any checkpoint continues to the bit.
    """

    def __init__(self, options: StateOptions) -> None:
        self._kept = Kept(options)
        self._queue = Queue()
        self._queued: list[MetricEvent] = []
        self._touched: set[int] = set()
        self._gone: list[str] = []

    def __len__(self) -> int:
        return len(self._kept.rows)

    @property
    def n_changed(self) -> int:
        """Number of keys that events have changed since `take_changes` was called."""
        return len(self._touched)

    @property
    def keys(self) -> list[EstimateKey]:
        """Key of every row."""
        return self._kept.rows.keys

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key, None if no event has had it."""
        return self._kept.rows.find(key)

    @property
    def rows(self) -> KeyRows:
        """The counts of every row."""
        self._work()
        return self._kept.rows

    @property
    def moments(self) -> MomentTable:
        """Moments of every row."""
        self._work()
        return self._kept.moments

    @property
    def panes(self) -> PaneBook | None:
        """Panes of every row, None without windows."""
        self._work()
        return self._kept.panes

    @property
    def pairs(self) -> PairRows:
        """Pairs of true and cheap scores."""
        self._work()
        return self._kept.pairs

    @property
    def absences(self) -> AbsenceRows:
        """Rows that count how often metrics were absent, by reason."""
        return self._kept.absences

    def row_of(self, key: EstimateKey) -> int:
        """Return the row of a key, added if there is none."""
        return self._kept.row(key)

    @property
    def declarations(self) -> Declarations:
        """Declarations of metrics that are not ragtide's own."""
        return self._kept.declarations

    def definition(self, key: EstimateKey) -> MetricDefinition | None:
        """Return the definition of the metric whose scores a key counts; None where nothing defines it."""
        return self._kept.declarations.definition(key)

    def newest_ms(self, key: EstimateKey) -> int:
        """Return the time of the newest interaction of a key's pipeline and run."""
        return self._kept.rows.newest_ms(key.pipeline, key.run) or 0

    def quantiles(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values, None where they are not kept."""
        self._work()
        return self._kept.quantiles.get(row)

    def apply(self, event: MetricEvent, processed_ms: int | None = None) -> None:
        """Add one metric event.

        Args:
            event: what to add.
            processed_ms: when it was scored; the time it says unless given.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        # All parts are looked at before any is added.
        parts = parts_of(event)
        for part, found, kind in parts:
            self._add(part, found, processed_ms, kind)
        if event.declared:
            self._kept.declare(event)

    def apply_columns(self, columns: EventColumns, processed_ms: Times | None = None) -> list[Refused]:
        """Add many metric events: what `apply` would make of them one by one, to the bit.

        Args:
            columns: what to add.
            processed_ms: when each was scored; the time it says unless given.

        Returns those that were not added because a score is outside its metric's range, by their places.
        """
        self._work()
        replay = Replay(columns, processed_ms, segments=self._kept.options.segments)
        replay.prepare(self._kept)
        replay.follow(self._kept.rows)
        for event in replay.declaring():
            self._kept.declare(event)
        start = 0
        while start < replay.times_ms.size:
            self._begin(int(replay.times_ms[start]))
            stop = replay.stop(start, COLUMNS_AT_ONCE)
            stop = start + self._kept.watching.uninterrupted(replay.times_ms[start:stop])
            self._kept.take(replay.gathered(start, stop, self._put))
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
        # An entry id may be no time; one chosen by hand may be beyond any.
        processed_ms = min(to_milliseconds(event.labeled_at) if processed_ms is None else processed_ms, LATEST_MS)
        # A clock that runs ahead must not close the windows of everybody else.
        time_ms = min(to_milliseconds(event.occurred_at), processed_ms)
        self._begin(time_ms)
        admitted = self._kept.admission.admit(event, segments=self._kept.options.segments)
        if kind is Kind.SCORED:
            self._kept.capped.count(admitted, time_ms)
        placed = admitted.event
        newest = self._kept.rows.advance(placed.pipeline, placed.run, time_ms)
        stamp = Stamp(time_ms, processed_ms, newest, event.population_size or 0)
        self._queued.append(event)
        self._put(self._queue, len(self._queued) - 1, (placed, found, kind), stamp)
        if self._queue.size >= AT_ONCE:
            self._work()

    def _begin(self, time_ms: int) -> None:
        """Begin the periods that begin with a time, after all values before it are taken."""
        if self._kept.watching.interrupts(time_ms):
            self._work()
            self._kept.changed.update(self._kept.watching.begin(time_ms))

    def _put(self, queue: Queue, place: int, part: EventPart, stamp: Stamp) -> None:
        """Put a part of the event at a place into a queue."""
        event, found, kind = part
        plan = self._kept.plan(part)
        self._touched.update(plan.rows, plan.absent)
        values = found.values * plan.scopes
        if kind is Kind.SCORED:
            values += [event.latency_s, event.cost_usd] if plan.usage else [event.latency_s]
        pairs = [(pair.true, pair.cheap, pair.probability) for pair in found.pairs for _ in range(plan.scopes)]
        queue.add(place, plan, values, pairs, stamp)

    def _work(self) -> None:
        """Work on what was gathered."""
        if self._queued:
            batch = self._queue.gathered(Events(self._queued))
            self._queue, self._queued = Queue(), []
            self._kept.take(batch)

    def raise_alerts(self, alerts: Sequence[Alert]) -> None:
        """Add alerts that others raised to those of the next commit."""
        self._kept.alerts += alerts

    def take_changes(self) -> Changes:
        """Return what changed since the last call, for a commit, and forget it.

        Raises:
            DamagedFieldError: a number is not finite, or no values add up to it; this state is of no use any more.
        """
        self._work()
        kept = self._kept
        check(kept, kept.changed)
        fields, gone = written(kept)
        capped, alerts = kept.capped.take_changes(len(kept.rows))
        changes = Changes(
            keys=[self.keys[row] for row in sorted(kept.changed)],
            rows={**fields, **capped},
            gone=self._gone + gone,
            alerts=[*alerts, *kept.alerts],
            capped=kept.capped.take_news(),
        )
        kept.changed, kept.alerts, self._gone, self._touched = set(), [], [], set()
        return changes

    @classmethod
    def from_fields(
        cls, options: StateOptions, fields: Mapping[str, bytes], *, gone: Sequence[str] = ()
    ) -> "AggregatorState":
        """Return the state that the fields of a checkpoint hold; `gone` names more fields that are to go.

        A watch whose rule was removed or changed is dropped; if its alert was firing, the alert resolves. Panes of
        another length than now are dropped as well.

        Raises:
            DamagedFieldError: a field cannot be read, or was written by another version.
        """
        state = cls(options)
        state._gone = [*gone, *load(state._kept, fields)]
        return state
