"""Alert rules, and the alerts they raise."""

from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from .base import Name, SegmentValue, Size, UtcTime, VersionedModel, WireModel
from .limits import COUNTER_MAX, RUN_LENGTH_MAX
from .metric_definitions import CLOSED_FAMILIES, METRICS
from .metrics import Direction, MetricDefinition, MetricName
from .suggestions import unknown

Movement = Literal["fall", "rise"]


RuleDirection = Literal["fall", "rise", "both"]

Duration = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mhd]$")]
"""A length of time such as `30m`, `6h` or `7d`."""


class AlertRule(WireModel):
    """An alert rule: a metric, a baseline, and a false-alarm budget.

    - `threshold` watches for a mean beyond `target`.
    - `drift` watches for a mean that left its baseline.
    - `rmse` watches for an error against gold scores beyond `target`, or beyond its baseline.
    - `distribution` watches for a mean or a spread that left its baseline, in either direction.

    A baseline is given, learned from the first `learn_n` values, or that of the `baseline_window` before the present
    one. They fire on evidence from an e-detector whose mean run between false alarms is at least `run_length` values,
    or as the budget of the deployment allows (docs/drift.md).
    """

    name: Name
    """Unique name of the rule."""
    kind: Literal["threshold", "drift", "rmse", "distribution"]
    """Comparison that the rule makes."""
    metric: MetricName
    """Qualified metric name; for `rmse` that of the scores that have gold scores."""
    direction: RuleDirection | None = None
    """Which movement is bad; by default against the metric's own direction, and both for `distribution`."""
    pipeline: Name = "*"
    """Shell-style pattern of the pipelines it applies to."""
    segment: Name | None = None
    """Name of a segment each value of which is watched by itself; None watches whole pipelines."""
    target: float | None = None
    """For `threshold` and `rmse`: the limit."""
    baseline: float | None = None
    """The mean, or error, that is normal; None learns it."""
    baseline_spread: Annotated[float, Field(gt=0)] | None = None
    """For `distribution` with a baseline: the standard deviation that is normal."""
    baseline_window: Duration | None = None
    """Take the baseline from the whole stretch of this length before the present one, such as `1d`."""
    learn_n: Annotated[int, Field(ge=20, le=COUNTER_MAX)] = 200
    """Number of first values a baseline is learned from, or least number in its window."""
    min_effect: Annotated[float, Field(ge=0)] = 0.02
    """Movement that is too small to alert on, in the metric's unit."""
    hysteresis: Annotated[float, Field(ge=0)] = 0.0
    """How far back beyond the alarm line the mean must be for the alert to resolve, in the metric's unit."""
    run_length: Annotated[float, Field(ge=10, le=RUN_LENGTH_MAX)] | None = None
    """Mean number of values between false alarms is at least this, per pipeline or segment value; None takes a share of
    the deployment's budget, or 10,000 where there is none."""
    resolve_run_length: Annotated[float, Field(ge=10, le=RUN_LENGTH_MAX)] = 1_000
    """The same for falsely resolving: lower resolves sooner."""

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        family, _, rest = self.metric.partition(".")
        if family == "rmse":
            near = get_close_matches(rest, METRICS, n=1)
            meant = near[0] if near and rest not in METRICS else rest
            raise ValueError(f"metric {self.metric} is an estimate: use kind rmse with the metric {meant}")
        if family in _ESTIMATED:
            raise ValueError(f"no rule can watch {self.metric}: name a metric that has scores, such as trace.adherence")
        self._check_reference()
        definition = METRICS.get(self.metric)
        if definition is not None:
            self.check_definition(definition)
        elif family in CLOSED_FAMILIES:
            raise ValueError(unknown("metric", self.metric, (one for one in METRICS if one.startswith(f"{family}."))))
        return self

    def _check_reference(self) -> None:
        if self.kind == "threshold" and self.target is None:
            raise ValueError("a threshold rule needs target: the limit of the mean")
        if self.kind == "threshold" and (self.baseline is not None or self.baseline_window is not None):
            raise ValueError("baseline belongs to a drift rule: use target in a threshold rule")
        if self.kind in ("drift", "distribution") and self.target is not None:
            raise ValueError(f"target belongs to a threshold rule: use baseline in a {self.kind} rule")
        if len(self._referred()) > 1:
            raise ValueError(f"{' and '.join(self._referred())} exclude each other: keep one")
        if self.kind == "threshold" and self.direction == "both":
            raise ValueError("a threshold is on one side: state direction, fall or rise")
        if self.kind == "rmse" and self.direction not in (None, "rise"):
            raise ValueError("an rmse rule watches for an error that rises: leave direction out")
        if self.kind == "distribution" and self.direction not in (None, "both"):
            raise ValueError("a distribution rule watches both directions: leave direction out")
        if (self.baseline_spread is not None) != (self.kind == "distribution" and self.baseline is not None):
            raise ValueError("baseline_spread goes with baseline in a distribution rule: give both or neither")

    def _referred(self) -> list[str]:
        return [name for name in ("target", "baseline", "baseline_window") if getattr(self, name) is not None]

    def check_definition(self, definition: MetricDefinition) -> None:
        """Check that the rule suits its metric, and that it can fire.

        Args:
            definition: of its metric.

        Raises:
            ValueError: the rule states no direction for a metric without one, or no mean in the metric's range is
                beyond the alarm line.
        """
        stated = self.direction is not None or self.kind not in ("threshold", "drift")
        if not stated and definition.direction is Direction.NEITHER:
            raise ValueError(f"{self.metric} has no better or worse: state direction, fall, rise or both")
        lower, upper = definition.lower, definition.upper
        if self.kind == "rmse":
            lower, upper = 0.0, upper - lower
        given = self.baseline if self.target is None else self.target
        if given is None:
            return
        lines = [alarm_line(given, movement, self.min_effect) for movement in self.movements_of(definition.direction)]
        if not any(lower < line < upper for line in lines):
            raise ValueError(
                f"the rule could never fire: its alarm line {lines[0]:g} is not inside the metric's range "
                f"{lower:g} to {upper:g}; choose another target, baseline or min_effect"
            )

    @property
    def movements(self) -> tuple[Movement, ...]:
        """Which movements are bad, where the metric is one of ragtide's own or the rule states its direction."""
        definition = METRICS.get(self.metric)
        return self.movements_of(None if definition is None else definition.direction)

    def movements_of(self, better: Direction | None) -> tuple[Movement, ...]:
        """Return which movements are bad for a metric that gets better in a direction; None if that is unknown."""
        if self.kind == "rmse":
            return ("rise",)
        if self.kind == "distribution" or self.direction == "both":
            return ("fall", "rise")
        if self.direction is not None:
            return (self.direction,)
        if better is Direction.NEITHER:
            # Only for a declared metric: a rule on one of ragtide's own states its direction.
            return ("fall", "rise") if self.kind == "drift" else ("fall",)
        return ("rise",) if better is Direction.LOWER else ("fall",)


