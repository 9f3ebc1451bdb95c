"""Alert rules, and the alerts they raise."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import Name, UtcTime, VersionedModel, WireModel
from .metrics import METRICS, Direction, MetricName, value_range

Movement = Literal["fall", "rise"]


class AlertRule(WireModel):
    """What to watch, and with which false-alarm budget.

    `threshold` watches for a mean beyond `target`; `drift` for a mean that left its `baseline`, given or learned from
    the first `learn_n` values. Both fire on evidence from an e-detector whose mean run between false alarms is at
    least `run_length` values (docs/statistics.md, "Drift").
    """

    name: Name
    """Unique name of the rule."""
    kind: Literal["threshold", "drift"]
    """What is compared with what."""
    metric: MetricName
    """Qualified metric name."""
    direction: Movement | None = None
    """Which movement is bad; by default against the metric's own direction."""
    pipeline: str = "*"
    """Shell-style pattern of the pipelines it applies to."""
    segment: Name | None = None
    """Name of a segment each value of which is watched by itself; None watches whole pipelines."""
    target: float | None = None
    """For `threshold`: the limit of the mean."""
    baseline: float | None = None
    """For `drift`: the mean that is normal; None learns it."""
    learn_n: Annotated[int, Field(ge=20)] = 200
    """For `drift` without a baseline: number of first values it is learned from."""
    min_effect: Annotated[float, Field(ge=0)] = 0.02
    """Movement that is too small to alert on, in the metric's unit."""
    hysteresis: Annotated[float, Field(ge=0)] = 0.0
    """How far back beyond the alarm line the mean must be for the alert to resolve, in the metric's unit."""
    run_length: Annotated[float, Field(ge=10)] = 10_000
    """Mean number of values between false alarms is at least this, per pipeline or segment value."""
    resolve_run_length: Annotated[float, Field(ge=10)] = 100
    """The same for falsely resolving: lower resolves sooner."""

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.kind == "threshold" and self.target is None:
            raise ValueError("a threshold rule needs target: the limit of the mean")
        if self.kind == "threshold" and self.baseline is not None:
            raise ValueError("baseline belongs to a drift rule: use target in a threshold rule")
        if self.kind == "drift" and self.target is not None:
            raise ValueError("target belongs to a threshold rule: use baseline in a drift rule")
        definition = METRICS.get(self.metric)
        if self.direction is None and definition is not None and definition.direction is Direction.NEITHER:
            raise ValueError(f"{self.metric} has no better or worse: state direction, fall or rise")
        if definition is not None:
            self.check_reachable()
        return self

    def check_reachable(self) -> None:
        """Check that the rule can fire; for a metric of the user's own once it is registered.

        Raises:
            ValueError: no mean in the metric's range is beyond the alarm line.
        """
        lower, upper = value_range(self.metric)
        given = self.target if self.kind == "threshold" else self.baseline
        line = None if given is None else alarm_line(given, self.movement, self.min_effect)
        if line is not None and not lower < line < upper:
            raise ValueError(
                f"the rule could never fire: its alarm line {line:g} is not inside the metric's range "
                f"{lower:g} to {upper:g}; choose another target, baseline or min_effect"
            )

    @property
    def movement(self) -> Movement:
        """Which movement is bad."""
        if self.direction is not None:
            return self.direction
        definition = METRICS.get(self.metric)
        return "rise" if definition is not None and definition.direction is Direction.LOWER else "fall"


def alarm_line(reference: float, movement: Movement, min_effect: float) -> float:
    """Return the mean beyond which a movement away from the reference is worth an alert."""
    return reference - min_effect if movement == "fall" else reference + min_effect


class Alert(VersionedModel):
    """One change of an alert: it fires once and resolves once, under the same id."""

    alert_id: Name
    """Stable id: the same after a restart, the same for firing and resolving."""
    status: Literal["firing", "resolved"]
    """What happened."""
    rule: Name
    """Name of the rule."""
    kind: Literal["threshold", "drift", "budget"]
    """Kind of the rule; `budget` is a spend limit that was reached, without statistics."""
    pipeline: Name
    """The pipeline; `*` for the whole deployment."""
    segment: str | None = None
    """The segment value, for rules on a segment."""
    run: Name | None = None
    """The offline run; None for live traffic."""
    metric: MetricName
    """Qualified metric name."""
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
    """The mean that was normal: given, learned, or the rule's target."""
    baseline_source: Literal["given", "learned", "target"] | None = None
    """Where the baseline comes from; a learned one is the confidence bound on the lenient side."""
    observed: float | None = None
    """Mean of the values since the estimated change point."""
    observed_n: Annotated[int, Field(ge=1)] | None = None
    """Number of those values."""
    observed_lower: float | None = None
    """Lower end of their fixed-n interval: a description, not a guarantee, because the data chose the start."""
    observed_upper: float | None = None
    """Upper end of that interval."""
    log_evidence: float | None = None
    """Natural logarithm of the e-detector at the decision."""
    run_length: float | None = None
    """Guarantee: the mean number of values between false alarms of this rule on this key is at least this."""
    n: Annotated[int, Field(ge=1)] | None = None
    """Number of values in the scope so far."""
    worst_interaction_ids: tuple[Name, ...] = ()
    """Interactions since the change that moved the mean most, the worst first."""
    diagnosis: tuple[str, ...] = ()
    """What the pattern of all recent scores of the scope suggests, in sentences with evidence and advice."""
    message: str
    """The alert in one or two plain sentences."""

    @model_validator(mode="after")
    def _statistics_are_told(self) -> Self:
        if self.kind != "budget":
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
