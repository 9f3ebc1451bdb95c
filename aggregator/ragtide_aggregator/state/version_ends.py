"""Ends the alerts of versions that have ended: of a criterion, an evaluator or a labeler. No clock, no I/O.

Ends are decided at ticks: before the first event of an hour, in event time of the partition. So they depend on the
events and their order alone, and not on the cuts of batches, if a batch ends at each tick at which an alert may end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ragtide_schemas import Alert, from_milliseconds

from ..alerts.evaluator import RuleEvaluator
from ..alerts.messages import VersionEnd, ended_alert
from ..alerts.rule_state import RuleState
from ..alerts.version_watch import LEAST_SILENT, REPLACED_MS, SILENT_MS, VersionWatch, digests
from ..events.batch import EventBatch, Times
from ..events.keys import GOLD_LABELER, LATENCY, EstimateKey, scored_metric
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.tables.batches import Rows
from .rows import KeyRows


class WatchedRules(NamedTuple):
    """Rules whose alerts are watched."""

    evaluator: RuleEvaluator
    changed: Callable[[RuleState], object]
    """Takes note that a state changed, so that the next commit writes it."""


class VersionEnds:
    """The versions of the alerts that fire.

    The series of an alert are the scores of its metric by its labeler and version, of the whole pipeline: a segment
    value may rest while its pipeline continues. Scores that people gave have no version that ends.
    """

    def __init__(self, rows: KeyRows, watched: Sequence[WatchedRules]) -> None:
        self._rows, self._watched = rows, watched
        # Rows of all versions of a metric of a whole pipeline and run.
        self._versions: defaultdict[tuple[str, str | None, str], list[int]] = defaultdict(list)

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Take note of a new key."""
        if key.segment is None:
            self._versions[key.pipeline, key.run, key.metric].append(row)

    def begin(self, alert: Alert) -> None:
        """Begin to watch the version of an alert that fires; the moments are those at the alarm."""
        for _, state in self._firing():
            if state.firing is not None and state.firing.alert_id == alert.alert_id:
                self._begin(state)

    def _begin(self, state: RuleState) -> None:
        row, key = self._row(state), state.key
        if row is None or key.labeler == GOLD_LABELER:
            return
        others = [self._rows.keys[other] for other in self._others(row) if self._rows.moments.n(other)]
        interactions = self._interactions(key)
        state.watch = VersionWatch(interactions, self._rows.moments.n(row), interactions, digests(others))

    def complete(self) -> None:
        """Watch the versions of alerts in a checkpoint of an older release."""
        for rules, state in self._firing():
            if state.watch is None:
                self._begin(state)
                if state.watch is not None:
                    rules.changed(state)

    def undecided(self, times_ms: Times, hour: int) -> int:
        """Return the number of parts before the first tick at which an alert may end; all if there is none.

        Args:
            times_ms: event times of the parts that come next.
            hour: newest hour before them.
        """
        silences = [
            state.watch.silence(self._interactions(state.key)) for _, state in self._firing() if state.watch is not None
        ]
        # An alert may fire at the first of these parts, and each of them is at most one interaction.
        first = max(LEAST_SILENT - max(silences, default=0), 1)
        if times_ms.size <= first:
            return times_ms.size
        hours = times_ms // HOUR_MS
        before = np.maximum.accumulate(np.concatenate([[hour], hours[:-1]]))
        ticks = np.flatnonzero(hours[first:] > before[first:])
        return first + int(ticks[0]) if ticks.size else times_ms.size

    def take(self, batch: EventBatch) -> None:
        """Take note of the last value of each version in a batch, whose values the moments have."""
        traffic: dict[tuple[str, str | None], Rows] = {}
        for rules, state in self._firing():
            watch, row = state.watch, self._row(state)
            if watch is None or row is None:
                continue
            parts = np.concatenate([batch.part_of[batch.rows == row], batch.absent_of[batch.absent == row]])
            if not parts.size:
                continue
            scope = state.key.pipeline, state.key.run
            if scope not in traffic:
                traffic[scope] = batch.part_of[np.isin(batch.rows, self._versions[*scope, LATENCY])]
            later = traffic[scope].size - int(np.searchsorted(traffic[scope], parts.max(), side="right"))
            last = self._interactions(state.key) - later
            if last > watch.last:
                watch.last = last
                rules.changed(state)

    def ended(self) -> Iterator[tuple[RuleState, Alert]]:
        """End the alerts of versions that have ended; yield the states of their rules with the resolved alerts."""
        ends = [(rules, state, self._end(state)) for rules, state in self._firing()]
        for rules, state, end in sorted(ends, key=lambda ended: ended[1].field):
            if end is None or state.firing is None:
                continue
            alert = ended_alert(state.firing, end)
            rules.evaluator.end_alert(state)
            rules.changed(state)
            yield state, alert

    def _end(self, state: RuleState) -> VersionEnd | None:
        watch, row = state.watch, self._row(state)
        if watch is None or row is None:
            return None
        interactions = self._interactions(state.key)
        if not watch.is_silent(interactions, self._rows.moments.n(row)):
            return None
        traffic = self._versions[state.key.pipeline, state.key.run, LATENCY]
        now_ms, last_ms = max(self._newest_ms(other) for other in traffic), self._newest_ms(row)
        others = (other for other in self._others(row) if self._rows.moments.n(other))
        new = [other for other in others if watch.is_new(self._rows.keys[other])]
        if now_ms - last_ms < (REPLACED_MS if new else SILENT_MS):
            return None
        newest = max(new, key=lambda other: (self._newest_ms(other), self._rows.name(other)), default=None)
        successor = None if newest is None else self._rows.keys[newest]
        last, now = (from_milliseconds(time_ms) for time_ms in (last_ms, now_ms))
        return VersionEnd(self._rows.keys[row], successor, last, now, watch.silence(interactions))

    def _firing(self) -> Iterator[tuple[WatchedRules, RuleState]]:
        for rules in self._watched:
            for state in rules.evaluator.firing_states:
                yield rules, state

    def _row(self, state: RuleState) -> int | None:
        key = state.key._replace(segment=None, metric=scored_metric(state.key.metric))
        return self._rows.find(key if state.rule.covariate is None else key._replace(metric=LATENCY, measure=None))

    def _others(self, row: int) -> list[int]:
        key = self._rows.keys[row]
        return [other for other in self._versions[key.pipeline, key.run, key.metric] if other != row]

    def _interactions(self, key: EstimateKey) -> int:
        return sum(self._rows.moments.n(row) for row in self._versions[key.pipeline, key.run, LATENCY])

    def _newest_ms(self, row: int) -> int:
        return int(self._rows.updated_ms[row])
