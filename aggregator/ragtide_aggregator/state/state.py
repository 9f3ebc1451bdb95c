"""The aggregator's state: the sum of all metric events so far. No clock, no I/O."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ragtide_runtime.alert_book import AlertBook
from ragtide_schemas import Alert, MetricDefinition, MetricEvent, to_milliseconds
from ragtide_schemas.fitness import Stated

from ..alerts.rule_state import RuleState
from ..events.batch import BLOCKS, SEGMENT, Scope
from ..events.columns import EventColumns, RejectedEvent
from ..events.keys import EstimateKey
from ..events.queue import EventQueue
from ..events.values import check, gold_parts
from ..statistics.drift.drift import Direction
from ..statistics.drift.seasons import Swings
from ..statistics.intervals.quantiles import Quantiles
from ..statistics.means.clusters import ClusterSums
from ..statistics.means.dependence import Dependence
from ..statistics.means.moments import MomentTable
from ..statistics.means.sampling_weights import SampledSums
from ..statistics.tables.batches import Rows
from .absence_rows import AbsenceRows
from .batch_builder import BatchBuilder
from .checking import check_numbers
from .checkpoint_encoding import load, written
from .declarations import Declarations
from .history import HistoryRows
from .open_clusters import ScopeClusters
from .options import AlertBudget, Changes, StateOptions
from .pairs import PairRows
from .panes import PaneTable
from .rows import LATEST_MS, KeyRows
from .table import StateTable

__all__ = ["AggregatorState", "AlertBudget", "Changes", "StateOptions"]

EVENTS_AT_ONCE: Final = 2_000
"""Events that the queue holds before they are applied."""

NEARLY: Final = 7 / 8
"""Share of the keys of a step from which the step is full: the last keys would be applied in ever smaller batches."""

VALUES_AT_ONCE: Final = 60_000
"""Values of one batch: more would not fit the processor's cache, fewer would be handled too often."""


