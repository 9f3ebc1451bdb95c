"""Evaluates the alert rules of a state, and raises their alerts with diagnosis, dependence and cause.

A search for a cause costs two readings of the moments of the segment values at the alarm, and one at each look; between
them nothing. A pipeline without segments has no search. An alert needs the numbers as of the part of the batch that
raised it, so `BatchAdding` adds a batch up to one part after the other. No clock, no I/O.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas import Alert, to_milliseconds
from ragtide_schemas.diagnosis import DIAGNOSED_N, PATTERNS, diagnose

from ..alerts.cause_search import (
    EXPLAINED_FAMILIES,
    MOST_NAMES,
    MOST_VALUES,
    CauseSearch,
    MomentsNow,
    SegmentBefore,
    StepKey,
    step_moments,
    steps_before,
)
from ..alerts.evaluator import Raised, RuleEvaluator, TakenFirstAnswers
from ..alerts.levels import FalseDiscoveryLevel, OwnLevel, SharedBudget
from ..alerts.messages import CERTAIN_EFFECT, MIXED_NOTE, explained_alert, restated
from ..alerts.own_values import OwnValuesRules
from ..alerts.rule_state import RuleState
from ..alerts.rule_values import BEGINNINGS, Arrived, RuleValues, ValueExtremes
from ..errors import reading
from ..events.batch import EventBatch, Scope, Times
from ..events.keys import VERSION, EstimateKey
from ..statistics.causes.mix_shift import DesignEffects
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.means.segment_moments import SegmentMoments
from ..statistics.tables.batches import Floats, Rows, grouped
from .cluster_rows import ClusterRows
from .level_rows import LevelRows
from .measured_rows import DependenceRows
from .open_clusters import ClusterEvent, TakenParts
from .options import StateOptions
from .pane_rows import PaneTable
from .rows import AddedBatch, ClosedClusters, KeyRows, StatePart, add_values
from .version_ends import VersionEnds, WatchedRules

LEAST_BEFORE: Final = 200
"""Values that the panes before a change must hold; else everything before the alarm is the stretch before."""


def _in_session(events: Sequence[ClusterEvent], row: int) -> list[tuple[float, str]]:
    scores = [
        (float(event.values[place]), event.interaction_id)
        for event in events
        for place in np.flatnonzero(event.rows == row).tolist()
    ]
    return scores if len(scores) in BEGINNINGS else []


class DueLook(NamedTuple):
    """The part of a batch after which a search looks."""

    part: int
    row: int
    state: RuleState


class AlertCauses:
    """The searches for causes of the alerts of a state."""

    def __init__(
        self, rows: KeyRows, rules: RuleEvaluator, panes: PaneTable | None, clusters: ClusterRows | None
    ) -> None:
        self._rows, self._moments, self._rules = rows, rows.moments, rules
        self._panes, self._clusters = panes, clusters
        self._searching: dict[RuleState, int] = {}
        # Rows of segment values by the key of their whole pipeline, of all rows before `_indexed`.
        self._values_of: dict[EstimateKey, list[int]] = {}
        # Rows of numbers of steps by their key without a metric.
        self._steps_of: dict[EstimateKey, dict[StepKey, int]] = {}
        self._indexed = 0

    def resume(self, row: int, state: RuleState) -> None:
        """Go on with the search of a loaded rule state, if it has one."""
        if state.search is not None and state.search.next_n is not None:
            self._searching[state] = row

    def wanted(self, row: int, alert: Alert) -> bool:
        """Return whether a cause is to be found: of a mean of a whole pipeline that begins to fire.

        The pipeline must have segments, or steps of retrieval and a metric of quality.
        """
        if alert.status != "firing" or alert.quantity != "mean":
            return False
        return bool(self._names(row) or self._steps(row))

    def begin(self, row: int, alert: Alert) -> Alert:
        """Begin the search for the cause of an alert that fires; return the alert, which says that it is searched for.

        Moments and panes hold everything up to the alarm, and nothing after it.
        """
        state = self._state(row, alert)
        names = dict(list(self._names(row).items())[:MOST_NAMES])
        steps = self._steps(row)
        alert = restated(alert, cause_sought=bool(names), step_sought=bool(steps))
        state.fired_as(alert)
        places = [row, *(place for values in names.values() for place in values.values()), *steps.values()]
        at_alarm = self._read(places)
        reference = at_alarm
        if self._panes is not None and alert.began_at is not None:
            before = self._panes.before(places, to_milliseconds(alert.began_at))
            if before.n[0] >= LEAST_BEFORE:
                reference = SegmentMoments(before.n.astype(np.float64), before.mean, before.m2)
        state.search = CauseSearch((_part(reference, np.array([0])), _part(at_alarm, np.array([0]))))
        state.search.alert = alert
        start = 1
        for name, values in names.items():
            mine = np.arange(start, start + len(values))
            # The most frequent values; among equals the first by name.
            kept = np.argsort(-at_alarm.n[mine], kind="stable")[:MOST_VALUES]
            state.search.segments[name] = SegmentBefore(
                name,
                tuple(list(values)[place] for place in kept.tolist()),
                kept.size == len(values),
                _part(reference, mine[kept]),
                _part(at_alarm, mine[kept]),
            )
            start += len(values)
        if steps:
            mine, keys = np.arange(start, start + len(steps)), list(steps)
            state.search.steps = steps_before(
                step_moments(keys, _part(reference, mine)), step_moments(keys, _part(at_alarm, mine))
            )
        self._searching[state] = row
        return alert

    def end(self, row: int, alert: Alert) -> Alert:
        """End the search of an alert that resolves; return the alert with the cause that was found."""
        state = self._state(row, alert)
        search, state.search = state.search, None
        self._searching.pop(state, None)
        known = {} if search is None else {"cause": search.cause, "moved_step": search.moved_step}
        return alert.model_copy(update=known)

    def due(self, batch: EventBatch, start: int) -> DueLook | None:
        """Return the next look that is due in a batch, whose values from `start` on are not in the moments yet."""
        looks = []
        for state, row in self._searching.items():
            after = None if state.search is None else state.search.next_n
            if after is None:
                continue
            places = np.flatnonzero(batch.rows[start:] == row)
            missing = max(after - self._moments.n(row), 1)
            if missing <= places.size:
                looks.append(DueLook(int(batch.part_of[start + places[missing - 1]]), row, state))
        return min(looks, key=lambda look: (look.part, look.state.field), default=None)

    def look(self, due: DueLook, batch: EventBatch) -> Alert | None:
        """Take a look; return the alert as explained if the cause is named now."""
        state, search = due.state, due.state.search
        assert search is not None  # noqa: S101 - for the type checker: a due search is one
        names = self._names(due.row)
        segments = {
            name: {value: self._read([place]) for value, place in values.items()} for name, values in names.items()
        }
        places = self._steps(due.row)
        steps = step_moments(list(places), self._read(list(places.values()))) if places else {}
        effects = DesignEffects()
        if self._clusters is not None:
            moments = replace(self._moments.read([due.row]), clusters=self._clusters.sums.read([due.row]))
            effects = DesignEffects.of_clusters(moments, blocks=self._clusters.options.by == BLOCKS)
        now = MomentsNow(self._read([due.row]), segments, effects, state.key.value_range, steps)
        explained = search.look(now)
        if search.next_n is None:
            del self._searching[state]
        if not explained:
            return None
        event = batch.source.event(int(batch.places[due.part]))
        return explained_alert(
            search.alert, search.cause, search.moved_step, event.occurred_at, self._moments.n(due.row)
        )

    def _state(self, row: int, alert: Alert) -> RuleState:
        return next(state for state in self._rules.of(row) if state.rule.name == alert.rule)

    def _names(self, row: int) -> dict[str, dict[str, int]]:
        # A new version changes the system and not the traffic, so versions explain no mix.
        keys = self._rows.keys
        self._index()
        names: dict[str, dict[str, int]] = {}
        for value, place in sorted((str(keys[place].segment), place) for place in self._values_of.get(keys[row], ())):
            if self._moments.n(place) and not value.startswith(f"{VERSION}="):
                names.setdefault(value.partition("=")[0], {})[value] = place
        return dict(sorted(names.items()))

    def _steps(self, row: int) -> dict[StepKey, int]:
        key = self._rows.keys[row]
        if key.segment is not None or not key.metric.startswith(EXPLAINED_FAMILIES):
            return {}
        self._index()
        steps = self._steps_of.get(key._replace(metric="", measure=None), {})
        counted = {step: place for step, place in sorted(steps.items()) if self._moments.n(place)}
        # Adherence alone says nothing of steps: the interactions have none.
        return counted if any(key.quantity not in ("adherence", "called", "asked") for key in counted) else {}

    def _index(self) -> None:
        keys = self._rows.keys
        for place in range(self._indexed, len(keys)):
            key = keys[place]
            if key.segment is not None:
                self._values_of.setdefault(key._replace(segment=None), []).append(place)
            elif (number := StepKey.of(key.metric, key.version)) is not None:
                self._steps_of.setdefault(key._replace(metric="", measure=None), {})[number] = place
        self._indexed = len(keys)

    def _read(self, rows: Sequence[int]) -> SegmentMoments:
        moments = self._moments.read(list(rows))
        return SegmentMoments(moments.n.astype(np.float64), moments.mean, moments.m2)


def _part(moments: SegmentMoments, places: Rows) -> SegmentMoments:
    return SegmentMoments(moments.n[places], moments.mean[places], moments.m2[places])


class BatchAdding:
    """A batch of which a part is added; the numbers are those of adding it at once, to the bit.

    Args:
        batch: events.
        late: whether each part came too late for its pane.
        closed: clusters that the batch closes.
        rows: with the moments and the weights of sampled values.
        dependence: of neighbouring values, None if it is not measured.
        panes: None without windows.
        clusters: None without clusters.
    """

    def __init__(
        self,
        batch: EventBatch,
        late: NDArray[np.bool_],
        *,
        closed: ClosedClusters | None,
        rows: KeyRows,
        dependence: DependenceRows | None,
        panes: PaneTable | None,
        clusters: ClusterRows | None,
    ) -> None:
        self.batch = batch
        self.values = 0
        """Number of values that the moments have."""
        self._late = late
        self._closed, self._clusters_added = closed, 0
        self._rows, self._dependence, self._panes, self._clusters = rows, dependence, panes, clusters
        self.before: Floats = np.empty(batch.values.shape)
        """For each value that is added the mean of its key before it, which predicts the first value of a pane."""
        self._parts = 0

    def until(self, part: int) -> None:
        """Add the values and the closed clusters up to a part, inclusive, to the moments and the sums."""
        if self._closed is not None and self._clusters is not None:
            closed = int(np.searchsorted(self._closed.parts, part, side="right"))
            if closed > self._clusters_added:
                self._clusters.add(self._closed, slice(self._clusters_added, closed))
                self._clusters_added = closed
        end = int(np.searchsorted(self.batch.part_of, part, side="right"))
        if end <= self.values:
            return
        added = slice(self.values, end)
        rows, values = self.batch.rows[added], self.batch.values[added]
        if self._dependence is not None:
            self._dependence.update(rows, values, self.batch.times_ms[self.batch.part_of[added]])
        by_row = self.batch.grouped if end - self.values == self.batch.values.size else None
        self.before[added] = self._rows.moments.update(rows, values, batch=by_row)
        add_values(self._rows.weights, self.batch, rows, added)
        self.values = end

    def panes_until(self, part: int) -> None:
        """Add the parts up to a part, inclusive, to the panes; the moments must have their values."""
        stop = part + 1
        if self._panes is None or stop <= self._parts:
            return
        start, end = np.searchsorted(self.batch.part_of, (self._parts, stop)).tolist()
        whole = stop - self._parts == self.batch.places.size
        some = self.batch if whole else self.batch.between(self._parts, stop)
        self._panes.add_batch(some, self._late[self._parts : stop], self.before[start:end])
        self._parts = stop

    def rest(self) -> None:
        """Add the rest of the batch."""
        last = self.batch.places.size - 1
        self.until(last)
        self.panes_until(last)


class StateAlerts(StatePart):
    """The alert rules on the keys of a state, and the alerts that they raised since the last commit.

    Args:
        own_values: rules with values of their own.
        dependence: of neighbouring values, None if it is not measured.
        panes: None without windows.
        clusters: None without clusters.
        levels: takes the values that arrive too; None if no level is watched.
    """

    kinds = (CheckpointField.ALERT_CLOCK, CheckpointField.RULE_STATE)

    def __init__(
        self,
        options: StateOptions,
        rows: KeyRows,
        own_values: OwnValuesRules,
        *,
        dependence: DependenceRows | None,
        panes: PaneTable | None,
        clusters: ClusterRows | None,
        levels: LevelRows | None = None,
    ) -> None:
        level = OwnLevel()
        budget = options.budget
        if budget.false_discovery_rate is not None:
            level = FalseDiscoveryLevel(budget, options.partitions)
        elif budget.false_alarms is not None:
            level = SharedBudget(budget.false_alarms / options.partitions, budget.period_ms)
        self.rules = RuleEvaluator(options.rules, level, options.origin)
        """Rules on values."""
        self._has_rules = bool(options.rules)
        self._own_values = own_values
        self._rows, self._dependence, self._clusters = rows, dependence, clusters
        # Of the batch that was taken last: whether each part is the first answer of a session, or by itself.
        self._independent = np.zeros(0, dtype=bool)
        self._levels = levels
        self._causes = AlertCauses(rows, self.rules, panes, clusters)
        self._ends = VersionEnds(
            rows,
            [
                WatchedRules(self.rules, lambda state: rows.changed.add(rows.row(state.key))),
                WatchedRules(own_values.evaluator, lambda state: own_values.changed.add(state.field)),
            ],
        )
        self._alerts: list[Alert] = []

    def add_keys(self, row: int, keys: Sequence[EstimateKey]) -> None:
        """Add the rules on keys."""
        if not self._has_rules:
            self.rules.add_rows_without_rules(len(keys))
            return
        for place, key in enumerate(keys, row):
            self.add_key(place, key)

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the rules on a key."""
        self.rules.add_row(key)
        self._ends.add_key(row, key)
        if self._clusters is not None and (key.pipeline, key.run) in self._clusters.scopes:
            self._begin_first_answers([row])

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Let the rules on rows take first answers of sessions."""
        self._begin_first_answers(rows)

    def complete(self) -> None:
        """Let rules begin or end to take first answers, if an older release or other settings wrote the checkpoint."""
        self._ends.complete()
        if self._clusters is not None and self._clusters.options.has_first_answers:
            self._begin_first_answers([row for row in range(len(self._rows)) if self._clusters.has(row)])
            return
        for row in range(len(self._rows)):
            for state in self.rules.of(row):
                if state.end_first_answers():
                    self.rules.refresh(row)

    def _begin_first_answers(self, rows: Sequence[int]) -> None:
        if self._clusters is not None and self._clusters.options.has_first_answers:
            for row in rows:
                self.rules.begin_first_answers(row)

    def firing(self) -> list[Alert]:
        """Return the alerts that fire."""
        return [*self.rules.firing(), *self._own_values.evaluator.firing()]

    def take_alerts(self) -> list[Alert]:
        """Return the alerts since the last call."""
        alerts, self._alerts = self._alerts, []
        return alerts

    def tick(self, time_ms: int) -> None:
        """End the alerts of versions that have ended, before the first part of an hour."""
        hour = time_ms // HOUR_MS
        if hour <= self.rules.hour or not self._has_rules:
            return
        self.rules.hour = hour
        for state, alert in self._ends.ended():
            own = self._rows.find(state.key)
            is_main = own is not None and state in self.rules.of(own)
            self._alerts.append(self._causes.end(own, alert) if is_main and own is not None else alert)

    def undecided(self, times_ms: Times) -> int:
        """Return the number of parts, given their times, before the first `tick` at which an alert may end."""
        return self._ends.undecided(times_ms, self.rules.hour) if self._has_rules else times_ms.size

    def take(self, added: AddedBatch) -> None:
        """Take note of the versions that a batch has values of."""
        if self._has_rules:
            self.rules.hour = max(self.rules.hour, int(added.batch.times_ms.max(initial=0)) // HOUR_MS)
            self._ends.take(added.batch)

    def arrivals(self, batch: EventBatch) -> tuple[list[Arrived], ClosedClusters | None]:
        """Return the values and the closed clusters of a batch that rules or levels take, and the closed clusters."""
        rules = self.rules
        places = rules.with_rules(batch.rows)
        if self._levels is not None:
            wanted = self._levels.watch(batch.rows)
            wanted[places] = True
            places = np.flatnonzero(wanted)
        costs = rules.costs(batch.rows[places]) if self._has_rules else None
        taken, closed = (None, None) if self._clusters is None else self._clusters.close(batch, places, costs)
        self._independent = np.ones(batch.places.size, dtype=bool)
        if taken is not None and self._clusters is not None and self._clusters.options.has_first_answers:
            self._independent = ~taken.inside | taken.is_first
        arrived = self._single_values(batch, places, costs, None if taken is None else taken.inside)
        if taken is not None:
            arrived += self._first_answers(batch, places, costs, taken)
        if closed is not None:
            all_closed = np.arange(closed.rows.size)
            within = rules.adjusted.within(all_closed, closed.rows, closed.values.values, closed.clusters, closed.sizes)
            arrived.append(Arrived(replace(closed.values, within=within), closed.parts))
        return arrived, closed

    def _single_values(
        self, events: EventBatch, places: Rows, costs: Floats | None, inside: NDArray[np.bool_] | None
    ) -> list[Arrived]:
        if inside is not None:
            single = ~inside[events.part_of[places]]
            places, costs = places[single], None if costs is None else costs[single]
        if not places.size:
            return []
        rows, parts = events.rows[places], events.part_of[places]
        batch = grouped(rows)
        numbers = np.empty_like(rows)
        numbers[batch.order] = batch.occurrence + 1
        numbers += self._rows.moments.counts(rows)
        hours = np.maximum(events.newest_ms, events.times_ms)[parts] // HOUR_MS
        values = RuleValues(
            rows, events.values[places], events.times_ms[parts], numbers, events.places[parts], events.source, hours,
            costs, within=self.rules.adjusted.within(places, events.rows, events.values, events.part_of),
        )  # fmt: skip
        return [Arrived(values, parts)]

    def _first_answers(
        self, events: EventBatch, places: Rows, costs: Floats | None, taken: TakenParts
    ) -> list[Arrived]:
        inside = taken.inside[events.part_of[places]]
        if not inside.any():
            return []
        places, costs = places[inside], None if costs is None else costs[inside]
        parts, rows = events.part_of[places], events.rows[places]
        # The values of one row in a session so far, where it has one of the numbers of first answers.
        sessions = {
            place: _in_session(taken.beginnings[part], row)
            for place, (part, row) in enumerate(zip(parts.tolist(), rows.tolist(), strict=True))
            if part in taken.beginnings and self.rules.takes_first_answers(row)
        }
        arrived = []
        for length in BEGINNINGS:
            wanted = taken.is_first[parts]
            if length > 1:
                wanted = np.zeros(places.size, dtype=bool)
                wanted[[place for place, values in sessions.items() if len(values) == length]] = True
            counted = self.rules.first_answers(length, rows, wanted, costs)
            if counted.places.size:
                whole = None if length == 1 else [sessions[place] for place in counted.places.tolist()]
                arrived.append(self._beginnings(events, places, counted, length, whole))
        return arrived

    @staticmethod
    def _beginnings(
        events: EventBatch,
        places: Rows,
        counted: TakenFirstAnswers,
        length: int,
        sessions: Sequence[Sequence[tuple[float, str]]] | None,
    ) -> Arrived:
        places = places[counted.places]
        parts = events.part_of[places]
        hours = np.maximum(events.newest_ms, events.times_ms)[parts] // HOUR_MS
        values = RuleValues(
            events.rows[places], events.values[places], events.times_ms[parts], counted.numbers, events.places[parts],
            events.source, hours, counted.costs, first=np.full(places.size, length), answers=counted.answers,
        )  # fmt: skip
        if sessions is None:
            return Arrived(values, parts)
        scores = np.array([[value for value, _ in session] for session in sessions])
        lowest, highest = scores.argmin(axis=1), scores.argmax(axis=1)
        lowest_ids, highest_ids = (
            [session[place][1] for session, place in zip(sessions, which.tolist(), strict=True)]
            for which in (lowest, highest)
        )
        values = replace(
            values,
            values=scores.mean(axis=1),
            sizes=np.full(places.size, length),
            mean_squares=(scores**2).mean(axis=1),
            extremes=ValueExtremes(scores.min(axis=1), scores.max(axis=1), lowest_ids, highest_ids),
        )
        return Arrived(values, parts)

    def raise_alerts(self, adding: BatchAdding, arrived: Sequence[Arrived]) -> None:
        """Evaluate the rules on a batch, raise their alerts and explain alerts, with the numbers as of their parts."""
        # Of one part the rules on values come first.
        raised = [*self.rules.evaluate(arrived), *self._own_values.take(adding.batch, self._independent)]
        waiting = deque(sorted(raised, key=lambda alert: alert.position))
        while True:
            look = self._causes.due(adding.batch, adding.values)
            if waiting and (look is None or waiting[0].position <= look.part):
                first = waiting.popleft()
                adding.until(first.position)
                self._alerts.append(self._raised(first, adding))
                if first.alert.status == "firing":
                    self._ends.begin(first.alert)
            elif look is not None:
                adding.until(look.part)
                explained = self._causes.look(look, adding.batch)
                if explained is not None:
                    diagnosis = self._diagnosis(self._rows.keys[look.row])
                    self._alerts.append(explained.model_copy(update={"diagnosis": diagnosis}))
            else:
                return

    def _raised(self, raised: Raised, adding: BatchAdding) -> Alert:
        alert = raised.alert
        if alert.covariate is not None:
            return alert
        if alert.observed_of == "first_answers":
            # Their numbers are those of first answers.
            alert = alert.model_copy(update={"n": self._rows.moments.n(raised.row)})
        kappa = alert.quantity == "kappa"
        if alert.status == "resolved":
            return alert if kappa else self._causes.end(raised.row, alert)
        alert = alert.model_copy(update={"diagnosis": self._diagnosis(self._rows.keys[raised.row], alert)})
        if kappa:
            return alert
        alert = self._with_dependence(alert, raised.row)
        if self._rows.has_mixed_weights(raised.row):
            alert = restated(alert, notes=(*alert.notes, MIXED_NOTE))
        if not self._causes.wanted(raised.row, alert):
            return alert
        adding.panes_until(raised.position)
        return self._causes.begin(raised.row, alert)

    def _with_dependence(self, alert: Alert, row: int) -> Alert:
        key = self._rows.keys[row]
        whole = row if key.segment is None else self._rows.find(key._replace(segment=None))
        if self._dependence is None or whole is None or not self._dependence.measures(whole):
            return alert
        measured = self._dependence.read(np.array([whole]))
        effect = float(measured.design_effect[0])
        if np.isnan(effect):
            return alert
        clusters = None if self._clusters is None else self._clusters.scopes.get((key.pipeline, key.run))
        dependence = None
        if clusters is None and measured.certain[0] > CERTAIN_EFFECT:
            dependence = "ignored"
        elif clusters is not None and self._clusters is not None and self._clusters.options.measures_blocks:
            dependence = None if measured.settled[0] else "long"
        return restated(alert, design_effect=effect, dependence=dependence)

    def _diagnosis(self, key: EstimateKey, alert: Alert | None = None) -> tuple[str, ...]:
        """Return the diagnosis of a scope by its recent scores, because means of all scores lag behind the alert.

        Recent scores still hold some from before a change, so the metric of an alert has its mean since the change.
        """
        recent = {}
        for metric in sorted({metric for pattern in PATTERNS for metric in pattern.conditions}):
            own = key._replace(metric=metric, measure=None)
            row = self._rows.find(own)
            if row is not None and self._rows.moments.n(row) >= DIAGNOSED_N:
                lowest, highest = own.value_range
                recent[metric] = lowest + (highest - lowest) * self._rows.moments.recent(row)
        if alert is None or alert.quantity != "mean" or alert.metric not in recent:
            return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))
        if alert.observed is not None and (alert.observed_n or 0) >= DIAGNOSED_N:
            recent[alert.metric] = alert.observed
        return tuple(diagnosis.sentence() for diagnosis in diagnose(recent))

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the states of the rules that changed, and the clock of the rules."""
        numbers = {}
        for row in sorted(self._rows.changed):
            if self.rules.of(row):
                numbers[row] = self._rows.moments.n(row)
                if self._clusters is not None and self._clusters.has(row):
                    numbers[row] = int(self._clusters.sums.values(np.array([row]))[0])
        states = self._own_values.take_changes() | self.rules.dump(numbers)
        fields = {CheckpointField.RULE_STATE + name: data for name, data in states.items()}
        if self._rows.changed:
            fields[CheckpointField.ALERT_CLOCK] = self.rules.dump_clock()
        return fields, []

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set the states of the rules; return the fields of removed rules, whose alerts are withdrawn."""
        if kind == CheckpointField.ALERT_CLOCK:
            for _, data in fields:
                with reading(kind):
                    self.rules.load_clock(data)
            return []
        states = {state.field: (row, state) for row in range(len(self._rows)) for state in self.rules.of(row)}
        gone = []
        for name, data in fields:
            with reading(kind + name):
                if self._own_values.load(name, data):
                    continue
                if name in states:
                    row, state = states[name]
                    self.rules.load(row, state, data)
                    self._causes.resume(row, state)
                else:
                    gone.append(kind + name)
                    self._alerts += RuleState.withdrawn(data)
        return gone
