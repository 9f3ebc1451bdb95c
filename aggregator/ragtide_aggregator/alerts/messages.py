"""Makes the alert of a detector's decision, with a message for people. No state."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple

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
from ..statistics.drift.seasons import HOUR_MS, SLOTS, Season
from ..statistics.intervals.intervals import interval
from .adjusted_baseline import AdjustedMean
from .alert_record import alert_record
from .statistic import Statistic

OBSERVED_CONFIDENCE: Final = 0.95
"""Confidence of the interval of the values since a change."""

BaselineSource = Literal["given", "learned", "window", "target", "seasonal"]


class SeasonalHours(NamedTuple):
    """The hours of a change that a seasonal baseline speaks of."""

    season: Season
    cycles: int
    """Most days or weeks from which an hour was learned."""
    first: int
    """First hour since 1970."""
    last: int

    @property
    def named(self) -> str:
        """The hours in words, such as `Mondays 14:00 to 16:00 UTC`."""
        first, last = (from_milliseconds(hour * HOUR_MS) for hour in (self.first, self.last + 1))
        if self.season == "day":
            whole = self.last - self.first + 1 >= SLOTS["day"]
            return "all hours of the day" if whole else f"{first:%H:%M} to {last:%H:%M} UTC"
        if self.last - self.first + 1 >= SLOTS["week"]:
            return "all hours of the week"
        until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%A}s {last:%H:%M}"
        return f"{first:%A}s {first:%H:%M} to {until} UTC"


@dataclass(frozen=True, slots=True)
class Decision:
    """A detector's decision that a mean has changed, with all facts for the alert."""

    rule: AlertRule
    key: EstimateKey
    statistic: Statistic
    movement: Movement
    """The movement that the detector looks for."""
    reference: float
    """The normal mean, scaled: the lenient end of the baseline."""
    learned_n: int
    n: int
    """Number of values since the change."""
    mean: float
    """Scaled mean of these values."""
    variance: float
    began_ms: int
    log_evidence: float
    run_length: float
    contributors: list[str]
    false_discovery_rate: float | None = None
    """Largest mean share of false alarms among the alarms of the deployment; None where it is unbounded."""
    hours: SeasonalHours | None = None
    """Of a seasonal baseline."""
    adjusted: AdjustedMean | None = None
    """Of a rule that holds a mix fixed."""


def alert_of(decision: Decision, event: MetricEvent, *, alert_id: str, fired: Alert | None = None) -> Alert:
    """Return the alert of a decision: a firing alert, or the resolution of the alert that had fired."""
    rule, key, statistic = decision.rule, decision.key, decision.statistic
    mean = min(max(decision.mean, 0.0), 1.0)
    seen = interval("normal", mean=mean, n=decision.n, confidence=OBSERVED_CONFIDENCE, variance=decision.variance)
    source: BaselineSource = "learned"
    if decision.hours is not None:
        source = "seasonal"
    elif rule.baseline_window is not None:
        source = "window"
    elif rule.target is not None:
        source = "target"
    elif rule.baseline is not None or rule.baselines is not None:
        source = "given"
    return alert_record(
        rule,
        key,
        event,
        alert_id=alert_id,
        fired=fired,
        direction=decision.movement if fired is None else fired.direction,
        began_ms=decision.began_ms,
        baseline=statistic.unscaled(decision.reference),
        baseline_source=source,
        quantity=statistic.name,
        observed=statistic.unscaled(mean),
        observed_n=decision.n,
        observed_lower=statistic.unscaled(seen.lower),
        observed_upper=statistic.unscaled(seen.upper),
        log_evidence=decision.log_evidence,
        run_length=decision.run_length,
        false_discovery_rate=decision.false_discovery_rate if fired is None else fired.false_discovery_rate,
        n=1,
        contributors=decision.contributors,
        message=_resolved(decision, source)
        if fired is not None
        else _firing(decision, source, definition_of(rule.metric, event.declared)),
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
    error = {"rmse": "RMSE of ", "spread": "Spread of ", "mean": ""}[decision.statistic.name]
    return f"{error}{rule.metric} of {key.pipeline}{segment}"


def _name(decision: Decision) -> str:
    return {"mean": "mean", "spread": "standard deviation", "rmse": "RMSE"}[decision.statistic.name]


def _firing(decision: Decision, source: BaselineSource, definition: MetricDefinition | None) -> str:
    observed, baseline = (decision.statistic.unscaled(value) for value in (decision.mean, decision.reference))
    normal = {
        "seasonal": "" if decision.hours is None else _seasonal(decision, decision.hours, baseline),
        "target": f"The target is {baseline:.3f}.",
        "given": f"Normal is {baseline:.3f} ({_each(decision)}given by the rule).",
        "learned": f"Normal is {baseline:.3f} ({_each(decision)}learned from {decision.learned_n} interactions).",
        "window": f"Normal is {baseline:.3f} (from {decision.learned_n} interactions of the "
        f"{decision.rule.baseline_window} before).",
    }[source]
    return (
        f"{_subject(decision)} {'fell' if decision.movement == 'fall' else 'rose'}{_fixed(decision)}: "
        f"{_name(decision)} {observed:.3f} over the last {decision.n} interactions, since about "
        f"{from_milliseconds(decision.began_ms):%Y-%m-%d %H:%M:%S} UTC. {normal} "
        f"{_promise(decision)}"
        + (f" Meaning: {definition.meaning}" if definition is not None and definition.meaning else "")
    )


def _fixed(decision: Decision) -> str:
    return "" if decision.adjusted is None else f" within {decision.adjusted.segment}, mix held fixed"


def _each(decision: Decision) -> str:
    if decision.adjusted is None:
        return ""
    segment, n = decision.adjusted.segment, decision.adjusted.values
    return f"{n} value{'' if n == 1 else 's'} of {segment}, each with its own mean, "


def _promise(decision: Decision) -> str:
    if decision.false_discovery_rate is not None:
        return f"At most {100 * decision.false_discovery_rate:.3g}% of alarms are false, on average (by e-values)."
    return f"Expect at most one false alarm per {decision.run_length:,.0f} interactions, on average."


def _seasonal(decision: Decision, hours: SeasonalHours, baseline: float) -> str:
    effect = decision.rule.min_effect
    return (
        f"Normal for {hours.named} is {baseline:.3f} (learned by hour of the {hours.season} from "
        f"{decision.learned_n} interactions in {hours.cycles} {hours.season}s). The rule assumes that no hour is "
        f"worse than the same hour of earlier {hours.season}s{f' by more than {effect:g}' if effect else ''}."
    )


def _resolved(decision: Decision, source: BaselineSource) -> str:
    observed, baseline = (decision.statistic.unscaled(value) for value in (decision.mean, decision.reference))
    return (
        f"{_subject(decision)} is back{_fixed(decision)}: {_name(decision)} {observed:.3f} over the last "
        f"{decision.n} interactions, against {baseline:.3f} ({source})."
    )
