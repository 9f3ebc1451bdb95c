"""The table of a state: one row per key, to which batches of events are added. No clock, no I/O."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.alert_book import AlertBook
from ragtide_schemas import Alert, MetricEvent
from ragtide_schemas.diagnosis import DIAGNOSED_N, PATTERNS, Score, diagnose

from ..alerts.evaluator import Raised, RuleEvaluator
from ..alerts.kappa_rules import KappaRules
from ..alerts.levels import FalseDiscoveryLevel, OwnLevel, SharedBudget
from ..alerts.messages import CERTAIN_EFFECT, MIXED_SENTENCE, dependent_sentence, unsettled_sentence
from ..alerts.rule_values import Arrived, RuleValues
from ..events.batch import BLOCKS, EventBatch, Scope
from ..events.keys import HIDDEN, EstimateKey, PairKey, absent_name
from ..events.values import EventPart, ScorePair, estimate_key, pair_key, scopes_of, usage_keys
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.intervals.quantiles import Quantiles, counted
from ..statistics.means.dependence import Moved
from ..statistics.means.moments import MomentTable
from ..statistics.tables.batches import Floats, Rows, grouped
from ..statistics.tables.tables import doubled
from .absence_rows import AbsenceRows
from .alert_causes import AlertCauses
from .batch_adding import BatchAdding
from .capped import CappedRecords
from .capping import Admission
from .cluster_rows import ClusterRows
from .declarations import Declarations
from .dependence_rows import DependenceRows
from .history import HistoryRows
from .options import StateOptions
from .pairs import PairRows
from .panes import PaneTable
from .rows import KeyRows
from .swing_rows import SwingRows
from .weight_rows import WeightRows

MOST_MAPPINGS: Final = 20_000
"""Most cached row mappings."""


@dataclass(frozen=True, slots=True)
class RowMapping:
    """The rows that a part of an event adds to."""

    rows: list[int]
    """Rows of the values, scope by scope, and then of time and cost of labeling if they count."""
    absent: list[int]
    """Rows of the absent metrics."""
    pairs: list[int]
    """Rows of the pairs, each in every scope."""
    scopes: int
    """Number of scopes."""


class StateTable:
    """Moments, panes, quantiles and rules of every key in arrays, one row per key.

    Attributes:
        options: of the state.
        declarations: of metrics that are not ragtide's own.
        rows: keys with their counts.
        moments: moments of every row.
        rules: alert rules on every row.
        kappa: alert rules on pairs of scores and gold scores.
        panes: panes of every row; None without windows.
        history: open panes of the keys that have a history; None without history.
        pairs: pairs of a reference and a proxy score.
        absences: rows that count absences of metrics by reason.
        quantiles: quantiles by row.
        clusters: clusters of dependent values; None if the settings ask for none.
        swings: swing over the day of the keys that rules watch.
        dependence: dependence of neighbouring values; None if the settings ask for no clusters.
        weights: sums over values that were sampled from the traffic.
        causes: searches for the causes of firing alerts.
        admission: limits the scopes with keys.
        book: the firing alerts without statistics.
        capped: counts of `other`.
        changed: rows that changed since the last commit.
        alerts: alerts since the last commit.
    """

    def __init__(self, options: StateOptions) -> None:
        self.options = options
        self.declarations = Declarations()
        self.rows = KeyRows()
        self.admission = Admission(options.caps)
        self.book = AlertBook()
        self.capped = CappedRecords(options.caps, self.admission, options.origin, self.book)
        # Not bounded, because time and cost of labeling have no highest value. Scores are checked before.
        self.moments = MomentTable(bounded=False)
        level = OwnLevel()
        if options.false_discovery is not None:
            level = FalseDiscoveryLevel(options.false_discovery)
        elif options.budget is not None:
            level = SharedBudget(options.budget.false_alarms, options.budget.period_ms)
        self.rules = RuleEvaluator(options.rules, level, options.origin)
        sessions = options.clusters is not None and options.clusters.by != BLOCKS
        self.kappa = KappaRules(options.rules, options.origin, sessions=sessions)
        self.panes = PaneTable(options.panes) if options.panes.windows else None
        self.pairs = PairRows()
        self.absences = AbsenceRows()
        self.quantiles: dict[int, Quantiles] = {}
        # Whether a row has quantiles.
        self._sketched = np.zeros(64, dtype=bool)
        self.clusters = None if options.clusters is None else ClusterRows(options.clusters)
        self.history: HistoryRows | None = None
        if options.history is not None:
            self.history = HistoryRows(options.history, options.panes.lateness_ms, self.clusters)
        self.dependence = None if options.clusters is None else DependenceRows()
        self.weights = WeightRows()
        self.causes = AlertCauses(self.rows, self.moments, self.rules, panes=self.panes, clusters=self.clusters)
        self.swings = SwingRows()
        self._mappings: dict[tuple[object, ...], RowMapping] = {}
        self.changed: set[int] = set()
        self.alerts: list[Alert] = []

    def declare(self, event: MetricEvent) -> None:
        """Add the declarations of an event whose rows exist."""
        pipeline = self.admission.pipeline_of(event)
        self.declarations.take(event if pipeline == event.pipeline else event.model_copy(update={"pipeline": pipeline}))

    def row_mapping(self, part: EventPart) -> RowMapping:
        """Return the rows that a part of an event adds to; new keys get rows."""
        event, extracted = part.event, part.extracted
        scopes = scopes_of(event, segments=self.options.segments)
        # Cached, because events of one pipeline and segment add to the same rows.
        absent = self.absences.known(event.absent) if part.counts_absences else ()
        usage = usage_keys(event) if part.counts_usage else ()
        pairs = tuple(pair[:4] for pair in extracted.pairs)
        declared = event.declared and tuple((name, one.measure) for name, one in event.declared.items())
        seen = (
            event.pipeline, event.run, scopes, event.profile, event.labeler, event.labeler_version, extracted.names,
            absent, pairs, usage, declared,
        )  # fmt: skip
        mapping = self._mappings.get(seen)
        if mapping is None:
            rows = [self.row(estimate_key(event, segment, name)) for segment in scopes for name in extracted.names]
            missing = [self.row(estimate_key(event, segment, name)) for segment in scopes for name, _ in absent]
            missing += [self.row(estimate_key(event, None, absent_name(*absence))) for absence in absent]
            rows += [self.row(key) for key in usage]
            paired = [self._pair(event, segment, pair) for pair in extracted.pairs for segment in scopes]
            if len(self._mappings) >= MOST_MAPPINGS:
                # There may be far more combinations of segment values than keys.
                self._mappings.clear()
            mapping = self._mappings[seen] = RowMapping(rows, missing, paired, len(scopes))
        return mapping

    def row(self, key: EstimateKey) -> int:
        """Return the row of a key; a new key gets a row."""
        row = self.rows.find(key)
        if row is not None:
            return row
        self.moments.add_row()
        if self.clusters is not None:
            self.clusters.add_row(key)
        if self.dependence is not None:
            self.dependence.add_row(len(self.rows), key)
        self.weights.add_row(len(self.rows), key)
        if self.history is not None:
            self.history.add_row(len(self.rows), key)
        self.rules.add_row(key)
        self.swings.add_row(len(self.rows), key, ruled=bool(self.rules.of(len(self.rows))))
        row = self.rows.add(key)
        self.admission.add(key)
        self.absences.add(key, row)
        if row == self._sketched.size:
            self._sketched = doubled(self._sketched)
        if self.options.quantiles and key.segment is None and not key.metric.startswith(HIDDEN):
            self.quantiles[row] = Quantiles()
            self._sketched[row] = True
        return row

    def _pair(self, event: MetricEvent, segment: str | None, pair: ScorePair) -> int:
        key = pair_key(event, segment, pair)
        row = self.pairs.find(key)
        return self.pair_row(key) if row is None else row

    def pair_row(self, key: PairKey) -> int:
        """Add a row of pairs for a new key, and return it."""
        proxy_row = self.row(key.proxy)
        row = self.pairs.add_row(key, proxy_row)
        self.kappa.add_row(row, key, proxy_row)
        return row

    def values_of(self, row: int) -> int:
        """Return the number of values of a row that alert rules have taken."""
        if self.clusters is not None and self.clusters.has(self.rows.keys[row]):
            return int(self.clusters.sums.values(np.array([row]))[0])
        return self.moments.n(row)

    def prepare_clusters(self, scope: Scope) -> None:
        """Begin the clusters of a pipeline and run, or measure the length of its blocks again."""
        assert self.clusters is not None  # noqa: S101 - for the type checker: a batch had a cluster
        clusters = self.clusters.scopes.get(scope)
        if clusters is None:
            self._begin_clusters(self.clusters, scope)
        elif self.dependence is not None:
            ruled = [row for row in range(len(self.rows)) if self.rules.of(row)]
            clusters.set_block(self.dependence.block(scope, self.rows.keys, ruled, self.moments))

    def _begin_clusters(self, clusters: ClusterRows, scope: Scope) -> None:
        rows = clusters.begin(scope, self.rows.keys, self.moments)
        self.changed.update(rows)
        self.weights.begin_clusters(rows)
        self.pairs.begin_clusters(scope)
        if self.panes is not None:
            self.panes.begin_clusters(rows)
        if self.history is not None:
            self.history.begin_clusters(rows)

    def take(self, batch: EventBatch) -> None:
        """Add a batch."""
        places = self.rules.with_rules(batch.rows) if self.options.rules else np.zeros(0, dtype=np.intp)
        costs = self.rules.costs(batch.rows[places]) if self.options.rules else None
        inside, closed = (None, None) if self.clusters is None else self.clusters.take(batch, places, costs)
        arrived = self._single_values(batch, places, costs, inside)
        if closed is not None:
            every = np.arange(closed.rows.size)
            within = self.rules.adjusted.within(every, closed.rows, closed.values.values, closed.clusters, closed.sizes)
            arrived.append(Arrived(replace(closed.values, within=within), closed.parts))
        # Of one part the rules on values come first.
        raised = sorted([*self.rules.evaluate(arrived), *self.kappa.take(batch)], key=lambda one: one.position)
        for these in arrived:
            self.swings.take(these.values)
        late = np.zeros(batch.times_ms.shape, dtype=bool)
        if self.panes is not None:
            late = self.options.panes.late(batch.times_ms, batch.newest_ms)
        adding = BatchAdding(
            batch,
            late,
            closed=closed,
            moments=self.moments,
            weights=self.weights,
            dependence=self.dependence,
            panes=self.panes,
            clusters=self.clusters,
        )
        self._raise(adding, raised)
        adding.rest()
        of = batch.part_of
        out_of_order = batch.times_ms < batch.newest_ms
        self.rows.count(batch.absent, batch.rows[late[of]], batch.rows[out_of_order[of]])
        self.rows.touch(batch.rows, batch.times_ms[of])
        self.rows.touch(batch.absent, batch.times_ms[batch.absent_of])
        self.rows.finite(batch)
        self._sketch(batch)
        if batch.pairs.size:
            self.pairs.add(batch.pairs, batch.scores)
        if closed is not None:
            self.changed.update(closed.rows.tolist())
            self.weights.take_clusters(closed)
            if closed.pairs is not None:
                self.pairs.close(closed, closed.pairs)
            if self.panes is not None:
                self.panes.take_clusters(closed, batch)
        if self.history is not None:
            self.history.take(batch, closed, adding.before)
            self.history.close(batch, self.rows)
        self.changed.update(batch.grouped.rows.tolist(), batch.absent.tolist())

    def _single_values(
        self, events: EventBatch, places: Rows, costs: Floats | None, inside: NDArray[np.bool_] | None
    ) -> list[Arrived]:
        """Return the single values that rules take, with their parts; nothing without such a value.

        Args:
            events: batch.
            places: of the values whose keys have rules.
            costs: of these values.
            inside: which parts belong to clusters, whose values count when the cluster is closed.
        """
        if inside is not None:
            single = ~inside[events.part_of[places]]
            places, costs = places[single], None if costs is None else costs[single]
        if not places.size:
            return []
        rows, of = events.rows[places], events.part_of[places]
        batch = grouped(rows)
        numbers = np.empty_like(rows)
        numbers[batch.order] = batch.occurrence + 1
        numbers += self.moments.counts(rows)
        hours = np.maximum(events.newest_ms, events.times_ms)[of] // HOUR_MS
        values = RuleValues(
            rows, events.values[places], events.times_ms[of], numbers, events.places[of], events.source, hours, costs,
            within=self.rules.adjusted.within(places, events.rows, events.values, events.part_of),
        )  # fmt: skip
        return [Arrived(values, of)]

    def _raise(self, adding: BatchAdding, raised: list[Raised]) -> None:
        """Raise the alerts of a batch, and explain alerts; both need the moments as of a part of the batch."""
        waiting = deque(raised)
        while True:
            look = self.causes.due(adding.batch, adding.values)
            if waiting and (look is None or waiting[0].position <= look.part):
                one = waiting.popleft()
                adding.until(one.position)
                self.alerts.append(self._raised(one, adding))
            elif look is not None:
                adding.until(look.part)
                explained = self.causes.look(look, adding.batch)
                if explained is not None:
                    told = self._diagnosis(self.rows.keys[look.row])
                    self.alerts.append(explained.model_copy(update={"diagnosis": told}))
            else:
                return

    def _raised(self, one: Raised, adding: BatchAdding) -> Alert:
        """Return an alert with the diagnosis and the dependence as of the part that raised it."""
        alert = one.alert
        kappa = alert.quantity == "kappa"
        if alert.status == "resolved":
            return alert if kappa else self.causes.end(one.row, alert)
        alert = alert.model_copy(update={"diagnosis": self._diagnosis(self.rows.keys[one.row], alert)})
        if kappa:
            return alert
        alert = self._with_dependence(alert, one.row)
        if self.weights.mixed(one.row, self.moments.n(one.row)):
            alert = alert.model_copy(update={"message": alert.message + MIXED_SENTENCE})
        if not self.causes.wanted(one.row, alert):
            return alert
        adding.panes_until(one.position)
        return self.causes.begin(one.row, alert)

    def _with_dependence(self, alert: Alert, row: int) -> Alert:
        """Return an alert with the measured design effect, and what it means for the false alarms of the rule."""
        key = self.rows.keys[row]
        whole = row if key.segment is None else self.rows.find(key._replace(segment=None))
        if self.dependence is None or whole is None or not self.dependence.measures(whole):
            return alert
        moved = None
        if whole == row and alert.quantity == "mean" and alert.observed is not None and alert.observed_n is not None:
            lowest, highest = key.value_range
            moved = Moved(np.array([alert.observed_n]), np.array([(alert.observed - lowest) / (highest - lowest)]))
        found = self.dependence.read(np.array([whole]), self.moments, moved)
        effect = float(found.design_effect[0])
        if np.isnan(effect):
            return alert
        clusters = None if self.clusters is None else self.clusters.scopes.get((key.pipeline, key.run))
        sentence = ""
        if clusters is None and found.certain[0] > CERTAIN_EFFECT:
            sentence = dependent_sentence(effect)
        elif clusters is not None and self.options.clusters is not None and self.options.clusters.measures_blocks:
            sentence = "" if found.settled[0] else unsettled_sentence(clusters.block)
        return alert.model_copy(update={"design_effect": effect, "message": alert.message + sentence})

    def _diagnosis(self, key: EstimateKey, alert: Alert | None = None) -> tuple[str, ...]:
        """Return the diagnosis of a scope by its recent scores, because means of all scores lag behind the alert.

        Recent scores still hold some from before a change, so the metric of an alert has its mean since the change.
        """
        recent = {}
        for metric in sorted({metric for pattern in PATTERNS for metric in pattern.conditions}):
            own = key._replace(metric=metric, measure=None)
            row = self.rows.find(own)
            if row is not None and self.moments.n(row) >= DIAGNOSED_N:
                lowest, highest = own.value_range
                recent[metric] = Score(lowest + (highest - lowest) * self.moments.recent(row))
        if alert is None or alert.quantity != "mean" or alert.metric not in recent:
            return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))
        if alert.observed is not None and (alert.observed_n or 0) >= DIAGNOSED_N:
            recent[alert.metric] = Score(alert.observed)
        return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))

    def _sketch(self, batch: EventBatch) -> None:
        if not self.quantiles:
            return
        places = np.flatnonzero(self._sketched[batch.rows])
        for row, key, count in counted(batch.rows[places], batch.values[places]):
            self.quantiles[row].add_bin(key, count)