class AggregatorState:
    """The numbers of every key, to which metric events and gold scores are added.

    All events are applied as columns, many at once. `apply` adds one event, or changes nothing and raises
    InvalidEntryError; the event waits in a queue until the queue is full or a number is read. After any other error the
    state must not be used: begin again from its last fields. The numbers do not depend on how events were cut into
    batches, to the bit, so a restart from any checkpoint continues with the same numbers.
    """

    def __init__(self, options: StateOptions) -> None:
        self._table = StateTable(options)
        self._queue = EventQueue()
        self._gone: list[str] = []

    @property
    def _applied(self) -> StateTable:
        """The table, after applying the queue."""
        if not self._queue.is_empty:
            self._apply_queue()
        return self._table

    def __len__(self) -> int:
        return len(self._applied.rows)

    @property
    def fit_for(self) -> Stated:
        """Purposes of labelers that the settings state."""
        return self._table.options.fit_for

    @property
    def n_applied_keys(self) -> int:
        """Number of keys without the keys of the queue; it does not apply the queue."""
        return len(self._table.rows)

    def has_changed(self, keys: int) -> bool:
        """Return whether at least `NEARLY` of `keys` keys have changed since the last call of `take_changes`."""
        if len(self._table.changed) + self._queue.most_keys < keys:
            return False
        return len(self._applied.changed) >= NEARLY * keys

    @property
    def keys(self) -> list[EstimateKey]:
        """Key of every row."""
        return self._applied.rows.keys

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._applied.rows.find(key)

    @property
    def rows(self) -> KeyRows:
        """The counts of every row."""
        return self._applied.rows

    @property
    def moments(self) -> MomentTable:
        """Moments of every row."""
        return self._applied.moments

    @property
    def panes(self) -> PaneTable | None:
        """Panes of every row; None without windows."""
        return self._applied.panes

    @property
    def history(self) -> HistoryRows | None:
        """Open panes of the keys that have a history; None without history."""
        return self._applied.history

    @property
    def pairs(self) -> PairRows:
        """Pairs of a reference and a proxy score."""
        return self._applied.pairs

    @property
    def absences(self) -> AbsenceRows:
        """Rows that count how often metrics were absent, by reason."""
        return self._applied.absences

    def cluster_sums(self, rows: Rows) -> ClusterSums | None:
        """Return the sums over closed clusters of rows; None if the settings ask for no clusters."""
        clusters = self._applied.clusters
        return None if clusters is None else clusters.sums.read(rows)

    def dependence(self, rows: Rows) -> Dependence | None:
        """Return the dependence of neighbouring values of rows of whole pipelines; None if it is not measured."""
        measured = self._applied.dependence
        return None if measured is None else measured.read(rows, self.moments)

    def sampled(self, rows: Rows) -> SampledSums | None:
        """Return the sums over values of rows that were sampled from the traffic; None if none of them was."""
        return self._applied.weights.sums.read(rows)

    @property
    def clustered(self) -> Collection[Scope]:
        """Pipelines and runs whose interactions count in clusters."""
        clusters = self._applied.clusters
        return () if clusters is None else clusters.scopes.keys()

    @property
    def waiting(self) -> Mapping[Scope, int]:
        """By pipeline and run the number of interactions in open clusters, which no interval and no rule counts yet."""
        clusters = self._applied.clusters
        if clusters is None:
            return {}
        return {
            scope: sum(cluster.interactions for cluster in one.open.values()) for scope, one in clusters.scopes.items()
        }

    @property
    def continued(self) -> Mapping[Scope, tuple[int, int]]:
        """By pipeline and run the number of clusters that go on with a closed cluster, and of open clusters.

        It is empty where clusters of any length are cut by design: blocks, and the interactions of a segment value.
        """
        clusters = self._applied.clusters
        if clusters is None or clusters.options.by == BLOCKS or clusters.options.by.startswith(SEGMENT):
            return {}
        return {scope: (one.continued, len(one.open)) for scope, one in clusters.scopes.items()}

    def measures_swing(self, row: int) -> bool:
        """Return whether the swing of a row's mean over the day is measured."""
        return self._applied.swings.measures(row)

    def swings(self, rows: Rows, direction: Direction) -> Swings:
        """Return the swings over the day of measured rows, scaled to [0, 1]."""
        return self._applied.swings.swings(rows, direction)

    def measures_dependence(self, row: int) -> bool:
        """Return whether the dependence of a row's values is measured."""
        measured = self._applied.dependence
        return measured is not None and measured.measures(row)

    def merge_clusters(self, row: int, other: "AggregatorState", other_row: int) -> None:
        """Add the closed clusters that another state has of the same key."""
        mine, theirs = self._applied.clusters, other._applied.clusters
        if mine is not None and theirs is not None:
            mine.sums.merge(row, theirs.sums, other_row)
        measured, others = self._applied.dependence, other._applied.dependence
        if measured is not None and others is not None:
            measured.merge(row, others, other_row)

    def merge_weights(self, row: int, other: "AggregatorState", other_row: int) -> None:
        """Add the sampled values that another state has of the same key."""
        self._applied.weights.sums.merge(row, other._applied.weights.sums, other_row)

    def merge_clustered(self, other: "AggregatorState") -> None:
        """Take note of the pipelines and runs whose interactions count in clusters in another state."""
        mine = self._applied.clusters
        if mine is not None:
            for scope in other.clustered:
                mine.scopes.setdefault(scope, ScopeClusters())

    def row_of(self, key: EstimateKey) -> int:
        """Return the row of a key; a new key gets a row."""
        return self._applied.row(key)

    @property
    def declarations(self) -> Declarations:
        """Declarations of metrics that are not ragtide's own."""
        return self._applied.declarations

    def definition(self, key: EstimateKey) -> MetricDefinition | None:
        """Return the definition of the metric whose scores a key counts; None without a definition."""
        return self._applied.declarations.definition(key)

    def newest_ms(self, key: EstimateKey) -> int:
        """Return the time of the newest interaction of a key's pipeline and run."""
        return self._applied.rows.newest_ms(key.pipeline, key.run) or 0

    def quantiles(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values; None for a row without quantiles."""
        return self._applied.quantiles.get(row)

    def apply(self, event: MetricEvent, processed_ms: int | None = None) -> None:
        """Add one metric event. It waits in a queue, and is later applied with other events as columns.

        Args:
            event: the event.
            processed_ms: time of scoring; its field `labeled_at` unless given.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        check(event)
        if processed_ms is None:
            processed_ms = to_milliseconds(event.labeled_at)
        # The id of an entry may be chosen by hand, and so be later than any time.
        self._queue.add(event, min(processed_ms, LATEST_MS))
        if len(self._queue) >= EVENTS_AT_ONCE:
            self._apply_queue()

    def apply_gold(self, event: MetricEvent, gold_scores: Mapping[str, float], probability: float = 1.0) -> None:
        """Add later gold scores to an applied event; with probability 1 as if the event had contained them.

        Args:
            event: the applied event.
            gold_scores: gold scores by metric.
            probability: with which a scored interaction was chosen for gold scores, in (0, 1].

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        for part in gold_parts(event, gold_scores, probability):
            self._queue.add_gold(part)

    def apply_columns(self, columns: EventColumns) -> list[RejectedEvent]:
        """Add many metric events, and return the events that cannot be counted."""
        self._apply_queue()
        builder = BatchBuilder(columns, self._table)
        start = 0
        while start < len(builder):
            self._begin(int(builder.times_ms[start]))
            stop = builder.stop(start, VALUES_AT_ONCE)
            stop = start + self._table.rules.uninterrupted(builder.times_ms[start:stop])
            while builder.until_clusters_change(start, stop) == start:
                self._table.prepare_clusters(builder.scope(start))
            stop = builder.until_clusters_change(start, stop)
            self._table.take(builder.batch(start, stop))
            start = stop
        return builder.rejected

    def _begin(self, time_ms: int) -> None:
        if self._table.rules.interrupts(time_ms):
            self._table.changed.update(self._table.rules.begin(time_ms))

    def _apply_queue(self) -> None:
        if not self._queue:
            return
        queue, self._queue = self._queue, EventQueue()
        for one in self.apply_columns(queue.columns()):
            # Events are checked before they join the queue, so a rejected one is a defect of this code.
            raise ValueError(one.error.detail) from one.error

    def rules_of(self, row: int) -> Sequence[RuleState]:
        """Return the states of the rules on a row."""
        return self._applied.rules.of(row)

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return [*self._applied.rules.firing(), *self._applied.kappa.firing(), *self._applied.book.firing]

    @property
    def book(self) -> AlertBook:
        """The firing alerts without statistics; its changes are in the next commit."""
        return self._table.book

    def take_changes(self) -> Changes:
        """Return the changes since the last call, for a commit.

        Raises:
            DamagedFieldError: a number is not finite, or impossible for any values; do not use the state any more.
        """
        table = self._applied
        check_numbers(table, table.changed)
        fields, gone = written(table)
        written_alerts, ended_alerts, alerts = table.book.take_changes()
        changes = Changes(
            keys=[self.keys[row] for row in sorted(table.changed)],
            rows={**fields, **table.capped.take_changes(len(table.rows)), **written_alerts},
            gone=self._gone + gone + ended_alerts,
            alerts=[*alerts, *table.alerts],
            capped=table.capped.take_news(),
            closed=() if table.history is None else table.history.take_closed(),
            without_history=0 if table.history is None else table.history.refused,
        )
        table.changed, table.alerts, self._gone = set(), [], []
        return changes

    @classmethod
    def from_fields(cls, options: StateOptions, fields: Mapping[str, bytes]) -> "AggregatorState":
        """Return the state in the fields of a checkpoint.

        The state of a removed or changed rule is dropped; if its alert is firing, the alert resolves. Panes of another
        length than now are dropped as well.

        Raises:
            DamagedFieldError: a field cannot be read, or was written by another version.
        """
        state = cls(options)
        state._gone = load(state._table, fields)
        return state

    def set_fields(self, fields: Mapping[str, bytes]) -> None:
        """Set the numbers in these fields of a checkpoint to those of the fields, for a reader that does so repeatedly.

        Raises:
            DamagedFieldError: a field cannot be read, or was written by another version.
        """
        load(self._table, fields)
        # Only an owner of the partition removes the states of rules that were removed, and withdraws their alerts.
        self._table.alerts.clear()
