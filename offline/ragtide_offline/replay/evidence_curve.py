"""Follows the evidence of one rule on one series while a recording is replayed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from math import exp
from typing import Any, Final

import numpy as np

from ragtide_aggregator.alerts.rule_state import RuleState
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.state import AggregatorState
from ragtide_schemas import Alert
from ragtide_schemas.alert_evidence import EvidencePoint

POINTS: Final = 400
"""About how many points a curve has; each alarm adds one."""


@dataclass(frozen=True, slots=True)
class FollowedRule:
    """The rule of an alert on the series that the alert is about, and the range of time to follow it."""

    alert: Alert
    start: datetime
    end: datetime
    """End of the range, not followed itself."""

    def covers(self, at: datetime) -> bool:
        """Return whether a time is in the range."""
        return self.start <= at < self.end

    def raised(self, alert: Alert) -> bool:
        """Return whether the rule raised an alert on this series."""
        return alert.rule == self.alert.rule and _series_of(alert) == _series_of(self.alert)

    def state_in(self, state: AggregatorState) -> RuleState | None:
        """Return the state of the rule; None before the first value. A rule on kappa has none."""
        for row, key in enumerate(state.keys):
            if key.run is None and _series_of(key) == _series_of(self.alert):
                for rule_state in state.rules_of(row):
                    if rule_state.rule.name == self.alert.rule:
                        return rule_state
        return None


def _series_of(about: Alert | EstimateKey) -> tuple[str | None, ...]:
    return about.pipeline, about.segment, about.profile, about.labeler, about.labeler_version


class EvidenceCurve:
    """The curve of a rule in one partition.

    Args:
        followed: the rule.
        total: number of metric events in its range of time, over all partitions.
        alerts: alerts of the partition so far by id, in the order in which they fired.
    """

    def __init__(self, followed: FollowedRule, total: int, alerts: Mapping[str, Alert]) -> None:
        self._followed = followed
        self._alerts = alerts
        self._alerts_seen = 0
        self._events_seen = 0
        self._step = max(1, -(-total // POINTS))  # metric events between two points
        self.points: list[EvidencePoint] = []

    def is_due(self, at: datetime, events: int, *, after_cut: bool) -> bool:
        """Return whether the next point is due.

        Args:
            at: time of the last applied interaction.
            events: number of metric events applied so far.
            after_cut: whether a part of a table was applied, as `cut` makes them.
        """
        return self._followed.covers(at) and (after_cut or events - self._events_seen >= self._step)

    def cut(self, table: Any) -> Iterator[Any]:
        """Yield the parts of a table: one for each point of the curve, and those before and after its range."""
        start, end = (np.datetime64(at.replace(tzinfo=None), "us") for at in (self._followed.start, self._followed.end))
        times = table["occurred_at"].to_numpy().astype("datetime64[us]")
        inside = np.flatnonzero((start <= times) & (times < end))
        rows = table.num_rows
        first, last = (rows, rows) if not inside.size else (int(inside[0]), int(inside[-1]) + 1)
        edges = [0, *range(first, last, self._step), last, rows]
        for begin, stop in pairwise(edges):
            if stop > begin:
                yield table.slice(begin, stop - begin)

    def look(self, state: AggregatorState, at: datetime, events: int) -> None:
        """Add a point, once the rule has a state.

        Args:
            at: time of the last applied interaction.
            events: number of metric events applied so far.
        """
        followed = self._followed
        fired = [
            alert
            for alert in islice(self._alerts.values(), self._alerts_seen, None)
            if followed.raised(alert) and followed.covers(alert.fired_at)
        ]
        self._alerts_seen, self._events_seen = len(self._alerts), events
        rule_state = followed.state_in(state)
        if rule_state is None:
            return
        for alert in fired:
            if alert.log_evidence is not None:
                # The detectors of a rule share its run length, and each has a part of it.
                once_in = exp(alert.log_evidence) / rule_state.share
                self._add(EvidencePoint(alert.fired_at, once_in, alert.run_length))
        evidence = rule_state.evidence()
        if evidence is None:
            self._add(EvidencePoint(at, None, None))
        else:
            self._add(EvidencePoint(at, evidence.once_in, evidence.run_length))

    def _add(self, point: EvidencePoint) -> None:
        # An interaction may be recorded after a later one.
        at = max([point.at, *(last.at for last in self.points[-1:])])
        self.points.append(point._replace(at=at))


def nearest_to_alarm(curves: Sequence[EvidenceCurve]) -> list[EvidencePoint]:
    """Return the points of the curve that came nearest to its line: a split pipeline has one in each partition."""

    def nearness(curve: EvidenceCurve) -> float:
        return max(
            (point.once_in / point.run_length for point in curve.points if point.once_in and point.run_length),
            default=-1,
        )

    return max(curves, key=nearness).points if curves else []
