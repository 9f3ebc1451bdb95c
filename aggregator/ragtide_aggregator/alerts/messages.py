"""Makes the alert of a detector's decision, with a message for people, and sentences about its promise. No state."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from ragtide_schemas import (
    Alert,
    AlertRule,
    ChangeCause,
    MetricDefinition,
    MetricEvent,
    Movement,
    definition_of,
    from_milliseconds,
)

from ..events.keys import EstimateKey
from ..statistics.drift.kappa import kappa_interval, kappa_of
from ..statistics.drift.seasons import HOUR_MS, SLOTS
from ..statistics.intervals.intervals import interval
from .baseline import AlarmFacts, SeasonalHours
from .kappa_baseline import line_of
from .statistic import Statistic

OBSERVED_CONFIDENCE: Final = 0.95
"""Confidence of the interval of the values since a change."""

BaselineSource = Literal["given", "learned", "window", "target", "seasonal"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A detector's decision that a mean has changed, with all facts for the alert."""

    rule: AlertRule
    key: EstimateKey
    statistic: Statistic
    movement: Movement
    """The movement that the detector looks for."""
    facts: AlarmFacts
    """What the baseline says."""
    n: int
    """Number of values since the change."""
    variance: float
    """Of these values."""
    began_ms: int
    log_evidence: float
    run_length: float
    contributors: list[str]
    false_discovery_rate: float | None = None
    """Largest mean share of false alarms among the alarms of the deployment; None where it is unbounded."""

    @property
    def source(self) -> BaselineSource:
        """Source of the baseline."""
        rule = self.rule
        if self.facts.hours is not None:
            return "seasonal"
        if rule.baseline_window is not None:
            return "window"
        if rule.target is not None:
            return "target"
        return "learned" if rule.given_baseline is None and rule.baselines is None else "given"

    @property
    def reference(self) -> float:
        """The baseline in the statistic's unit."""
        return self.statistic.unscaled(self.facts.reference)

    @property
    def observed(self) -> tuple[float, float, float]:
        """The statistic since the change, with the ends of its interval, in its unit."""
        couple = self.facts.couple
        if couple is not None:
            return kappa_of(*couple), *kappa_interval(*couple, self.n)
        mean = min(max(self.facts.mean, 0.0), 1.0)
        seen = interval("normal", mean=mean, n=self.n, confidence=OBSERVED_CONFIDENCE, variance=self.variance)
        return (
            self.statistic.unscaled(mean),
            self.statistic.unscaled(seen.lower),
            self.statistic.unscaled(seen.upper),
        )


def alert_of(decision: Decision, event: MetricEvent, *, alert_id: str, fired: Alert | None = None) -> Alert:
    """Return the alert of a decision: a firing alert, or the resolution of the alert that had fired.

    Args:
        decision: of a detector.
        event: at which the alert fired or was resolved.
        alert_id: its id.
        fired: the alert that had fired; None for a firing alert.
    """
    rule, key = decision.rule, decision.key
    observed, lower, upper = decision.observed
    # Interactions come in any order, and the times of an alert do not: a late one does not move them past each other.
    at = event.occurred_at
    common: dict[str, Any] = {
        "alert_id": alert_id,
        "rule": rule.name,
        "kind": rule.kind,
        "pipeline": key.pipeline,
        "segment": key.segment,
        "run": key.run,
        "metric": rule.metric,
        "metric_version": None if key.measure is None else key.measure.version,
        "profile": key.profile,
        "labeler": key.labeler,
        "labeler_version": key.labeler_version,
        "baseline": decision.reference,
        "baseline_source": decision.source,
        "quantity": decision.statistic.name,
        "observed": observed,
        "observed_n": decision.n,
        "observed_lower": lower,
        "observed_upper": upper,
        "log_evidence": decision.log_evidence,
        "n": 1,
    }
    if fired is None:
        return Alert(
            **common,
            status="firing",
            severity=rule.severity,
            fired_at=at,
            direction=decision.movement,
            began_at=min(from_milliseconds(decision.began_ms), at),
            run_length=decision.run_length,
            false_discovery_rate=decision.false_discovery_rate,
            worst_interaction_ids=tuple(decision.contributors),
            message=_firing(decision, definition_of(rule.metric, event.declared)),
        )
    # At the end of an alert the detector has found the return to normal; the alert is about the change before.
    return Alert(
        **common,
        status="resolved",
        severity=fired.severity,
        fired_at=fired.fired_at,
        resolved_at=max(at, fired.explained_at or fired.fired_at),
        direction=fired.direction,
        began_at=fired.began_at,
        run_length=fired.run_length,
        false_discovery_rate=fired.false_discovery_rate,
        message=_resolved(decision),
    )