_ESTIMATED = ("consistency_score", "labeling")
"""Families of numbers that are shown and have no scores."""


def alarm_line(reference: float, movement: Movement, min_effect: float) -> float:
    """Return the mean beyond which a movement away from the reference is worth an alert."""
    return reference - min_effect if movement == "fall" else reference + min_effect


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration.

    >>> duration_ms("6h")
    21600000
    """
    return int(text[:-1]) * {"m": 60_000, "h": 3_600_000, "d": 86_400_000}[text[-1]]


class Alert(VersionedModel):
    """One change of an alert: it fires once and resolves once, under the same id."""

    alert_id: Name
    """Stable id: the same after a restart, the same for firing and resolving."""
    status: Literal["firing", "resolved"]
    """Kind of the alert."""
    rule: Name
    """Name of the rule."""
    kind: Literal["threshold", "drift", "rmse", "distribution", "budget", "stall", "capped"]
    """Kind of the rule; without statistics are `budget`, a spend limit that was reached, `stall`, something that does
    not move: labeling that is behind, traffic that stopped, interactions that are dropped, scores that stop coming, and
    `capped`, a pipeline that has as many keys as it may, so that further segment values count in `other`."""
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
    """Which movement is bad."""
    fired_at: UtcTime
    """Time of the interaction at which it fired."""
    resolved_at: UtcTime | None = None
    """Time of the interaction at which it resolved."""
    began_at: UtcTime | None = None
    """When the change probably began: time of the first interaction since the estimated change point."""
    baseline: float | None = None
    """The normal mean, spread or RMSE: given, learned, of a past window, or the rule's target."""
    baseline_source: Literal["given", "learned", "window", "target"] | None = None
    """Where it comes from; a learned one or one of a window is the confidence bound on the lenient side."""
    quantity: Literal["mean", "spread", "rmse"] = "mean"
    """The statistic that moved; the spread is the standard deviation about the baseline's mean."""
    detector: Literal["e_detector"] = "e_detector"
    """The kind of detector that decided."""
    observed: float | None = None
    """Mean, spread or RMSE of the values since the estimated change point."""
    observed_n: Size | None = None
    """Number of those values."""
    observed_lower: float | None = None
    """Lower end of their fixed-n interval: a description, not a guarantee, because the data chose the start."""
    observed_upper: float | None = None
    """Upper end of that interval."""
    log_evidence: float | None = None
    """Natural logarithm of the e-detector at the decision."""
    run_length: float | None = None
    """Guarantee: the mean number of values between false alarms of this rule on this key is at least this; with a
    budget, what its share of it came to at the decision."""
    n: Size | None = None
    """Number of values in the scope so far."""
    worst_interaction_ids: tuple[Name, ...] = ()
    """Interactions since the change that moved the mean most, the worst first."""
    diagnosis: tuple[str, ...] = ()
    """Diagnosis of all recent scores of the scope, in sentences with evidence and advice."""
    message: str
    """The alert in one or two plain sentences."""

    @model_validator(mode="after")
    def _statistics_are_told(self) -> Self:
        if self.kind not in ("budget", "stall", "capped"):
            for name in _STATISTICS:
                if getattr(self, name) is None:
                    raise ValueError(f"{name} is missing: an alert of kind {self.kind} states its statistics")
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
