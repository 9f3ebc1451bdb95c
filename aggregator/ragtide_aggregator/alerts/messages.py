"""Makes the alert of a detector's decision, with all facts; `ragtide_schemas.alert_text` has the words. No state.

The notes are the sentences that no field of an alert states: an assumption, a caution, the meaning of the metric.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from ragtide_schemas import (
    Alert,
    AlertRule,
    ChangeCause,
    MetricEvent,
    StepCause,
    definition_of,
    from_milliseconds,
)
from ragtide_schemas.alert_kinds import covariate_name, scope_of
from ragtide_schemas.alert_text import message_of
from ragtide_schemas.alert_words import short_name, time

from ..events.keys import EstimateKey
from ..statistics.drift.drift import Alarm
from ..statistics.intervals.intervals import interval
from .baseline import AlarmFacts, BaselineSource
from .statistic import RuleDetector

OBSERVED_CONFIDENCE: Final = 0.95
"""Confidence of the interval of the values since a change."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A detector's decision that a mean has changed, with all facts for the alert."""

    rule: AlertRule
    key: EstimateKey
    detector: RuleDetector
    """The detector that alarmed, with its movement and statistic."""
    alarm: Alarm
    """Its alarm: the evidence, and the values since the change."""
    facts: AlarmFacts
    """What the baseline says."""
    run_length: float
    contributors: list[str]
    false_discovery_rate: float | None = None
    """Largest mean share of false alarms among the alarms of the deployment; None where it is unbounded."""

    @property
    def source(self) -> BaselineSource:
        """Source of the baseline."""
        rule = self.rule
        if self.facts.detail.source is not None:
            return self.facts.detail.source
        if rule.baseline_window is not None:
            return "window"
        # First answers are compared with their own mean where it is worse than the mean that the rule gives.
        own = self.detector.first > 0 and self.facts.learned_n > 0
        if rule.target is not None and not own:
            return "target"
        return "learned" if own or (rule.given_baseline is None and rule.baselines is None) else "given"

    @property
    def reference(self) -> float:
        """The baseline in the statistic's unit."""
        return self.detector.statistic.unscaled(self.facts.reference)

    @property
    def normal(self) -> float | None:
        """What was learned or given, in the statistic's unit; None for a target."""
        if self.source == "target":
            return None
        return self.reference if self.facts.normal is None else self.detector.statistic.unscaled(self.facts.normal)

    @property
    def limit(self) -> float:
        """The limit from which the rule counts, in the statistic's unit."""
        limit = self.detector.limit(self.rule, self.facts.reference, watching=True)
        return self.detector.statistic.unscaled(limit)

    @property
    def observed(self) -> tuple[float, float, float]:
        """The statistic since the change, with the ends of its interval, in its unit."""
        if self.facts.detail.observed is not None:
            return self.facts.detail.observed
        mean = min(max(self.facts.mean, 0.0), 1.0)
        n, variance = self.alarm.change_n, self.alarm.change_variance
        seen = interval("normal", mean=mean, n=n, confidence=OBSERVED_CONFIDENCE, variance=variance)
        unscaled = self.detector.statistic.unscaled
        return unscaled(mean), unscaled(seen.lower), unscaled(seen.upper)


def alert_of(decision: Decision, event: MetricEvent, *, alert_id: str, fired: Alert | None = None) -> Alert:
    """Return the alert of a decision: a firing alert, or the resolution of the alert that had fired.

    Args:
        event: at which the alert fired or was resolved.
        alert_id: its id.
        fired: the alert that had fired; None for a firing alert.
    """
    rule, key = decision.rule, decision.key
    observed, lower, upper = decision.observed
    window = rule.baseline_window
    # Interactions come in any order, and the times of an alert do not: a late one does not move them past each other.
    at = event.occurred_at
    common: dict[str, Any] = {
        "alert_id": alert_id,
        "rule": rule.name,
        "kind": rule.kind,
        **key.names,
        "metric": _metric(decision),
        "baseline": decision.reference,
        "baseline_source": decision.source,
        "normal": decision.normal,
        "normal_n": decision.facts.learned_n or None,
        "normal_of": decision.facts.detail.normal_of or (None if window is None else f"the {window} before"),
        "limit": decision.limit,
        "quantity": decision.detector.statistic.name,
        "edge": None if rule.quantile is None else rule.target,
        "edge_side": None if rule.quantile is None else rule.side(key.better),
        "observed": observed,
        "observed_n": decision.alarm.change_n,
        "observed_of": "first_answers" if decision.detector.first else "answers",
        "observed_lower": lower,
        "observed_upper": upper,
        "log_evidence": decision.alarm.log_evidence,
        "n": 1,
        "message": "",
    }
    if fired is None:
        alert = Alert(
            **common,
            status="firing",
            severity=rule.severity,
            fired_at=at,
            direction=decision.detector.movement,
            began_at=min(from_milliseconds(decision.alarm.change_tag), at),
            run_length=decision.run_length,
            false_discovery_rate=decision.false_discovery_rate,
            worst_interaction_ids=tuple(decision.contributors),
            notes=_notes(decision, event),
        )
        return restated(alert, **decision.facts.detail.fields(firing=True))
    # At the end of an alert the detector has found the return to normal; the alert is about the change before.
    alert = Alert(
        **common,
        status="resolved",
        severity=fired.severity,
        fired_at=fired.fired_at,
        resolved_at=max(at, fired.explained_at or fired.fired_at),
        direction=fired.direction,
        began_at=fired.began_at,
        run_length=fired.run_length,
        false_discovery_rate=fired.false_discovery_rate,
        fired_observed=fired.observed,
    )
    return restated(alert, **decision.facts.detail.fields(firing=False))