MIXED_SENTENCE: Final = (
    " Interactions were kept with different sampling probabilities, and a rule takes them as they were kept: a change"
    " of the sampling may move its mean. The estimate of the metric is weighted."
)
"""Added to alerts of keys whose interactions were kept with different probabilities."""

MIXED_GOLD_SENTENCE: Final = (
    " Interactions were drawn for gold scores with different probabilities, and the rule takes them without weights: a"
    " change of the drawing may move its kappa."
)
"""Added to an alert about kappa whose gold scores have different probabilities."""

CERTAIN_EFFECT: Final = 1.2
"""A design effect that is certainly larger breaks the promise of a rule that takes each interaction by itself."""


def dependent_sentence(effect: float) -> str:
    """Return what a design effect means for a rule that takes each interaction by itself."""
    return (
        f" Neighbouring interactions depend on each other (design effect {effect:.1f}), but the rule takes each by"
        " itself: false alarms come more often than that. Set clusters.by to session_id, user_id or blocks."
    )


def unsettled_sentence(block: int) -> str:
    """Return what it means for a rule that the dependence reaches further than the measured blocks."""
    return (
        f" Blocks of {block:,} interactions may be too short for the measured dependence: this rate is not guaranteed."
        " Set clusters.by to session_id or user_id if sessions are known."
    )


NOT_RESOLVED_YET: Final = (
    " Traffic or system: not resolved yet; the alert comes once more, as explained, when enough interactions tell."
)
"""End of the message of an alert while its cause is not known."""


def awaiting_cause(alert: Alert) -> Alert:
    """Return an alert that says that its cause is searched for."""
    return alert.model_copy(update={"message": alert.message + NOT_RESOLVED_YET})


def explained_alert(alert: Alert, cause: ChangeCause, explained_at: datetime, n: int) -> Alert:
    """Return an alert whose cause was searched for as explained.

    Args:
        alert: as it fired.
        cause: of the change.
        explained_at: time of the interaction at which it was found.
        n: number of values in its scope so far.
    """
    told = (
        f" Traffic or system: {cause.text} (mix {cause.mix:+.3f}, {cause.mix_lower:+.3f} to {cause.mix_upper:+.3f}; "
        f"within segments {cause.within:+.3f}, {cause.within_lower:+.3f} to {cause.within_upper:+.3f}; "
        f"{cause.n_since:,} interactions since the alert, {cause.n_before:,} before)."
    )
    at = max(explained_at, alert.fired_at)
    changes = {"status": "explained", "cause": cause, "explained_at": at, "n": n}
    return alert.model_copy(update={**changes, "message": alert.message.replace(NOT_RESOLVED_YET, told)})


def _subject(decision: Decision) -> str:
    key, rule = decision.key, decision.rule
    segment = f", {key.segment}" if key.segment else ""
    if decision.facts.couple is not None:
        return f"Agreement of {key.labeler} with people on {rule.metric} of {key.pipeline}{segment}"
    error = {"rmse": "RMSE of ", "spread": "Spread of "}.get(decision.statistic.name, "")
    return f"{error}{rule.metric} of {key.pipeline}{segment}"


def _seen(decision: Decision, observed: float) -> str:
    names = {"mean": "mean", "spread": "standard deviation", "rmse": "RMSE", "kappa": "Cohen's kappa"}
    return f"{names[decision.statistic.name]} {observed:.3f} over the last {decision.n} {_values(decision)}"


