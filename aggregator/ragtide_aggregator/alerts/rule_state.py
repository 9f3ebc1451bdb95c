"""The state of one alert rule on one key: it learns a baseline, fires once, resolves once. No clock, no I/O."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import blake2b
from math import exp
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ragtide_schemas import Alert, AlertRule, MetricEvent, Movement
from ragtide_schemas.alert_kinds import EARLIER, SEASONAL, AlertKind, Covariate, Kappa, kind_of_rule
from ragtide_schemas.alert_rule import duration_ms

from ..events.keys import SQUARED_ERROR, UNBOUNDED, EstimateKey, rule_share
from ..statistics.drift.drift import Alarm, DetectorTable
from ..statistics.drift.ranks import EarlierTable
from .adjusted_baseline import AdjustedBaseline
from .baseline import FirstAnswerBaseline, FixedBaseline, OwnValuesBaseline, Place, RuleBaseline
from .cause_search import CauseSearch
from .compared_values import ComparedValues
from .contributors import Contributors
from .distribution_baseline import DistributionBaseline
from .earlier_baseline import EarlierBaseline
from .kappa_baseline import KappaBaseline
from .messages import Decision, alert_of
from .rule_values import BEGINNINGS, LearnedValues
from .seasonal_baseline import SeasonTables
from .statistic import RuleDetector
from .stored_form import form_of
from .version_watch import VersionWatch

DEFAULT_RUN_LENGTH: Final = 10_000.0
"""Mean number of values between false alarms, for a rule without a run length in a deployment without a budget."""

Phase = Literal["learning", "watching", "firing"]

BASELINES: Final[Mapping[type[AlertKind], Callable[[AlertRule, EstimateKey], RuleBaseline]]] = {
    Kappa: KappaBaseline,
    Covariate: lambda rule, _: DistributionBaseline(rule),
}
"""The baselines of kinds that do not compare the mean of a metric with one number."""

_SEARCH, _WATCH = form_of(CauseSearch), form_of(VersionWatch)


def watches(rules: Iterable[AlertRule], keys: Iterable[EstimateKey]) -> int:
    """Return the number of detectors that share the false alarms of a deployment: of rules without a run length."""
    shared = [rule for rule in rules if rule.run_length is None]
    return sum(
        len(_movements(rule, key)) * (2 if kind_of_rule(rule).has_spread else 1)
        for key in keys
        for rule in shared
        if matches(rule, key)
    )


def _movements(rule: AlertRule, key: EstimateKey) -> tuple[Movement, ...]:
    return rule.movements if key.measure is None else rule.movements_of(key.measure.direction)


def matches(rule: AlertRule, key: EstimateKey) -> bool:
    """Return whether a rule applies to the values of a key.

    Rules on kappa and on covariates have values of their own (`own_values`).
    """
    if kind_of_rule(rule).own_values:
        return False
    segment_name = None if key.segment is None else key.segment.partition("=")[0]
    if key.metric in UNBOUNDED:
        return False
    if rule.quantile is not None:
        compares = key.metric == rule_share(rule, key.better)
    elif rule.compares_errors:
        compares = key.metric == SQUARED_ERROR + rule.metric
    else:
        compares = rule.watches_metric(key.metric)
    matched = compares and rule.segment == segment_name and fnmatchcase(key.pipeline, rule.pipeline)
    return matched and rule.watches_labeler(key.labeler)


def _reference(rule: AlertRule, key: EstimateKey) -> float | None:
    return rule.reference if rule.quantile is None else rule.beyond_share(key.better)


class StoredRows(NamedTuple):
    """The rows of the tables of rules as states store them: all that a commit needs, made at once."""

    detectors: Mapping[int, str]
    """Bytes of rows of active detectors, in base 64."""
    longest: Mapping[int, int]
    """Number of the values since the earliest possible change point of these rows."""
    earlier: Mapping[int, Mapping[str, Any]]
    """Values before each value, by row of their table."""

    @classmethod
    def of(cls, states: Sequence["RuleState"], table: DetectorTable, earlier: EarlierTable) -> "StoredRows":
        """Return the rows of states.

        Raises: ValueError if a number of a detector is not finite.
        """
        active = [detector.row for state in states for detector in state.detectors if detector.active]
        of_values = [
            baseline.row for state in states for baseline in state.baselines() if isinstance(baseline, EarlierBaseline)
        ]
        rows = np.array(active, dtype=np.intp)
        encoded = (base64.b64encode(data).decode() for data in table.bytes_of(rows))
        return cls(
            dict(zip(active, encoded, strict=True)),
            dict(zip(active, table.longest(rows).tolist(), strict=True)),
            dict(zip(of_values, earlier.dumps(np.array(of_values, dtype=np.intp)), strict=True)),
        )

    def dump_of(self, baseline: RuleBaseline) -> Mapping[str, Any]:
        """Return the state of a baseline as JSON can hold it."""
        if isinstance(baseline, EarlierBaseline):
            return baseline.dump_with(self.earlier[baseline.row])
        return baseline.dump()

    def longest_of(self, detectors: Iterable[RuleDetector]) -> int:
        """Return the largest number of the values since a possible change point of active detectors; 0 without one."""
        return max((self.longest[detector.row] for detector in detectors if detector.active), default=0)


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


@dataclass(slots=True)
class FirstAnswerCounts:
    """The sessions of one key with so many answers, which all of its rules share."""

    n: int = 0
    """Number of these sessions."""
    answers: int = 0
    """Number of answers since the last one of them counted."""
    owed: float = 0.0
    """Sum of their costs, where rules share a level."""

    def take(self, *, is_first: bool, cost: float) -> tuple[int, float] | None:
        """Count an answer; return the number of answers whose costs the first ones of a session have, and their costs.

        Args:
            is_first: whether it is the last of the first answers of a session.
        """
        self.answers += 1
        self.owed += cost
        if not is_first:
            return None
        charged = self.answers, self.owed
        self.n, self.answers, self.owed = self.n + 1, 0, 0.0
        return charged


@dataclass(slots=True)
class FirstAnswers:
    """How a rule takes the first answers of sessions: at once, because sessions are independent of each other."""

    length: int
    """Number of first answers of a session that it takes together, one of `BEGINNINGS`."""
    baseline: RuleBaseline
    """Learned from these means."""
    detectors: list[RuleDetector]
    counts: FirstAnswerCounts
    contributors: Contributors = field(default_factory=Contributors)
    """First answers beyond a limit; their numbers are those of first answers."""


class RuleState:
    """The state of one rule on one key.

    - learning: the rule has nothing to compare values with, neither whole clusters nor first answers. Its baseline will
      be the lenient end of a running interval, so that an unlucky beginning does not cause a false alarm later.
    - watching: e-detectors look for a statistic beyond the alarm limit (docs/understand/drift.md), one detector for
      each direction and statistic. Together they have the run length of the rule.
    - firing: the mirror of the detector that alarmed looks for a mean on the normal side of the limit, at least
      `hysteresis` away from it.

    From the first session on, detectors of the first one, two and four answers of sessions share the run length with
    those of whole clusters (docs/understand/clusters.md). The detectors are rows of a table that all rules of a
    partition share.

    Attributes:
        baseline: what the rule compares single values and whole clusters with.
        detectors: of the rule; those of first answers are the last.
        contributors: interactions with a value beyond a limit.
        beginnings: what it has for the first answers of sessions, by their number; empty before the first session, and
            for a rule that does not take them.
        search: the search for the cause of the alert that fires; None without segments.
        watch: whether the version of the alert that fires still has values; None while none fires.
    """

    def __init__(
        self,
        rule: AlertRule,
        key: EstimateKey,
        table: DetectorTable,
        origin: str = "",
        seasons: SeasonTables | None = None,
        *,
        compared: ComparedValues | None = None,
    ) -> None:
        self.rule = rule
        self.key = key
        self._table = table
        self._origin = origin
        self._seasons, self._compared = seasons or SeasonTables(), compared or ComparedValues()
        movements = _movements(rule, key)
        self.baseline: RuleBaseline
        if (of_kind := BASELINES.get(type(kind_of_rule(rule)))) is not None:
            self.baseline = of_kind(rule, key)
        elif rule.adjust is not None:
            self.baseline = AdjustedBaseline(rule, key.value_range, movements)
        else:
            self.baseline = self._repeated() or FixedBaseline(rule, key.value_range, movements, _reference(rule, key))
        self.detectors = self._detectors_of(self.baseline)
        self.beginnings: tuple[FirstAnswers, ...] = ()
        self.window_ms = None if rule.baseline_window is None else duration_ms(rule.baseline_window)
        """Length of the past window from which the baseline is taken; None without such a window."""
        self.contributors = Contributors()
        self.search: CauseSearch | None = None
        self.watch: VersionWatch | None = None
        self._fired: Alert | None = None
        self._times_fired = 0
        self._phase: Phase = "learning"
        if self.baseline.is_known:
            self._look_for_change()

    def _repeated(self) -> RuleBaseline | None:
        """Return a new baseline of a kind that is the same for single values, whole clusters and first answers."""
        if self.rule.baseline == EARLIER:
            return EarlierBaseline(self.rule, self.key.value_range, self._compared)
        return self._seasons.baseline(self.rule, self.key.value_range) if self.rule.baseline == SEASONAL else None

    def _detectors_of(self, baseline: RuleBaseline, *, first: int = 0) -> list[RuleDetector]:
        return [
            RuleDetector(self._table.add_row(), way, statistic, first=first)
            for statistic in baseline.statistics
            for way in _movements(self.rule, self.key)
        ]

    def begin_first_answers(self, counts: Mapping[int, FirstAnswerCounts]) -> bool:
        """Take first answers of sessions, too, from now on; return whether the rule does.

        The detectors share the run length, so that of the detectors so far becomes a share of it. Rules on kappa or
        with a fixed mix count whole clusters only.
        """
        if self.beginnings or not kind_of_rule(self.rule).takes_first_answers or self.rule.adjust is not None:
            return False
        whole, beginnings = self.detectors, []
        for length in BEGINNINGS:
            movements, reference = _movements(self.rule, self.key), _reference(self.rule, self.key)
            baseline = self._repeated() or FirstAnswerBaseline(self.rule, self.key.value_range, movements, reference)
            detectors = self._detectors_of(baseline, first=length)
            beginnings.append(FirstAnswers(length, baseline, detectors, counts[length]))
        self.beginnings = tuple(beginnings)
        self.detectors = [*whole, *(detector for first in beginnings for detector in first.detectors)]
        if self.looks_for_change:
            for detector in whole:
                if detector.active:
                    self._table.share_line(detector.row, self.share // len(whole))
            self._look_at_first_answers()
        return True

    def end_first_answers(self) -> bool:
        """Let whole clusters find the end of an alert that first answers raised; return whether there is one.

        The settings no longer select clusters with first answers, so none comes.
        """
        for first in self.beginnings:
            for number, detector in enumerate(first.detectors):
                if self._fired is not None and detector.active:
                    self._await_recovery(self.whole[number])
                    return True
        return False

    def baseline_of(self, detector: RuleDetector) -> RuleBaseline:
        """Return what a detector compares values with."""
        return self.beginning(detector.first).baseline if detector.first else self.baseline

    def beginning(self, length: int) -> FirstAnswers:
        """Return what the rule has for so many first answers of sessions."""
        return next(first for first in self.beginnings if first.length == length)

    @property
    def whole(self) -> list[RuleDetector]:
        """The detectors of single values and whole clusters."""
        return self.detectors[: len(self.detectors) - sum(len(first.detectors) for first in self.beginnings)]

    @cached_property
    def field(self) -> str:
        """Name of this state in a checkpoint: rule, digest of its definition, key. A changed rule has a new state."""
        names = [self.rule.name, _digest(self.rule), *self.key.parts()]
        return json.dumps(names, ensure_ascii=False, separators=(",", ":"))

    @staticmethod
    def owner(field: str, rules: Iterable[AlertRule]) -> tuple[AlertRule, EstimateKey] | None:
        """Return rule and key of the state with the name of a field in a checkpoint; None if no rule has it."""
        name, digest, *parts = json.loads(field)
        rule = next((rule for rule in rules if rule.name == name and _digest(rule) == digest), None)
        return None if rule is None else (rule, EstimateKey.read(parts))

    @property
    def learns(self) -> bool:
        """Whether it learns from single values."""
        return any(baseline.learns for baseline in self.baselines())

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
        active = [detector for detector in self.detectors if detector.active]
        table = self._table
        best = max(
            active, key=lambda detector: table.log_evidence(detector.row) - table.log_line(detector.row), default=None
        )
        if best is None:
            return None
        evidence, line = table.log_evidence(best.row), table.log_line(best.row)
        # The detectors of a rule share its run length, so each has a part of it.
        return RuleEvidence(
            best.movement, exp(evidence) / self.share, exp(line) / self.share, table.change_tag(best.row)
        )

    def learn(self, values: LearnedValues) -> bool:
        """Learn from a value or a cluster; return whether the rule compares them from the next one on."""
        if not (self.baseline.learns and self.baseline.learn(values)):
            return False
        if self._phase == "learning":
            self._look_for_change()
        elif self.looks_for_change:
            self._look_at_whole()
        return True

    def begin_batch(self) -> None:
        """Begin a batch of values, from which it will learn."""
        for first in self.beginnings:
            first.baseline.begin_batch()

    def learn_first(self, length: int, values: LearnedValues) -> bool:
        """Learn from the first answers of a session; return whether it compares so many from the next session on.

        It learns while an alert fires, too, so that what is learned does not depend on when a batch ends.
        """
        first = self.beginning(length) if self.beginnings else None
        if first is None or not (first.baseline.learns and first.baseline.learn(values)):
            return False
        self._first_answers_known(first)
        return True

    def _first_answers_known(self, first: FirstAnswers) -> None:
        if self._phase == "learning":
            self._look_for_change()
        elif self.looks_for_change:
            self._look_at_first(first)

    def next_window(self, *, followed: bool) -> None:
        """Take the baseline from the window that ends, if it had enough values, and begin the next window.

        Args:
            followed: whether the next window follows at once; after a gap the old baseline stays.
        """
        # Another centre is another statistic: detectors of a spread begin again. While it fires, its baseline stays.
        spread = kind_of_rule(self.rule).has_spread
        followed = followed and not (spread and self._fired is not None)
        known = self.baseline.next_window(followed=followed)
        known_first = [first for first in self.beginnings if first.baseline.next_window(followed=followed)]
        if known and (self._phase == "learning" or spread):
            self._look_for_change()
            return
        if known:
            self._move_all(self.whole)
        for first in known_first:
            if spread or self._phase == "learning":
                self._first_answers_known(first)
            else:
                self._move_all(first.detectors)

    def _move_all(self, detectors: Iterable[RuleDetector]) -> None:
        for detector in detectors:
            limit = self.baseline_of(detector).limit(detector, watching=self.looks_for_change)
            was_active, has_limit = detector.active, 0 < limit < 1
            if self.looks_for_change:
                detector.active = has_limit
            if was_active and has_limit:
                self._table.move_limit(detector.row, limit)
            elif has_limit and self.looks_for_change:
                self._configure(detector, limit, self._run_length)

    @property
    def _run_length(self) -> float:
        return (self.rule.run_length or DEFAULT_RUN_LENGTH) * self.share

    def _look_for_change(self) -> None:
        self._phase, self._fired, self.watch = "watching", None, None
        self._look_at_whole()
        self._look_at_first_answers()

    def _look_at_whole(self) -> None:
        self.contributors.clear()
        self._set_statistics(self.baseline, self.whole)
        self._begin(self.whole)

    def _look_at_first_answers(self) -> None:
        for first in self.beginnings:
            self._look_at_first(first)

    def _look_at_first(self, first: FirstAnswers) -> None:
        first.contributors.clear()
        if first.baseline.is_known:
            self._set_statistics(first.baseline, first.detectors)
            self._begin(first.detectors)

    def _begin(self, detectors: Iterable[RuleDetector]) -> None:
        for detector in detectors:
            limit = self.baseline_of(detector).limit(detector, watching=True)
            # No mean can move beyond an end of the range, so a detector for that takes no values.
            detector.active = 0 < limit < 1
            if detector.active:
                self._configure(detector, limit, self._run_length)

    @staticmethod
    def _set_statistics(baseline: RuleBaseline, detectors: Sequence[RuleDetector]) -> None:
        statistics = baseline.statistics
        per_statistic = len(detectors) // len(statistics)
        for number, detector in enumerate(detectors):
            detector.statistic = statistics[number // per_statistic]

    def _await_recovery(self, fired: RuleDetector) -> None:
        self._phase = "firing"
        for detector in self.detectors:
            detector.active = detector is fired
        limit = self.baseline_of(fired).limit(fired, watching=False)
        self._configure(fired, limit, self.rule.resolve_run_length)

    def _configure(self, detector: RuleDetector, limit: float, run_length: float) -> None:
        falls = (detector.movement == "fall") == self.looks_for_change
        direction: Movement = "fall" if falls != self.baseline.mirrored else "rise"
        self._table.configure(detector.row, limit=limit, direction=direction, run_length=run_length)

    def alarmed(
        self,
        detector: RuleDetector,
        alarm: Alarm,
        at: Place,
        event: MetricEvent,
        *,
        rate: float | None = None,
    ) -> Alert | None:
        """Return the alert that fires or resolves because of an alarm; None if the change does not matter.

        Args:
            detector: the detector that alarmed.
            alarm: its alarm.
            at: the deciding value.
            event: of that value.
            rate: largest mean share of false alarms among the alarms that it is one of; None where it is unbounded.
        """
        for baseline in self.baselines():
            baseline.settle(at.position + 1)
        if self._fired is None:
            if not self.baseline_of(detector).confirms(alarm):
                return None
            self.baseline_of(detector).fired(alarm)
        contributors = self.beginning(detector.first).contributors if detector.first else self.contributors
        decision = Decision(
            rule=self.rule,
            key=self.key,
            detector=detector,
            alarm=alarm,
            facts=self.baseline_of(detector).facts(detector, alarm, at),
            run_length=self._stated_run_length(alarm),
            contributors=[
                contributor.interaction_id for contributor in contributors.since(at.number - alarm.change_n + 1)
            ],
            false_discovery_rate=rate,
        )
        if self._fired is not None:
            alert = alert_of(decision, event, alert_id=self._fired.alert_id, fired=self._fired)
            self._look_for_change()
            return alert
        self._times_fired += 1
        digest = blake2b(f"{self._origin}{self.field}{self._times_fired}".encode(), digest_size=6).hexdigest()
        self._fired = alert_of(decision, event, alert_id=f"{self.rule.name}-{digest}")
        self._await_recovery(detector)
        return self._fired

    def _stated_run_length(self, alarm: Alarm) -> float:
        if not self.looks_for_change:
            return self.rule.resolve_run_length
        if isinstance(self.baseline, OwnValuesBaseline) and self.rule.run_length is not None:
            return self.rule.run_length
        return alarm.run_length / self.share

    @property
    def firing(self) -> Alert | None:
        """The alert that fires; None if none does."""
        return self._fired

    def end_alert(self) -> None:
        """Look for a change again, because the version of the alert that fires has ended."""
        self._look_for_change()

    def fired_as(self, alert: Alert) -> None:
        """Replace the alert that fires by the same alert with more facts."""
        if self._fired is not None and self._fired.alert_id == alert.alert_id:
            self._fired = alert

    def baselines(self) -> tuple[RuleBaseline, ...]:
        """Return what it compares single values and whole clusters with, and then first answers."""
        return (self.baseline, *(first.baseline for first in self.beginnings))

    def to_bytes(self, number: int, stored: "StoredRows") -> bytes:
        """Return the state as JSON with exact floats.

        Args:
            number: of values that its key has so far.
            stored: the rows of its active detectors and of its baselines.
        """
        self.contributors.drop_before(number - stored.longest_of(self.whole) + 1)
        state: dict[str, Any] = {
            "phase": self._phase,
            **stored.dump_of(self.baseline),
            "contributors": self.contributors.dump(),
            "times_fired": self._times_fired,
            "fired": None if self._fired is None else form_of(Alert).dump(self._fired),
            "detectors": [stored.detectors[detector.row] if detector.active else None for detector in self.detectors],
        }
        if self.beginnings:
            state["whole_known"] = self.baseline.is_known
            state["beginnings"] = beginnings = {}
            for first in self.beginnings:
                first.contributors.drop_before(first.counts.n * first.length - stored.longest_of(first.detectors) + 1)
                beginnings[str(first.length)] = {
                    "counts": [first.counts.n, first.counts.answers, first.counts.owed],
                    "learned": stored.dump_of(first.baseline),
                    "contributors": first.contributors.dump(),
                }
        if self.search is not None:
            state["search"] = _SEARCH.dump(self.search)
        if self.watch is not None:
            state["watch"] = _WATCH.dump(self.watch)
        return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()

    def load(self, data: bytes) -> None:
        """Set the state to what `to_bytes` returned.

        A state that took first answers when it was stored must have begun to take them.

        Raises:
            ValueError: another version wrote it, or a number is not finite.
        """
        state = json.loads(data, parse_constant=_not_finite)
        self._phase = state["phase"]
        beginnings, known = state.get("beginnings", {}), state.get("whole_known", self._phase != "learning")
        if (earlier := state.get("first_answers")) is not None:  # 0.1.0 counted single first answers only
            beginnings, known = {"1": earlier}, earlier["whole_known"]
        self.baseline.load(state, known=known)
        self.contributors.load(state["contributors"])
        self._times_fired = state["times_fired"]
        self._fired = None if state["fired"] is None else Alert.model_validate(state["fired"])
        self.search = None
        if self._fired is not None and "search" in state:
            self.search = _SEARCH.read(state["search"])
            self.search.alert = self._fired
        self.watch = _WATCH.read(state["watch"]) if "watch" in state else None
        self._set_statistics(self.baseline, self.whole)
        for first in self.beginnings:
            dumped = beginnings.get(str(first.length))
            if dumped is None:
                continue
            first.baseline.load(dumped["learned"], known=True)
            first.contributors.load(dumped["contributors"])
            first.counts.n, first.counts.answers, first.counts.owed = dumped["counts"]
            self._set_statistics(first.baseline, first.detectors)
        stored = state["detectors"]
        for detector, data_of in zip(self.detectors[: len(stored)], stored, strict=True):
            detector.active = data_of is not None
            if data_of is not None:
                self._table.load(detector.row, base64.b64decode(data_of))
                if self.looks_for_change and len(stored) < self.share:
                    self._table.share_line(detector.row, self.share // len(stored))
        for detector in self.detectors[len(stored) :]:
            detector.active = False

    @staticmethod
    def may_look_for_change(data: bytes) -> bool:
        """Return False for a stored state that surely looks for no change: it learns, or its alert fires."""
        return not data.startswith((b'{"phase":"learning"', b'{"phase":"firing"'))

    @staticmethod
    def key_of(field: str) -> EstimateKey:
        """Return the key of the state with the name of a field in a checkpoint."""
        _, _, *parts = json.loads(field)
        return EstimateKey.read(parts)

    @staticmethod
    def took_first_answers(data: bytes) -> bool:
        """Return whether a state took first answers when it was stored."""
        return not {"beginnings", "first_answers"}.isdisjoint(json.loads(data))

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


def _digest(rule: AlertRule) -> str:
    return blake2b(rule.definition, digest_size=8).hexdigest()


def _not_finite(constant: str) -> float:
    raise ValueError(f"the state of an alert rule holds the number {constant}, which is not finite")
