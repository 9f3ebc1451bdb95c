"""Alerts."""

from datetime import datetime
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from .alert_kinds import Movement, Quantity
from .alert_rule import AlertKind, AlertStatus, HealthKind, QuantileSide, Severity
from .base import Count, Name, PartOfOne, SegmentValue, Size, UtcTime, VersionedModel, WireInterval, WireModel
from .html_tables import html_table
from .metric_names import MetricName
from .printable import short_repr
from .release import RELEASE_RULE, WORSE_RULE, Release, ReleaseEvent
from .step_metrics import ComponentKind


class SegmentShare(WireModel):
    """The share of one segment value in the traffic, before a change and since its alert, and the mean of its scores.

    The interval of each share holds for this one share, at every look.
    """

    value: SegmentValue
    """The segment value, such as `lang=de`; or a group of values, such as `rare values`."""
    before: PartOfOne
    """Its share before."""
    before_lower: PartOfOne
    """Lower end of the interval of the share before."""
    before_upper: PartOfOne
    """Upper end of this interval."""
    since: PartOfOne
    """Its share since the alert."""
    since_lower: PartOfOne
    """Lower end of the interval of the share since."""
    since_upper: PartOfOne
    """Upper end of this interval."""
    mean_before: float | None = None
    """Mean of its scores before; None without scores."""
    mean_since: float | None = None
    """Mean of its scores since the alert; None without scores."""


class ChangeCause(WireModel):
    """The cause of a change, other traffic or other answers: the change split by the values of one segment.

    The time since the alert is compared with the time before it. `mix` is the change by other shares of the segment
    values, and `within` the change of answers of the same segment value. Both are in the metric's unit, and their
    intervals hold together at every look.
    """

    verdict: Literal["mix", "within", "both", "neither", "unresolved"]
    """The part that is certain, and the larger one; `neither` if both are small. `unresolved` if one part is certain,
    but not which is the larger, or another segment may still explain it."""
    segment: Name
    """Name of the segment that explains most, such as `lang`."""
    spread: Literal["all", "few"] | None = None
    """Whether all values of the segment changed within, or few; None if that is not certain."""
    carriers: tuple[SegmentValue, ...] = ()
    """Segment values that certainly changed more than the others, the largest contribution first."""
    n_before: Size
    """Number of interactions before."""
    n_since: Size
    """Number of interactions since the alert."""
    mix: float
    """Change by the mix of segment values."""
    mix_lower: float
    """Lower end of its interval."""
    mix_upper: float
    """Upper end of its interval."""
    within: float
    """Change within segment values."""
    within_lower: float
    """Lower end of its interval."""
    within_upper: float
    """Upper end of its interval."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence of both intervals together."""
    shares: tuple[SegmentShare, ...] = ()
    """Shares of the segment values with the largest part in the change, at most three, the largest part first."""
    text: str
    """The cause in a few words, such as `mostly mix: more lang=de (12% to 31%)`."""


class ValueShare(WireModel):
    """The share of some values of a covariate, before a change and since."""

    values: Annotated[str, Field(max_length=500)]
    """The values in words, such as `above 400`, or a segment value."""
    before: PartOfOne
    """Their share in the values that the rule learned from."""
    since: PartOfOne
    """Their share in the newest values since the change, at most 1,000."""


class StepChange(WireInterval[float]):
    """The change of one number of a step or a tool; the intervals of all changes hold together, at every look.

    The interval is that of since - before.
    """

    step: Name
    """Name of the step."""
    metric: MetricName
    """Qualified name of the number, such as `retrieval.step.bm25.used_recall` or `tool.search.yield`."""
    before: float
    """Mean before the change."""
    since: float
    """Mean since the alert."""


class StepName(WireModel):
    """A part of the pipeline: a retriever, a reranker, a tool of an agent, or the generator."""

    step: Name
    """Name of the step; `generator` for the generator."""
    kind: ComponentKind
    """Kind of the step."""


class StepCause(WireModel):
    """Which steps of the pipeline moved by themselves: each step is in one of `moved`, `possible` and `unmoved`."""

    verdict: Literal["moved", "partly", "unresolved"]
    """`moved`: the steps in `moved` explain all, because no other moved by itself. `partly`: they moved, and others may
    have moved, too. `unresolved`: no step is certain to have moved."""
    moved: tuple[StepName, ...] = ()
    """Steps that certainly moved by themselves."""
    possible: tuple[StepName, ...] = ()
    """Steps that may have moved by themselves: nothing is certain about them."""
    unmoved: tuple[StepName, ...] = ()
    """Steps that certainly did not move by themselves: their own numbers are as before, given the steps before them."""
    n_before: Count
    """Number of interactions before."""
    n_since: Count
    """Number of interactions since the alert."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence of all intervals together."""
    changes: tuple[StepChange, ...] = ()
    """Changes from which the steps follow, the first of each step first; without a step those that are certain."""
    called: tuple[StepChange, ...] | None = None
    """Shares of the runs of an agent that begin with a call of a tool (`tool.NAME.called`), where they certainly
    changed, the largest change first; None where none did."""


