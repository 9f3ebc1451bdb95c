"""The state of one alert rule on one key: it learns a baseline, fires once, resolves once. No clock, no I/O."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from math import exp
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ragtide_schemas import Alert, AlertRule, MetricEvent, Movement
from ragtide_schemas.alert_rule import SEASONAL, duration_ms

from ..events.keys import SQUARED_ERROR, UNBOUNDED, EstimateKey
from ..statistics.drift.drift import Alarm, DetectorTable
from ..statistics.tables.batches import Floats, Rows
from .adjusted_baseline import AdjustedBaseline
from .baseline import Baseline, LearnedValues, Learner
from .cause_search import CauseSearch
from .contributors import Contributors
from .messages import Decision, SeasonalHours, alert_of
from .rule_values import Inputs, RuleValues
from .seasonal_baseline import SeasonalBaseline, SeasonTables, hours_between
from .statistic import Statistic, statistic_of

DEFAULT_RUN_LENGTH: Final = 10_000.0
"""Mean number of values between false alarms, for a rule without a run length in a deployment without a budget."""

_ANY_LIMIT: Final = 0.5
"""Limit of a row whose values all come with their own."""

Phase = Literal["learning", "watching", "firing"]


def watches(rules: Iterable[AlertRule], keys: Iterable[EstimateKey]) -> int:
    """Return the number of detectors that share the false alarms of a deployment: of rules without a run length."""
    shared = [rule for rule in rules if rule.run_length is None]
    return sum(
        len(_movements(rule, key)) * (2 if rule.kind == "distribution" else 1)
        for key in keys
        for rule in shared
        if matches(rule, key)
    )


def _movements(rule: AlertRule, key: EstimateKey) -> tuple[Movement, ...]:
    return rule.movements if key.measure is None else rule.movements_of(key.measure.direction)


def matches(rule: AlertRule, key: EstimateKey) -> bool:
    """Return whether a rule applies to a key; a rule on kappa applies to pairs of scores (`kappa_rules`)."""
    if rule.compares_verdicts:
        return False
    segment_name = None if key.segment is None else key.segment.partition("=")[0]
    if key.metric in UNBOUNDED:
        return False
    metric = SQUARED_ERROR + rule.metric if rule.compares_errors else rule.metric
    return metric == key.metric and rule.segment == segment_name and fnmatchcase(key.pipeline, rule.pipeline)


class Place(NamedTuple):
    """The value that decides an alarm."""

    number: int
    """Number of the value among the values of its key."""
    hour: int
    """Since 1970, in which it counts."""
    position: int
    """Among the values that the rules took last."""


@dataclass(slots=True)
class RuleDetector:
    """One detector of a rule: its row in the table, direction and statistic, and whether it takes values."""

    row: int
    movement: Movement
    statistic: Statistic
    active: bool = False


class RuleEvidence(NamedTuple):
    """How near a rule is to its alarm."""

    movement: Movement
    """Direction of the likeliest change."""
    once_in: float
    """Without a change the evidence comes this far at most once in so many values, on average."""
    run_length: float
    """The same at the line at which the rule fires."""
    began: int
    """Tag of the first value of the likeliest change; 0 without a value."""


class RuleState:
    """The state of one rule on one key.

    - learning: a rule without a reference collects the first values, or the values of a window. Its baseline is the
      lenient end of their running interval, so that an unlucky beginning does not cause a false alarm later.
    - watching: e-detectors look for a mean beyond the alarm limit (docs/drift.md), one detector for each direction and
      statistic. Together they have the run length of the rule.
      A seasonal rule watches from the beginning, but an hour of which too little is known takes no values. So does a
      rule that holds a mix fixed, without the values of segment values of which too little is known.
    - firing: the mirror of the detector that alarmed looks for a mean on the normal side of the limit, at least
      `hysteresis` away from it.

    The detectors are rows of a table that all rules of a partition share.
    """

    def __init__(
        self,
        rule: AlertRule,
        key: EstimateKey,
        table: DetectorTable,
        origin: str = "",
        seasons: SeasonTables | None = None,
    ) -> None:
        self.rule = rule
        self.key = key
        self._table = table
        self._origin = origin
        statistic = statistic_of(rule, key.value_range)
        statistics = [statistic] if rule.kind != "distribution" else [statistic, self._spread(0.0)]
        movements = _movements(rule, key)
        self.detectors = [RuleDetector(table.add_row(), way, one) for one in statistics for way in movements]
        self.window_ms = None if rule.baseline_window is None else duration_ms(rule.baseline_window)
        """Length of the past window from which the baseline is taken; None without such a window."""
        self.season: SeasonalBaseline | None = None
        """Baseline of each hour; None without a seasonal baseline."""
        if rule.baseline == SEASONAL:
            self.season = (seasons or SeasonTables()).baseline(rule.season or "day")
        self.adjusted: AdjustedBaseline | None = None
        """Baseline of each segment value; None without a mix that is held fixed."""
        if rule.adjust is not None:
            self.adjusted = AdjustedBaseline(rule, statistic, movements)
        self._learner = self._fresh_learner()
        self.contributors = Contributors()
        """Interactions with a value beyond a limit."""
        self.search: CauseSearch | None = None
        """The search for the cause of the alert that fires; None without segments."""
        self._fired: Alert | None = None
        self._times_fired = 0
        self._phase: Phase = "learning"
        self._baseline = Baseline((0.0, 1.0))
        given = self._given(statistic)
        if given is not None:
            self._look_for_change(given)
        elif self.season is not None or self.adjusted is not None:
            self._look_for_change(self._baseline)

    def _fresh_learner(self) -> Learner:
        return Learner(self.rule.learn_n, spread=self.rule.kind == "distribution")

    def _spread(self, center: float) -> Statistic:
        return statistic_of(self.rule, self.key.value_range, center=center)

    def _given(self, statistic: Statistic) -> Baseline | None:
        rule = self.rule
        reference = rule.given_baseline if rule.target is None else rule.target
        if reference is None:
            return None
        mean = statistic.scaled(reference)
        if rule.baseline_spread is None:
            return Baseline((mean, mean))
        spread = self._spread(mean).scaled(rule.baseline_spread)
        return Baseline((mean, mean), mean, (spread, spread))

    @cached_property
    def field(self) -> str:
        """Name of this state in a checkpoint: rule, digest of its definition, key. A changed rule has a new state."""
        digest = blake2b(self.rule.definition, digest_size=8).hexdigest()
        return json.dumps([self.rule.name, digest, *self.key.parts()], ensure_ascii=False, separators=(",", ":"))

    @property
    def learns(self) -> bool:
        """Whether it learns from values."""
        return self._phase == "learning" or self.window_ms is not None

    @property
    def looks_for_change(self) -> bool:
        """Whether it looks for a change, and not for the end of a change."""
        return self._phase == "watching"

    @property
    def share(self) -> int:
        """Number of detectors that share the run length."""
        return len(self.detectors)

    def evidence(self) -> "RuleEvidence | None":
        """Return the evidence of the detector that is nearest to its alarm; None while it looks for no change."""
        if not self.looks_for_change:
            return None
        active = [one for one in self.detectors if one.active]
        table = self._table
        best = max(active, key=lambda one: table.log_evidence(one.row) - table.log_line(one.row), default=None)
        if best is None:
            return None
        evidence, line = table.log_evidence(best.row), table.log_line(best.row)
        # The detectors of a rule share its run length, so each has a part of it.
        return RuleEvidence(
            best.movement, exp(evidence) / self.share, exp(line) / self.share, table.change_tag(best.row)
        )

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a value or a cluster; return whether the rule looks for a change from the next value on."""
        self._learner.add(values)
        if self.window_ms is not None or self._phase != "learning" or not self._learner.enough:
            return False
        found = self._learner.found()
        detectors = self._with_baseline(found)
        # No mean can move beyond an end of the range. While the interval still reaches it, learning continues, because
        # the interval is valid at every n.
        if not any(0 < self._limit(one.movement, one.statistic, found) < 1 for one in detectors):
            return False
        self._look_for_change(found)
        return True

    def next_window(self, *, followed: bool) -> None:
        """Take the baseline from the window that ends, if it had enough values, and begin the next window.

        Args:
            followed: whether the next window follows at once; after a gap the old baseline stays.
        """
        learner, self._learner = self._learner, self._fresh_learner()
        if not (followed and learner.enough):
            return
        self._baseline = found = learner.found()
        # Another centre is another statistic, so the detectors of a spread begin again.
        if self._phase == "learning" or (learner.spread and self._phase == "watching"):
            self._look_for_change(found)
        elif not learner.spread:
            for detector in self.detectors:
                limit = self._limit(detector.movement, detector.statistic, found)
                limit = limit if self._phase == "watching" else self._recovered(detector, limit)
                if detector.active and 0 < limit < 1:
                    self._table.move_limit(detector.row, limit)

    def _with_baseline(self, baseline: Baseline) -> list[RuleDetector]:
        if baseline.center is None:
            return self.detectors
        spread = self._spread(baseline.center)
        return [
            RuleDetector(one.row, one.movement, spread if one.statistic.name == "spread" else one.statistic)
            for one in self.detectors
        ]

    def _reference(self, movement: Movement, statistic: Statistic, baseline: Baseline) -> float:
        ends = baseline.mean if statistic.name != "spread" or baseline.spread is None else baseline.spread
        return ends[0] if movement == "fall" else ends[1]

    def _limit(self, movement: Movement, statistic: Statistic, baseline: Baseline) -> float:
        if self.season is not None or self.adjusted is not None:
            # Each value has the limit of its hour, see `slot_limits`, or of its segment value.
            return _ANY_LIMIT
        return self._beyond(movement, statistic, self._reference(movement, statistic, baseline))

    def _beyond(self, movement: Movement, statistic: Statistic, reference: float) -> float:
        effect = -self.rule.min_effect if movement == "fall" else self.rule.min_effect
        return statistic.moved(reference, effect)

    def slot_limits(self, detector: RuleDetector) -> Floats:
        """Return the limits of a detector of a seasonal rule by slot; 0 for a slot for which it is to wait."""
        assert self.season is not None  # noqa: S101 - for the type checker: only seasonal rules have slots
        found = np.zeros(self.season.slots)
        for slot, reference in enumerate(self.season.references(detector.movement).tolist()):
            limit = 0.0 if np.isnan(reference) else self._beyond(detector.movement, detector.statistic, reference)
            if 0 < limit < 1:
                found[slot] = limit if self.looks_for_change else self._recovered(detector, limit)
        return found

    def _look_for_change(self, baseline: Baseline) -> None:
        self._phase, self._baseline, self._fired = "watching", baseline, None
        self.contributors.clear()
        run_length = (self.rule.run_length or DEFAULT_RUN_LENGTH) * self.share
        self.detectors[:] = self._with_baseline(baseline)
        for detector in self.detectors:
            limit = self._limit(detector.movement, detector.statistic, baseline)
            # No mean can move beyond an end of the range, so a detector for that takes no values.
            detector.active = 0 < limit < 1
            if detector.active:
                self._table.configure(detector.row, limit=limit, direction=detector.movement, run_length=run_length)

    def _recovered(self, detector: RuleDetector, limit: float) -> float:
        back = self.rule.hysteresis if detector.movement == "fall" else -self.rule.hysteresis
        moved = detector.statistic.moved(limit, back)
        # The limit stays inside the range, so that a mean can lie beyond it.
        return min(moved, (limit + 1) / 2) if detector.movement == "fall" else max(moved, limit / 2)

    def _await_recovery(self, fired: RuleDetector) -> None:
        self._phase = "firing"
        limit = self._limit(fired.movement, fired.statistic, self._baseline)
        for detector in self.detectors:
            detector.active = detector is fired
        self._table.configure(
            fired.row,
            limit=self._recovered(fired, limit),
            direction="rise" if fired.movement == "fall" else "fall",
            run_length=self.rule.resolve_run_length,
        )

    def limits(self) -> tuple[float, float]:
        """Return the scaled values below and above which an interaction is remembered."""
        low, high = -1.0, 2.0
        if self.season is not None:
            return self._seasonal_limits()
        if self.adjusted is not None:
            return self.adjusted.outermost([one.movement for one in self.detectors if one.active])
        for detector in self.detectors:
            if detector.active and detector.statistic.name != "spread":
                limit = self._limit(detector.movement, detector.statistic, self._baseline)
                low, high = (limit, high) if detector.movement == "fall" else (low, limit)
        return low, high

    def _seasonal_limits(self) -> tuple[float, float]:
        """Return the least lenient limits of all hours: the worst interactions of a change lie far beyond any."""
        low, high = -1.0, 2.0
        for detector in self.detectors:
            limits = self.slot_limits(detector)
            limits = limits[limits > 0]
            if detector.active and limits.size:
                low, high = (float(limits.max()), high) if detector.movement == "fall" else (low, float(limits.min()))
        return low, high

    def inputs(self, number: int, batch: RuleValues, positions: Rows) -> Inputs:
        """Return values of a batch as the detector with a number takes them."""
        detector, values = self.detectors[number], batch.values[positions]
        if self.adjusted is not None:
            return self.adjusted.inputs(detector.movement, values, positions, watching=self.looks_for_change)
        squares = None if batch.mean_squares is None else batch.mean_squares[positions]
        return Inputs(detector.statistic.transformed(values, squares))

    def beyond(self, positions: Rows) -> tuple[Any, Any]:
        """Return the limits below and above which the values at positions are remembered; nan for no such limit."""
        if self.adjusted is None:
            return self.limits()
        movements = [one.movement for one in self.detectors if one.active]
        return self.adjusted.beyond(movements, positions, watching=self.looks_for_change)

    def alarmed(
        self,
        detector: RuleDetector,
        alarm: Alarm,
        at: Place,
        event: MetricEvent,
        *,
        rate: float | None = None,
    ) -> Alert:
        """Return the alert that fires or resolves because of an alarm.

        Args:
            detector: the detector that alarmed.
            alarm: its alarm.
            at: the deciding value.
            event: of that value.
            rate: largest mean share of false alarms among the alarms that it is one of; None where it is unbounded.
        """
        movement, season = detector.movement, self.season
        reference = self._reference(movement, detector.statistic, self._baseline)
        learned_n, hours, mean, adjusted = self._baseline.n, None, alarm.change_mean, None
        if self.adjusted is not None:
            adjusted = self.adjusted.summary(movement, at.position)
            # The alarm tells the distance from the references.
            reference, learned_n = adjusted.reference, adjusted.learned_n
            mean += reference
        if season is not None:
            between = hours_between(alarm.change_tag, at.hour)
            reference, learned_n = season.reference(movement, between), season.n
            hours = SeasonalHours(season.season, season.cycles, int(between[-season.slots :][0]), at.hour)
        decision = Decision(
            rule=self.rule,
            key=self.key,
            statistic=detector.statistic,
            movement=movement,
            reference=reference,
            learned_n=learned_n,
            hours=hours,
            adjusted=adjusted,
            n=alarm.change_n,
            mean=mean,
            variance=alarm.change_variance,
            began_ms=alarm.change_tag,
            log_evidence=alarm.log_evidence,
            run_length=alarm.run_length / self.share if self.looks_for_change else self.rule.resolve_run_length,
            contributors=[one.interaction_id for one in self.contributors.since(at.number - alarm.change_n + 1)],
            false_discovery_rate=rate,
        )
        if not self.looks_for_change:
            return self._resolve(decision, event)
        alert = self._fire(decision, event)
        self._await_recovery(detector)
        return alert

    def _fire(self, decision: Decision, event: MetricEvent) -> Alert:
        self._times_fired += 1
        digest = blake2b(f"{self._origin}{self.field}{self._times_fired}".encode(), digest_size=6).hexdigest()
        self._fired = alert_of(decision, event, alert_id=f"{self.rule.name}-{digest}")
        return self._fired

    def _resolve(self, decision: Decision, event: MetricEvent) -> Alert:
        fired = self._fired
        assert fired is not None  # noqa: S101 - for the type checker: firing began with an alert
        alert = alert_of(decision, event, alert_id=fired.alert_id, fired=fired)
        self._look_for_change(self._baseline)
        return alert

    @property
    def firing(self) -> Alert | None:
        """The alert that fires; None if none does."""
        return self._fired

    def fired_as(self, alert: Alert) -> None:
        """Replace the alert that fires by the same alert with more facts."""
        if self._fired is not None and self._fired.alert_id == alert.alert_id:
            self._fired = alert

    def to_bytes(self, number: int) -> bytes:
        """Return the state as JSON with exact floats; its key has `number` values so far."""
        longest = max((self._table.longest(detector.row) for detector in self.detectors if detector.active), default=0)
        self.contributors.drop_before(number - longest + 1)
        state: dict[str, Any] = {
            "phase": self._phase,
            "baseline": self._baseline.dump(),
            "learner": self._learner.dump() if self.learns else None,
            "contributors": self.contributors.dump(),
            "times_fired": self._times_fired,
            "fired": None if self._fired is None else self._fired.model_dump(mode="json"),
            "detectors": [
                base64.b64encode(self._table.to_bytes(detector.row)).decode() if detector.active else None
                for detector in self.detectors
            ],
        }
        if self.season is not None:
            state["season"] = self.season.dump()
        if self.adjusted is not None:
            state["adjusted"] = base64.b64encode(self.adjusted.to_bytes()).decode()
        if self.search is not None:
            state["search"] = self.search.dump()
        return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def load(self, data: bytes) -> None:
        """Set the state to what `to_bytes` returned.

        Raises:
            ValueError: another version wrote it.
        """
        state = json.loads(data)
        self._phase, self._baseline = state["phase"], Baseline.read(state["baseline"])
        if state["learner"] is not None:
            self._learner.load(state["learner"])
        if self.season is not None:
            self.season.load(state["season"])
        if self.adjusted is not None:
            self.adjusted.load(base64.b64decode(state["adjusted"]))
        self.contributors.load(state["contributors"])
        self._times_fired = state["times_fired"]
        self._fired = None if state["fired"] is None else Alert.model_validate(state["fired"])
        if self._fired is not None and "search" in state:
            self.search = CauseSearch.read(state["search"], self._fired)
        self.detectors[:] = self._with_baseline(self._baseline)
        for detector, dumped in zip(self.detectors, state["detectors"], strict=True):
            detector.active = dumped is not None
            if dumped is not None:
                self._table.load(detector.row, base64.b64decode(dumped))

    @staticmethod
    def withdrawn(data: bytes) -> Sequence[Alert]:
        """Return the resolution of an alert that is firing in the stored state of a rule that no longer exists."""
        fired = json.loads(data)["fired"]
        if fired is None:
            return ()
        alert = Alert.model_validate(fired)
        return (
            alert.model_copy(
                update={
                    "status": "resolved",
                    "resolved_at": alert.fired_at,
                    "message": f"Rule {alert.rule} was removed or changed, so its alert on {alert.pipeline} ends.",
                }
            ),
        )