def _values(decision: Decision) -> str:
    return "interactions" if decision.facts.couple is None else "gold scores"


def _firing(decision: Decision, definition: MetricDefinition | None) -> str:
    facts, baseline = decision.facts, decision.reference
    normal = {
        "seasonal": "" if facts.hours is None else _seasonal(decision, facts.hours),
        "target": f"The target is {baseline:.3f}.",
        "given": f"Normal is {baseline:.3f} ({_each(decision)}given by the rule).",
        "learned": f"Normal is {baseline:.3f} ({_each(decision)}learned from {facts.learned_n} {_values(decision)}).",
        "window": f"Normal is {baseline:.3f} (from {facts.learned_n} interactions of the "
        f"{decision.rule.baseline_window} before).",
    }[decision.source]
    observed, meaning = decision.statistic.unscaled(facts.mean), ""
    if facts.couple is not None:
        observed = decision.observed[0]
    elif definition is not None and definition.meaning:
        meaning = f" Meaning: {definition.meaning}"
    return (
        f"{_subject(decision)} {'fell' if decision.movement == 'fall' else 'rose'}{_fixed(decision)}: "
        f"{_seen(decision, observed)}, since about {from_milliseconds(decision.began_ms):%Y-%m-%d %H:%M:%S} UTC"
        f"{_verdicts(decision)}. {normal} {_promise(decision)}{meaning}"
    )


def _verdicts(decision: Decision) -> str:
    couple = decision.facts.couple
    if couple is None:
        return ""
    line = line_of(decision.rule, decision.key.value_range)
    return f"; good is {line:g} or better, and {couple.own:.0%} of verdicts differ, {couple.crossed:.0%} by chance"


def _fixed(decision: Decision) -> str:
    adjusted = decision.facts.adjusted
    return "" if adjusted is None else f" within {adjusted.segment}, mix held fixed"


def _each(decision: Decision) -> str:
    adjusted = decision.facts.adjusted
    if adjusted is None:
        return ""
    plural = "" if adjusted.values == 1 else "s"
    return f"{adjusted.values} value{plural} of {adjusted.segment}, each with its own mean, "


def _promise(decision: Decision) -> str:
    if decision.false_discovery_rate is not None:
        return f"At most {100 * decision.false_discovery_rate:.3g}% of alarms are false, on average (by e-values)."
    return f"Expect at most one false alarm per {decision.run_length:,.0f} {_values(decision)}, on average."


def _seasonal(decision: Decision, hours: SeasonalHours) -> str:
    effect, learned_n = decision.rule.min_effect, decision.facts.learned_n
    return (
        f"Normal for {_named(hours)} is {decision.reference:.3f} (learned by hour of the {hours.season} from "
        f"{learned_n} interactions in {hours.cycles} {hours.season}s). The rule assumes that no hour is "
        f"worse than the same hour of earlier {hours.season}s{f' by more than {effect:g}' if effect else ''}."
    )


def _named(hours: SeasonalHours) -> str:
    """Return hours in words, such as `Mondays 14:00 to 16:00 UTC`."""
    first, last = (from_milliseconds(hour * HOUR_MS) for hour in (hours.first, hours.last + 1))
    if hours.season == "day":
        whole = hours.last - hours.first + 1 >= SLOTS["day"]
        return "all hours of the day" if whole else f"{first:%H:%M} to {last:%H:%M} UTC"
    if hours.last - hours.first + 1 >= SLOTS["week"]:
        return "all hours of the week"
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%A}s {last:%H:%M}"
    return f"{first:%A}s {first:%H:%M} to {until} UTC"


def _resolved(decision: Decision) -> str:
    kappa = decision.facts.couple is not None
    observed = decision.observed[0] if kappa else decision.statistic.unscaled(decision.facts.mean)
    return (
        f"{_subject(decision)} is back{_fixed(decision)}: {_seen(decision, observed)}, against "
        f"{decision.reference:.3f} ({decision.source})."
    )
