"""The causes of firing alerts: finds the segment values of an alert's pipeline, and looks when it is time.

A pipeline without segments has no search. A search costs two readings of the moments of the segment values at the
alarm, and one at each look; between them nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ragtide_schemas import Alert, to_milliseconds

from ..alerts.cause_search import MOST_NAMES, MOST_VALUES, CauseSearch, SegmentBefore, SegmentsNow
from ..alerts.evaluator import RuleEvaluator
from ..alerts.messages import awaiting_cause, explained_alert
from ..alerts.rule_state import RuleState
from ..events.batch import BLOCKS, EventBatch
from ..events.keys import EstimateKey
from ..statistics.causes.mix_shift import DesignEffects
from ..statistics.means.moments import MomentTable
from ..statistics.means.segment_moments import SegmentMoments
from ..statistics.tables.batches import Rows
from .cluster_rows import ClusterRows
from .panes import PaneTable
from .rows import KeyRows

LEAST_BEFORE: Final = 200
"""Values that the panes before a change must hold; else everything before the alarm is the stretch before."""


class DueLook(NamedTuple):
    """The part of a batch after which a search looks."""

    part: int
    row: int
    state: RuleState


class AlertCauses:
    """The searches for causes of the alerts of a state."""

    def __init__(
        self,
        rows: KeyRows,
        moments: MomentTable,
        rules: RuleEvaluator,
        *,
        panes: PaneTable | None,
        clusters: ClusterRows | None,
    ) -> None:
        self._rows, self._moments, self._rules = rows, moments, rules
        self._panes, self._clusters = panes, clusters
        self._searching: dict[RuleState, int] = {}
        # Rows of segment values by the key of their whole pipeline, of all rows before `_indexed`.
        self._values_of: dict[EstimateKey, list[int]] = {}
        self._indexed = 0

    def resume(self, row: int, state: RuleState) -> None:
        """Go on with the search of a loaded rule state, if it has one."""
        if state.search is not None and state.search.next_n is not None:
            self._searching[state] = row

    def wanted(self, row: int, alert: Alert) -> bool:
        """Return whether a cause is to be found: of a mean of a whole pipeline with segments that begins to fire."""
        return alert.status == "firing" and alert.quantity == "mean" and bool(self._names(row))

    def begin(self, row: int, alert: Alert) -> Alert:
        """Begin the search for the cause of an alert that fires; return the alert, which says that it is searched for.

        Moments and panes hold everything up to the alarm, and nothing after it.
        """
        state = self._state(row, alert)
        alert = awaiting_cause(alert)
        state.fired_as(alert)
        names = dict(list(self._names(row).items())[:MOST_NAMES])
        places = [row, *(place for values in names.values() for place in values.values())]
        at_alarm = self._read(places)
        reference = at_alarm
        if self._panes is not None and alert.began_at is not None:
            found = self._panes.before(places, to_milliseconds(alert.began_at))
            if found.n[0] >= LEAST_BEFORE:
                reference = SegmentMoments(found.n.astype(np.float64), found.mean, found.m2)
        state.search = CauseSearch(alert, _part(reference, np.array([0])), _part(at_alarm, np.array([0])))
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
        self._searching[state] = row
        return alert

    def end(self, row: int, alert: Alert) -> Alert:
        """End the search of an alert that resolves; return the alert with the cause that was found."""
        state = self._state(row, alert)
        search, state.search = state.search, None
        self._searching.pop(state, None)
        return alert if search is None or search.cause is None else alert.model_copy(update={"cause": search.cause})

    def due(self, batch: EventBatch, start: int) -> DueLook | None:
        """Return the next look that is due in a batch, whose values from `start` on are not in the moments yet."""
        found = []
        for state, row in self._searching.items():
            after = None if state.search is None else state.search.next_n
            if after is None:
                continue
            places = np.flatnonzero(batch.rows[start:] == row)
            missing = max(after - self._moments.n(row), 1)
            if missing <= places.size:
                found.append(DueLook(int(batch.part_of[start + places[missing - 1]]), row, state))
        return min(found, key=lambda one: (one.part, one.state.field), default=None)

    def look(self, due: DueLook, batch: EventBatch) -> Alert | None:
        """Take a look; return the alert as explained if the cause is named now."""
        state, search = due.state, due.state.search
        assert search is not None  # noqa: S101 - for the type checker: a due search is one
        names = self._names(due.row)
        segments = {
            name: {value: self._read([place]) for value, place in values.items()} for name, values in names.items()
        }
        now = SegmentsNow(self._read([due.row]), segments, self._effects(due.row), state.key.value_range)
        cause = search.look(now)
        if search.next_n is None:
            del self._searching[state]
        if cause is None:
            return None
        event = batch.source.event(int(batch.places[due.part]))
        return explained_alert(search.alert, cause, event.occurred_at, self._moments.n(due.row))

    def _state(self, row: int, alert: Alert) -> RuleState:
        return next(state for state in self._rules.of(row) if state.rule.name == alert.rule)

    def _names(self, row: int) -> dict[str, dict[str, int]]:
        """Return the rows of the values of each segment of a whole pipeline, by name; names and values are sorted."""
        keys = self._rows.keys
        for place in range(self._indexed, len(keys)):
            if keys[place].segment is not None:
                self._values_of.setdefault(keys[place]._replace(segment=None), []).append(place)
        self._indexed = len(keys)
        found: dict[str, dict[str, int]] = {}
        for value, place in sorted((str(keys[place].segment), place) for place in self._values_of.get(keys[row], ())):
            if self._moments.n(place):
                found.setdefault(value.partition("=")[0], {})[value] = place
        return dict(sorted(found.items()))

    def _read(self, rows: Sequence[int]) -> SegmentMoments:
        found = self._moments.read(list(rows))
        return SegmentMoments(found.n.astype(np.float64), found.mean, found.m2)

    def _effects(self, row: int) -> DesignEffects:
        if self._clusters is None:
            return DesignEffects()
        sums = self._clusters.sums.read([row])
        found = replace(self._moments.read([row]), clusters=sums)
        return DesignEffects.measured(found, blocks=self._clusters.options.by == BLOCKS)


def _part(moments: SegmentMoments, places: Rows) -> SegmentMoments:
    return SegmentMoments(moments.n[places], moments.mean[places], moments.m2[places])
