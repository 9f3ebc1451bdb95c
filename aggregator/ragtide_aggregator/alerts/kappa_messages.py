"""Makes the alert of a rule on Cohen's kappa, with a message for people. No state."""

from dataclasses import dataclass
from typing import Final, Literal

from ragtide_schemas import Alert, AlertRule, MetricEvent, from_milliseconds

from ..events.keys import EstimateKey
from ..statistics.drift.kappa import Couple, kappa_interval, kappa_of
from .alert_record import alert_record

MIXED_SENTENCE: Final = (
    " Interactions were drawn for gold scores with different probabilities, and the rule takes them without weights: a"
    " change of the drawing may move its kappa."
)
"""Added to an alert whose gold scores have different probabilities."""

KappaSource = Literal["given", "learned", "target"]


@dataclass(frozen=True, slots=True)
class KappaDecision:
    """A detector's decision that kappa has changed, with all facts for the alert."""

    rule: AlertRule
    key: EstimateKey
    """Key of the labeler's scores."""
    line: float
    """The score that separates good from bad, in the metric's unit."""
    reference: float
    """The normal kappa: the lenient end of the baseline, or the target."""
    learned_n: int
    """Number of gold scores that the baseline was learned from; 0 for a given one."""
    n: int
    """Number of gold scores since the change."""
    since: Couple
    """Means of the disagreements of these."""
    began_ms: int
    log_evidence: float
    run_length: float
    total: int
    """Number of gold scores so far."""
    contributors: list[str]
    mixed: bool
    """Whether gold scores so far were drawn with different probabilities."""

    @property
    def source(self) -> KappaSource:
        """Source of the reference."""
        if self.rule.target is not None:
            return "target"
        return "given" if self.rule.given_baseline is not None else "learned"


def kappa_alert(decision: KappaDecision, event: MetricEvent, *, alert_id: str, fired: Alert | None = None) -> Alert:
    """Return the alert of a decision: a firing alert, or the resolution of the alert that had fired."""
    rule, key, since = decision.rule, decision.key, decision.since
    lower, upper = kappa_interval(since.own, since.crossed, decision.n)
    return alert_record(
        rule,
        key,
        event,
        alert_id=alert_id,
        fired=fired,
        direction="fall",
        began_ms=decision.began_ms,
        baseline=decision.reference,
        baseline_source=decision.source,
        quantity="kappa",
        observed=kappa_of(since.own, since.crossed),
        observed_n=decision.n,
        observed_lower=lower,
        observed_upper=upper,
        log_evidence=decision.log_evidence,
        run_length=decision.run_length,
        n=decision.total,
        contributors=decision.contributors,
        message=_firing(decision) if fired is None else _resolved(decision),
    )


def _subject(decision: KappaDecision) -> str:
    key = decision.key
    segment = f", {key.segment}" if key.segment else ""
    return f"Agreement of {key.labeler} with people on {decision.rule.metric} of {key.pipeline}{segment}"


def _firing(decision: KappaDecision) -> str:
    normal = {
        "target": f"The target is {decision.reference:.3f}.",
        "given": f"Normal is {decision.reference:.3f} (given by the rule).",
        "learned": f"Normal is {decision.reference:.3f} (learned from {decision.learned_n} gold scores).",
    }[decision.source]
    since = decision.since
    return (
        f"{_subject(decision)} fell: Cohen's kappa {kappa_of(since.own, since.crossed):.3f} over the last {decision.n} "
        f"gold scores, since about {from_milliseconds(decision.began_ms):%Y-%m-%d %H:%M:%S} UTC; good is "
        f"{decision.line:g} or better, and {since.own:.0%} of verdicts differ, {since.crossed:.0%} by chance. {normal} "
        f"Expect at most one false alarm per {decision.run_length:,.0f} gold scores, on average."
        + (MIXED_SENTENCE if decision.mixed else "")
    )


def _resolved(decision: KappaDecision) -> str:
    since = decision.since
    return (
        f"{_subject(decision)} is back: Cohen's kappa {kappa_of(since.own, since.crossed):.3f} over the last "
        f"{decision.n} gold scores, against {decision.reference:.3f} ({decision.source})."
    )