class Alert(VersionedModel):
    """One change of an alert: it fires once, may be explained once while it fires, and resolves once, under one id."""

    alert_id: Name
    """Stable id: the same after a restart, and the same for firing, explaining and resolving."""
    status: AlertStatus
    """Status of the alert. An `explained` alert still fires: its `cause` or its `moved_step` became known."""
    rule: Name
    """Name of the rule."""
    kind: AlertKind
    """Kind of the rule. Four kinds have no statistics of a rule: `budget` (a spend limit was reached), `stall`
    (labeling is behind, traffic stopped, interactions are dropped, or scores stopped), `capped` (a pipeline has reached
    its cap on keys, so new segment values count in `other`), and `release` (two versions serve at the same time)."""
    severity: Severity = "ticket"
    """Urgency that the rule states: `page`, `ticket` or `info`. It stays the same until the alert resolves."""
    pipeline: Name
    """The pipeline; `*` for the whole deployment."""
    segment: SegmentValue | None = None
    """The segment value, for rules on a segment."""
    run: Name | None = None
    """The offline run; None for live traffic."""
    metric: MetricName
    """Qualified metric name."""
    metric_version: Name | None = None
    """Version of the metric's formula; None for ragtide's own metrics."""
    profile: Name | None = None
    """Variant of the formulas."""
    labeler: Name | None = None
    """Name of the labeler."""
    labeler_version: Name | None = None
    """Version of the labeler."""
    direction: Movement
    """Direction of the bad change."""
    fired_at: UtcTime
    """Time of the interaction at which it fired."""
    resolved_at: UtcTime | None = None
    """Time of the interaction at which it resolved."""
    explained_at: UtcTime | None = None
    """Time of the interaction at which it was explained."""
    cause: ChangeCause | None = None
    """Other traffic or other answers; None until it is known, and without segments."""
    moved_step: StepCause | None = None
    """Steps that moved by themselves; None until they were searched for, and without steps."""
    began_at: UtcTime | None = None
    """Probable beginning of the change: time of the first interaction since the estimated change point."""
    baseline: float | None = None
    """The normal mean, spread, RMSE or kappa: given, learned, of a past window, or the rule's target; of a `seasonal`
    baseline the mean over the hours since the change; of a rule with `adjust` the mean of the baselines of all segment
    values, by their shares of the interactions so far."""
    baseline_source: Literal["given", "learned", "window", "target", "seasonal", "earlier"] | None = None
    """Source of the baseline; a baseline that was learned is the lenient end of its interval, and with `earlier` it is
    the mean of all values before the change."""
    normal: float | None = None
    """The normal mean, spread, RMSE or kappa itself: as it was learned, or as the rule gives it; `baseline` is the
    lenient end of what was learned. None for a target."""
    normal_n: Size | None = None
    """Number of values from which `normal` was learned; None if it is given."""
    normal_of: Annotated[str, Field(max_length=1000)] | None = None
    """What `normal` holds for, in words, such as `Mondays 14:00 to 16:00 UTC`; None for all values."""
    limit: float | None = None
    """The limit from which the rule counts: a mean beyond it is evidence of a change. It is `baseline`, moved by the
    `min_effect` of the rule."""
    quantity: Quantity = "mean"
    """The statistic that changed; the spread is the standard deviation about the baseline's mean, kappa is Cohen's, and
    `share` is the share of answers on one side of `edge`, of a rule on a quantile, or that of the values `values` of a
    covariate."""
    edge: float | None = None
    """Of a `share`: the target of the rule, in the metric's unit."""
    edge_side: QuantileSide | None = None
    """Of a `share`: `above` for answers above `edge`, `upto` for answers at or below it."""
    covariate: Name | None = None
    """The covariate whose distribution changed, such as `question_length` or `segment:topic`; None for a rule on a
    metric."""
    values: Annotated[str, Field(max_length=500)] | None = None
    """The values of the covariate whose share rose, in words, such as `above 400`."""
    shares: Annotated[tuple[ValueShare, ...], Field(max_length=100)] = ()
    """Shares of all values of the covariate, in groups that do not overlap, of an alert that begins to fire."""
    distance: PartOfOne | None = None
    """Total variation distance between the shares before and since: half of the sum of their differences."""
    detector: Literal["e_detector"] = "e_detector"
    """Kind of the detector."""
    observed: float | None = None
    """Mean, spread, RMSE or kappa of the values since the estimated change point. Of a rule with `adjust`: the
    baseline, moved by the mean distance of these values from the baselines of their segment values."""
    observed_n: Size | None = None
    """Number of values since the estimated change point."""
    observed_of: Literal["answers", "first_answers"] = "answers"
    """What `observed` and `observed_n` are of: all answers since the change, in closed sessions or by themselves, or
    the first one, two or four of each session."""
    observed_lower: float | None = None
    """Lower end of the fixed-n interval of `observed`: no guarantee, because the data chose the change point."""
    observed_upper: float | None = None
    """Upper end of this interval."""
    fired_observed: float | None = None
    """Of an alert that has recovered: `observed` when it fired."""
    log_evidence: float | None = None
    """Natural logarithm of the e-detector at the decision."""
    run_length: float | None = None
    """Guarantee: least mean number of values between false alarms of this rule on this key; with a budget, as of the
    decision."""
    false_discovery_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Guarantee: largest mean share of false alarms among all alarms of the deployment in a period, of rules without a
    run length of their own; None where this share is not bounded."""
    design_effect: Annotated[float, Field(ge=0)] | None = None
    """How many times larger the dependence of neighbouring interactions of the pipeline makes the variance of the mean;
    None while it is not measured."""
    dependence: Literal["ignored", "long"] | None = None
    """Why the guarantee is not certain: the rule takes each interaction by itself, although neighbouring ones depend on
    each other (`ignored`), or the dependence may reach further than the measured blocks (`long`)."""
    n: Size | None = None
    """Number of values in the scope so far."""
    worst_interaction_ids: tuple[Name, ...] = ()
    """Interactions since the change point that changed the mean most, the worst first. With specimens, only those that
    are kept while the alert fires."""
    diagnosis: tuple[str, ...] = ()
    """Diagnoses of the recent scores of the scope, in sentences with evidence and advice."""
    cause_sought: bool = False
    """Whether the cause is being searched for; the alert comes once more, as explained, when it is known."""
    step_sought: bool = False
    """Whether the steps that moved are being searched for; the alert comes once more, as explained, when it ends."""
    release: Release | None = None
    """Of an alert of kind `release`: the release with its verdict, without the points over time."""
    notes: Annotated[tuple[str, ...], Field(max_length=10)] = ()
    """What else the rule has to say, in sentences: the meaning of the metric, an assumption, a caution."""
    message: str
    """The alert in a few sentences."""

    def __repr__(self) -> str:
        """Return status, rule, scope and the message, in bounded length."""
        names = ("status", "rule", "pipeline", "segment", "metric", "fired_at", "message")
        fields = [(name, getattr(self, name)) for name in names]
        return short_repr("Alert", [(name, value) for name, value in fields if value is not None])

    @property
    def is_news(self) -> bool:
        """Whether it reports how a release goes on, which is no problem."""
        return self.release is not None and self.rule == RELEASE_RULE

    @property
    def event(self) -> ReleaseEvent | None:
        """What an alert about a release reports; None of another alert."""
        if self.release is None:
            return None
        if self.rule == WORSE_RULE:
            return "release.worse" if self.status == "firing" else "release.ended"
        if self.status == "firing":
            return "release.opened"
        return "release.not_worse" if self.release.verdict == "not_worse" else "release.ended"

    def resolve(self, at: datetime, message: str, release: Release | None = None) -> Self:
        """Return the end of the alert, at a time and with a message of its own.

        Args:
            at: the time of the end.
            message: what the alert says then.
            release: of an alert about a release, the release at its end.
        """
        changed = {"status": "resolved", "resolved_at": at, "message": message, "release": release or self.release}
        return self.model_copy(update=changed)

    def _repr_html_(self) -> str:
        columns = ("status", "rule", "pipeline", "segment", "metric", "fired at", "baseline", "observed")
        fired_at = f"{self.fired_at:%Y-%m-%d %H:%M} UTC"
        row = (
            self.status, self.rule, self.pipeline, self.segment, self.metric, fired_at, self.baseline, self.observed
        )  # fmt: skip
        return html_table(columns, [row], caption=self.message)

    @model_validator(mode="after")
    def _statistics_are_given(self) -> Self:
        if self.kind not in get_args(HealthKind):
            for name in _STATISTICS:
                if getattr(self, name) is None:
                    raise ValueError(f"{name} is missing: an alert of kind {self.kind} needs its statistics")
        return self


_STATISTICS = (
    "profile",
    "labeler",
    "labeler_version",
    "baseline",
    "baseline_source",
    "observed",
    "observed_n",
    "observed_lower",
    "observed_upper",
    "log_evidence",
    "run_length",
    "n",
)
"""Fields that every alert about a metric has."""