def restated(alert: Alert, **facts: Any) -> Alert:
    """Return an alert about a metric with further facts, and with the message that states all of them."""
    alert = alert.model_copy(update=facts)
    return alert.model_copy(update={"message": message_of(alert)})


MIXED_NOTE: Final = (
    "Interactions were kept with different sampling probabilities, and a rule takes them as they were kept: a change "
    "of the sampling may move its mean. The estimate of the metric is weighted."
)
"""Of alerts of keys whose interactions were kept with different probabilities."""

CERTAIN_EFFECT: Final = 1.2
"""A design effect that is certainly larger breaks the promise of a rule that takes each interaction by itself."""


def explained_alert(
    alert: Alert, cause: ChangeCause | None, moved_step: StepCause | None, explained_at: datetime, n: int
) -> Alert:
    """Return an alert whose cause was searched for as explained.

    Args:
        alert: as it fired.
        cause: of the change; None if it is not known.
        moved_step: steps that moved; None without steps.
        explained_at: time of the interaction at which it was found.
        n: number of values in its scope so far.
    """
    at = max(explained_at, alert.fired_at)
    known = {"cause": cause, "cause_sought": False, "moved_step": moved_step, "step_sought": False}
    return restated(alert, status="explained", explained_at=at, n=n, **known)


class VersionEnd(NamedTuple):
    """How the version of an alert ended."""

    key: EstimateKey
    """Of its scores, of the whole pipeline."""
    successor: EstimateKey | None
    """The version that had its first score after the alert fired; None without one."""
    last: datetime
    """Time of the newest interaction that it scored."""
    now: datetime
    """Time of the newest interaction of the pipeline."""
    interactions: int
    """Interactions of the pipeline after its last score."""


def ended_alert(alert: Alert, end: VersionEnd) -> Alert:
    """Return the end of an alert whose version has ended; it says nothing about whether the answers recovered."""
    replaced = "was replaced, paused or removed"
    if end.successor is not None:
        replaced = f"was replaced by {_version_of(end.successor, beside=end.key)}"
    what = short_name(alert.metric) if alert.covariate is None else covariate_name(alert)
    where, version = scope_of(alert.model_copy(update={"segment": None})), _version_of(end.key)
    message = (
        f"The alert on {what} ends without a recovery, because its version {replaced}. {version[0].upper()}"
        f"{version[1:]} gave its last score at {time(end.last)}, and {where} has had {end.interactions:,} interactions "
        "since."
    )
    return alert.resolve(max(end.now, alert.explained_at or alert.fired_at), message)


def _version_of(key: EstimateKey, *, beside: EstimateKey | None = None) -> str:
    others = {} if beside is None else _version_parts(beside)
    parts = {name: part for name, part in _version_parts(key).items() if part and part != others.get(name)}
    return ", ".join(f"{name} {part}" for name, part in parts.items())


def _version_parts(key: EstimateKey) -> dict[str, str]:
    return {
        "labeler": f"{short_name(key.labeler)} {short_name(key.labeler_version)}",
        "metric version": "" if key.measure is None else short_name(key.measure.version),
        "profile": short_name(key.profile),
    }


def _metric(decision: Decision) -> str:
    rule, key = decision.rule, decision.key
    return key.metric if rule.watches_metric(key.metric) else rule.metric


def _notes(decision: Decision, event: MetricEvent) -> tuple[str, ...]:
    detail, rule = decision.facts.detail, decision.rule
    notes = [*detail.notes(rule, decision.key)]
    if rule.quantile is not None:
        side, least = (
            ("above", "more than") if rule.side(decision.key.better) == "above" else ("at or below", "at least")
        )
        notes.append(
            f"The rule is about the quantile p{100 * rule.quantile:g}: it is {side} {rule.target:g} if {least} "
            f"{100 * decision.reference:.3g}% of the answers are."
        )
    if not detail.explains_metric:
        return tuple(notes)
    metric = _metric(decision)
    declaration = event.declaration(metric)
    definition = definition_of(metric, None if declaration is None else {metric: declaration})
    if definition is not None and definition.meaning:
        notes.append(f"Meaning: {definition.meaning}")
    return tuple(notes)
