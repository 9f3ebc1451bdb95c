"""The result of a replay: its counts, and the alerts of each rule beside those of production."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_schemas import Alert, AlertRule, Estimate
from ragtide_schemas.alert_evidence import EvidencePoint

from .selection import Selection

_NOT_OF_RULES = ("budget", "stall", "capped")
"""Kinds of alerts about the deployment itself: no rule raises them, so a replay has none."""


@dataclass(slots=True)
class RuleAlerts:
    """The alerts of one rule: those of the replay, and the number in production."""

    replay: list[Alert] = field(default_factory=list)
    production: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and when they fired."""
        times = [alert.fired_at.isoformat() for alert in self.replay]
        return {"replay": len(self.replay), "production": self.production, "fired_at": times}


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay, complete or stopped."""

    counts: Mapping[str, Any]
    """`n`, `population_size`, `complete` and other counts; for a replay of interactions also the cost."""
    seconds: float
    alerts: Sequence[Alert]
    """Each in its latest state."""
    rules: Mapping[str, RuleAlerts]
    """Alerts of each rule, beside those of production."""
    unfired: Sequence[str] = ()
    """A sentence for each rule that could not fire, because its metric had no value."""
    estimates: Sequence[Estimate] | None = None
    """None for a test of rules."""
    evidence: Sequence[EvidencePoint] = ()
    """Evidence of the followed rule of a test."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold, without the evidence."""
        fields = {
            **self.counts,
            "seconds": self.seconds,
            "rules": {name: alerts.as_dict() for name, alerts in self.rules.items()},
            "alerts": [alert.model_dump(mode="json") for alert in self.alerts],
        }
        if self.estimates is not None:
            fields["estimates"] = [estimate.model_dump(mode="json") for estimate in self.estimates]
        return fields


def recorded_alerts(recording: Recording, selection: Selection) -> Counter[str]:
    """Return the number of alerts that each rule raised in production, within a selection."""
    values = [f"{name}={value}" for name, value in selection.segments]
    fired: dict[str, Alert] = {}
    for entry in recording.entries(EntryKind.ALERTS, pipelines=selection.pipelines):
        alert = cast("Alert", entry.model)
        of_rule = alert.status == "firing" and alert.kind not in _NOT_OF_RULES
        selected = selection.takes_time(alert.fired_at) and (not values or alert.segment in {None, *values})
        if of_rule and selected:
            fired[alert.alert_id] = alert
    return Counter(alert.rule for alert in fired.values())


def by_rule(rules: Iterable[AlertRule], alerts: Iterable[Alert], production: Counter[str]) -> dict[str, RuleAlerts]:
    """Return the alerts by rule: first the rules of the replay, then other rules of production."""
    alerts_of: defaultdict[str, RuleAlerts] = defaultdict(RuleAlerts)
    for rule in rules:
        alerts_of[rule.name].production = 0
    for alert in alerts:
        alerts_of[alert.rule].replay.append(alert)
    for name, count in production.items():
        alerts_of[name].production = count
    return dict(alerts_of)


def without_values(rules: Iterable[AlertRule], metrics: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each rule that could not fire, because its metric has no value.

    Args:
        rules: the tested rules.
        metrics: metrics with values, including the errors against gold scores (`rmse.`), and the names that stand for
            covariates with values.
    """
    for rule in rules:
        if rule.covariate is not None:
            if rule.metric not in metrics:
                yield f"Rule {rule.name} could not fire: no interaction has the covariate {rule.covariate}."
        elif not rule.watched_in(metrics):
            yield f"Rule {rule.name} could not fire: no interaction has a value of {rule.metric}."
        elif (rule.compares_errors or rule.compares_verdicts) and f"rmse.{rule.metric}" not in metrics:
            yield f"Rule {rule.name} could not fire: no interaction has a gold score of {rule.metric}."
