"""The aggregator's state: the sum of all metric events so far. No clock, no I/O.

The state owns parts, and each part owns its numbers and its fields of the checkpoint. The state applies events as
batches, and goes over its parts to store, load, check and merge them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.alert_book import AlertBook
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas import Alert, MetricDefinition, MetricEvent, from_milliseconds, to_milliseconds
from ragtide_schemas.release import RELEASE_RULE, WORSE_RULE

from ..alerts.own_values import OwnValuesRules
from ..alerts.rule_state import RuleState
from ..errors import DamagedFieldError
from ..events.batch import LATEST_MS, SEGMENT, EventBatch, Scope
from ..events.columns import EventColumns, RejectedEvent
from ..events.keys import EstimateKey
from ..events.queue import EventKind, EventQueue
from ..events.values import Targets, check, gold_parts
from ..statistics.drift.drift import Direction
from ..statistics.drift.seasons import Swings
from ..statistics.intervals.quantiles import Quantiles
from ..statistics.means.clusters import ClusterSums
from ..statistics.means.dependence import Dependence
from ..statistics.means.moments import MomentTable
from ..statistics.means.sampling_weights import SampledSums
from ..statistics.tables.batches import Floats, Rows
from .batch_builder import BatchBuilder
from .cluster_rows import ClusterRows
from .exact_rows import ExactRows
from .history import HistoryRows
from .level_rows import LevelRows, WatchedLevel
from .measured_rows import DependenceRows, QuantileRows, SwingRows
from .open_clusters import QuietScope
from .options import Changes, StateOptions
from .pairs import PairRows
from .pane_rows import PaneTable
from .releases import ReleaseRows
from .row_lookup import AbsenceRows, AnswerRows, Declarations, RowLookup
from .rows import AddedBatch, KeyRows, StatePart
from .rule_alerts import BatchAdding, StateAlerts

__all__ = ["AggregatorState", "Changes", "StateOptions"]

EVENTS_AT_ONCE: Final = 4_000
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
        self._options = options
        # Kinds of events that were applied since the last commit: more of them change no other keys.
        self._kinds = set[EventKind]()
        self._queue = EventQueue(self._kinds)
        self._gone: list[str] = []
        self._book = AlertBook()
        self._rows = KeyRows()
        sessions = options.clusters is not None and options.clusters.by != BLOCKS
        self._own_values = own_values = OwnValuesRules(options.rules, options.origin, sessions=sessions)
        self._pairs = PairRows(self._rows, own_values, clustered=options.clusters is not None)
        self._clusters: ClusterRows | None = None
        self._dependence: DependenceRows | None = None
        if options.clusters is not None:
            self._clusters = ClusterRows(options.clusters, self._rows, self._pairs)
            self._dependence = DependenceRows(self._rows) if options.dependence else None
        self._panes = PaneTable(options.panes, self._rows) if options.panes.windows else None
        self._history: HistoryRows | None = None
        if options.history is not None:
            clustered = (lambda _row: False) if self._clusters is None else self._clusters.has
            self._history = HistoryRows(options.history, options.panes.lateness_ms, self._rows, self._pairs, clustered)
        self._levels = None if options.levels is None else LevelRows(options.levels, self._rows)
        self._releases: ReleaseRows | None = None
        if options.releases is not None:
            scopes = (lambda: ()) if self._clusters is None else (lambda clusters=self._clusters: clusters.scopes)
            self._releases = ReleaseRows(options.releases, self._rows, self._book, options.origin, scopes)
        self._alerts = StateAlerts(
            options, self._rows, own_values, dependence=self._dependence, panes=self._panes,
            clusters=self._clusters, levels=self._levels,
        )  # fmt: skip
        self._swings = SwingRows(self._rows, self._alerts.rules, self._levels)
        self._quantiles = QuantileRows(self._rows, wanted=options.quantiles)
        self._exact = ExactRows(self._rows, self._pairs) if options.exact else None
        self._lookup = RowLookup(options, self._rows, self._pairs, self._book, own_values)
        # In the order in which they are loaded: rules on pairs come after pairs, and open clusters after both rows.
        wanted: tuple[StatePart | None, ...] = (
            self._lookup.declarations, self._rows, self._pairs, self._quantiles, self._dependence, self._clusters,
            self._swings, self._lookup.capped, self._panes, self._history, self._levels,
            self._alerts, self._exact, self._releases,
        )  # fmt: skip
        self._parts = [part for part in wanted if part is not None]
        # In the order in which they follow a new key: the swing is measured where there are rules.
        follow = (
            self._clusters,
            self._dependence,
            self._history,
            self._levels,
            self._alerts,
            self._swings,
            self._quantiles,
            self._exact,
            self._releases,
        )
        self._rows.parts = [part for part in (*follow, self._lookup) if part is not None]

    @property
    def _applied(self) -> Self:
        if not self._queue.is_empty:
            self._apply_queue()
        return self

    def __len__(self) -> int:
        return len(self._applied._rows)

    @property
    def n_applied_keys(self) -> int:
        """Number of keys without the keys of the queue; it does not apply the queue."""
        return len(self._rows)

    def has_changed(self, keys: int) -> bool:
        """Return whether at least `NEARLY` of `keys` keys have changed since the last call of `take_changes`."""
        if len(self._rows.changed) + self._queue.most_keys < keys:
            return False
        return len(self._applied._rows.changed) >= NEARLY * keys

    @property
    def keys(self) -> list[EstimateKey]:
        """Key of every row."""
        return self._applied._rows.keys

    def index(self, key: EstimateKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._applied._rows.find(key)

    @property
    def rows(self) -> KeyRows:
        """The counts of every row."""
        return self._applied._rows

    @property
    def moments(self) -> MomentTable:
        """Moments of every row."""
        return self._applied._rows.moments

    @property
    def panes(self) -> PaneTable | None:
        """Panes of every row; None without windows."""
        return self._applied._panes

    @property
    def history(self) -> HistoryRows | None:
        """Open panes of the keys that have a history; None without history."""
        return self._applied._history

    @property
    def pairs(self) -> PairRows:
        """Pairs of a reference and a proxy score."""
        return self._applied._pairs

    @property
    def absences(self) -> AbsenceRows:
        """Rows that count how often metrics were absent, by reason."""
        return self._applied._lookup.absences

    @property
    def answers(self) -> AnswerRows:
        """Rows that count the answers of each scope."""
        return self._applied._lookup.answers

    def cluster_sums(self, rows: Rows) -> ClusterSums | None:
        """Return the sums over closed clusters of rows; None if the settings ask for no clusters."""
        clusters = self._applied._clusters
        return None if clusters is None else clusters.sums.read(rows)

    def dependence(self, rows: Rows) -> Dependence | None:
        """Return the dependence of neighbouring values of rows of whole pipelines; None if it is not measured."""
        measured = self._applied._dependence
        return None if measured is None else measured.read(rows)

    def sampled(self, rows: Rows) -> SampledSums | None:
        """Return the sums over values of rows that were sampled from the traffic; None if none of them was."""
        return self._applied._rows.weights.read(rows)

    @property
    def clustered(self) -> Collection[Scope]:
        """Pipelines and runs whose interactions count in clusters."""
        clusters = self._applied._clusters
        return () if clusters is None else clusters.scopes.keys()

    @property
    def waiting(self) -> Mapping[Scope, int]:
        """By pipeline and run the number of interactions in open clusters, which no interval and no rule counts yet."""
        clusters = self._applied._clusters
        if clusters is None:
            return {}
        return {
            scope: sum(cluster.interactions for cluster in of_scope.open.values())
            for scope, of_scope in clusters.scopes.items()
        }

    def quiet_scopes(self, until_ms: int) -> list[QuietScope]:
        """Return the pipelines and runs for which a tick is due.

        Args:
            until_ms: every interaction that came before this time is applied.
        """
        clusters = self._applied._clusters
        return [] if clusters is None else clusters.open.quiet(until_ms)

    def tick_of(self, quiet: QuietScope, until_ms: int) -> MetricEvent:
        """Return the tick that closes the clusters of a pipeline and run of which nothing came before a time.

        Args:
            quiet: the pipeline and run.
            until_ms: every interaction that came before this time is applied.
        """
        newest_ms = self._applied._rows.newest_ms(*quiet.scope) or until_ms
        occurred_ms = min(newest_ms + max(until_ms - quiet.arrived_ms, 0), until_ms)
        return MetricEvent.tick(
            *quiet.scope,
            occurred_at=from_milliseconds(occurred_ms),
            scored_until=from_milliseconds(until_ms),
            declared=self._lookup.declarations.of_pipeline(quiet.scope[0]),
        )

    @property
    def continued(self) -> Mapping[Scope, tuple[int, int]]:
        """By pipeline and run the number of clusters that go on with a closed cluster, and of open clusters.

        It is empty where clusters of any length are cut by design: blocks, and the interactions of a segment value.
        """
        clusters = self._applied._clusters
        if clusters is None or clusters.options.by == BLOCKS or clusters.options.by.startswith(SEGMENT):
            return {}
        return {scope: (of_scope.continued, len(of_scope.open)) for scope, of_scope in clusters.scopes.items()}

    @property
    def covariate_keys(self) -> list[EstimateKey]:
        """Keys of rules on covariates of which values came; their metric is the name that stands for the covariate."""
        return self._applied._own_values.covariate_keys

    def measures_swing(self, row: int) -> bool:
        """Return whether the swing of a row's mean over the day is measured."""
        return self._applied._swings.measures(row)

    def swings(self, rows: Rows, direction: Direction) -> Swings:
        """Return the swings over the day of measured rows, scaled to [0, 1]."""
        return self._applied._swings.swings(rows, direction)

    def measures_dependence(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether the dependence of its values is measured."""
        measured = self._applied._dependence
        return np.zeros(rows.shape, dtype=bool) if measured is None else measured.which(rows)

    @property
    def targets(self) -> Targets:
        """Rules on quantiles, whose shares are counted."""
        return self._lookup.targets

    @property
    def declarations(self) -> Declarations:
        """Declarations of metrics that are not ragtide's own."""
        return self._applied._lookup.declarations

    def definition(self, key: EstimateKey) -> MetricDefinition | None:
        """Return the definition of the metric whose scores a key counts; None without a definition."""
        return self._applied._lookup.declarations.definition(key)

    def newest_ms(self, key: EstimateKey) -> int:
        """Return the time of the newest interaction of a key's pipeline and run."""
        return self._applied._rows.newest_ms(key.pipeline, key.run) or 0

    def quantiles(self, row: int) -> Quantiles | None:
        """Return the quantiles of a row's values; None for a row without quantiles."""
        return self._applied._quantiles.find(row)

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

    def apply_gold(
        self,
        event: MetricEvent,
        gold_scores: Mapping[str, float],
        probability: float = 1.0,
        arrived_ms: int | None = None,
    ) -> None:
        """Add later gold scores to an applied event; with probability 1 as if the event had contained them.

        Args:
            event: the applied event.
            gold_scores: gold scores by metric.
            probability: with which a scored interaction was chosen for gold scores, in (0, 1].
            arrived_ms: time at which they came; the event's time of scoring unless given.

        Raises:
            InvalidEntryError: a score is outside its metric's range; nothing was added.
        """
        for part in gold_parts(event, gold_scores, probability, self._lookup.targets, arrived_ms):
            self._queue.add_gold(part)

    def apply_columns(self, columns: EventColumns) -> list[RejectedEvent]:
        """Add many metric events, and return the events that cannot be counted."""
        self._apply_queue()
        builder = BatchBuilder(columns, self._lookup, self._clusters)
        rules, start = self._alerts.rules, 0
        while start < len(builder):
            if rules.interrupts(int(builder.times_ms[start])):
                self._rows.changed.update(rules.begin(int(builder.times_ms[start])))
            self._alerts.tick(int(builder.times_ms[start]))
            stop = builder.stop(start, VALUES_AT_ONCE)
            stop = start + rules.uninterrupted(builder.times_ms[start:stop])
            stop = start + self._alerts.undecided(builder.times_ms[start:stop])
            while builder.until_clusters_change(start, stop) == start:
                self._prepare_clusters(builder.scope(start))
            stop = builder.until_clusters_change(start, stop)
            self._take(builder.batch(start, stop))
            start = stop
        return builder.rejected

    def _apply_queue(self) -> None:
        if not self._queue:
            return
        queue, self._queue = self._queue, EventQueue(self._kinds)
        self._kinds.update(queue.kinds)
        for rejected in self.apply_columns(queue.columns()):
            # Events are checked before they join the queue, so a rejected one is a defect of this code.
            raise ValueError(rejected.error.detail) from rejected.error

    def _prepare_clusters(self, scope: Scope) -> None:
        assert self._clusters is not None  # noqa: S101 - for the type checker: a batch had a cluster
        assert self._dependence is not None  # noqa: S101 - as well
        clusters = self._clusters.scopes.get(scope)
        if clusters is None:
            rows = self._clusters.begin(scope)
            for part in self._parts:
                part.begin_clusters(scope, rows)
        else:
            ruled = [row for row in range(len(self._rows)) if self._alerts.rules.of(row)]
            clusters.set_block(self._dependence.block(scope, ruled))

    def _take(self, batch: EventBatch) -> None:
        arrived, closed = self._alerts.arrivals(batch)
        late = np.zeros(batch.times_ms.shape, dtype=bool)
        if self._panes is not None:
            late = self._options.panes.late(batch.times_ms, batch.newest_ms)
        adding = BatchAdding(
            batch,
            late,
            closed=closed,
            rows=self._rows,
            dependence=self._dependence,
            panes=self._panes,
            clusters=self._clusters,
        )
        self._alerts.raise_alerts(adding, arrived)
        adding.rest()
        # A first answer counts once more with its cluster.
        counted = [arriving for arriving in arrived if arriving.values.first is None]
        added = AddedBatch(batch, closed, late, adding.before, counted)
        for part in self._parts:
            part.take(added)

    def settle(self) -> None:
        """Replace sums that depend on the order of the values, if the options ask for exact ones (`ExactRows`).

        Intrinsic times, recent means and numbers of values out of order stay as the order made them.
        """
        exact = self._applied._exact
        if exact is not None:
            exact.settle()

    def rules_of(self, row: int) -> Sequence[RuleState]:
        """Return the states of the rules on a row."""
        return self._applied._alerts.rules.of(row)

    def evidence(self, rows: Rows) -> Floats:
        """Return the largest evidence of a change among the rules of each row, as a part of the line of its rule."""
        return self._applied._alerts.rules.evidence(rows)

    def watched_levels(self) -> list[WatchedLevel]:
        """Return what is known about the level of each watched metric."""
        levels = self._applied._levels
        return [] if levels is None else levels.levels()

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return [*self._applied._alerts.firing(), *self._book.firing]

    @property
    def book(self) -> AlertBook:
        """The firing alerts without statistics; its changes are in the next commit."""
        return self._book

    def take_changes(self) -> Changes:
        """Return the changes since the last call, for a commit.

        Raises:
            DamagedFieldError: a number is not finite, or impossible for any values; do not use the state any more.
        """
        rows, history = self._applied._rows, self._history
        self._check()
        fields, gone, alerts = self._book.take_changes()
        for part in self._parts:
            written, removed = part.take_changes()
            fields |= written
            gone += removed
        changes = Changes(
            keys=[rows.keys[row] for row in sorted(rows.changed)],
            rows=fields,
            gone=self._gone + gone,
            alerts=[*alerts, *self._alerts.take_alerts()],
            capped=self._lookup.capped.take_news(),
            closed=() if history is None else history.take_closed(),
            sizes=self._sizes(),
            without_history=0 if history is None else history.refused,
        )
        rows.changed, self._gone = set(), []
        self._kinds.clear()
        return changes

    def _sizes(self) -> Sequence[int]:
        history, clusters = self._history, self._clusters
        return (
            len(self._rows), len(self._pairs.keys), len(self._lookup.declarations),
            *(() if history is None else (history.values.count, history.pairs.count)),
            *(() if clusters is None else (len(clusters.scopes), clusters.sums.used)),
            *(() if self._releases is None else (self._releases.opened,)),
        )  # fmt: skip

    @classmethod
    def from_fields(cls, options: StateOptions, fields: Mapping[str, bytes]) -> Self:
        """Return the state in the fields of a checkpoint.

        The state of a removed or changed rule is dropped; if its alert is firing, the alert resolves. Panes of another
        length than now are dropped as well.

        Raises:
            DamagedFieldError: a field cannot be read, or was written by another version.
        """
        state = cls(options)
        state._gone = state._load(fields)
        return state

    def set_fields(self, fields: Mapping[str, bytes]) -> None:
        """Set the numbers in these fields of a checkpoint to those of the fields, for a reader that does so repeatedly.

        Raises:
            DamagedFieldError: a field cannot be read, or was written by another version.
        """
        self._load(fields)
        # Only an owner of the partition removes the states of rules that were removed, and withdraws their alerts.
        self._alerts.take_alerts()

    def _load(self, fields: Mapping[str, bytes]) -> list[str]:
        by_kind: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
        for name, data in fields.items():
            kind, colon, rest = name.partition(":")
            by_kind[kind + colon].append((rest, data))
        for name, data in by_kind[CheckpointField.FIRING_ALERT]:
            self._book.load(name, data)
        optional = (ClusterRows, DependenceRows, PaneTable, HistoryRows, LevelRows, ExactRows, ReleaseRows)
        unwanted = {kind for part in optional for kind in part.kinds} - {
            kind for part in self._parts for kind in part.kinds
        }
        gone = [kind + name for kind in unwanted for name, _ in by_kind[kind]]
        for part in self._parts:
            for kind in part.kinds:
                if by_kind[kind]:
                    gone += part.load_fields(kind, by_kind[kind])
        for part in self._parts:
            part.complete()
        if self._releases is None:
            newest_ms = int(self._rows.updated_ms[: len(self._rows)].max(initial=0))
            for rule in (RELEASE_RULE, WORSE_RULE):
                self._book.end_others(rule, (), newest_ms, lambda _: "Releases are no longer watched.")
        self._check(everything=True)
        return gone

    def _check(self, *, everything: bool = False) -> None:
        """Check that no number is infinite, undefined or impossible for any values, before a commit would store it.

        Bounds in the schema keep such numbers out. With a checkpoint that has one, each start would fail.
        """
        for part in self._parts:
            field = part.damaged_field(everything=everything)
            if field is not None:
                raise DamagedFieldError(field, ValueError("a number is not finite, or impossible for any values"))

    @classmethod
    def merged(cls, states: Iterable["AggregatorState"], options: StateOptions) -> Self:
        """Return a state with the values of the states of several partitions, to be read; it takes no events.

        Sums are exact, so counts, means and totals are those of one state with all values. With `exact` in the options
        of all states so is every other sum, after `settle`. Numbers that depend on the order of the values are
        combined. Intrinsic times are added up, which keeps anytime-valid intervals valid, and
        the recent mean is the mean of the recent means. Rule states are left out, because each partition raises its
        own alerts.

        Source: docs/understand/statistics.md, "Many keys at once".
        """
        whole = cls(options)
        for state in states:
            rows, theirs = [whole._rows.row(key) for key in state.keys], {type(part): part for part in state._parts}
            for part in whole._parts:
                if type(part) in theirs:
                    part.add_part(theirs[type(part)], rows)
        return whole
