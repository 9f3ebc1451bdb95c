"""Alert rules."""

from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from .alert_kinds import EARLIER, KINDS, SEASONAL, Movement, RuleKindName, completed, kind_of_rule
from .base import Name, WireModel
from .limits import COUNTER_MAX, RUN_LENGTH_MAX
from .metric_definitions import CLOSED_FAMILIES, METRICS
from .metric_names import MetricPattern
from .metrics import Direction, MetricDefinition
from .step_metrics import ALL_TOOLS, TOOL_FAMILY, TOOL_QUANTITIES, ToolMetric, tool_declaration
from .suggestions import closest, unknown

RuleDirection = Literal["fall", "rise", "both"]

QuantileSide = Literal["above", "upto"]
"""The side of a target on which answers are counted: above it, or at or below it."""

Severity = Literal["page", "ticket", "info"]
"""Urgency of an alert: `page` wakes a person, `ticket` waits for working hours, `info` needs no action."""

SEVERITIES: Final[tuple[Severity, ...]] = ("page", "ticket", "info")
"""All severities, the most urgent first."""

AlertStatus = Literal["firing", "explained", "resolved"]
"""Status of an alert."""

HealthKind = Literal["budget", "stall", "capped", "release"]
"""Kind of an alert without the statistics of a rule."""

AlertKind = Literal[RuleKindName, HealthKind]
"""Kind of the rule of an alert, or of an alert without statistics."""

AgreementStatistic = Literal["rmse", "kappa"]
"""Error of the scores against gold scores, or Cohen's kappa of their verdicts: good or bad."""

Season = Literal["day", "week"]
"""The hours of a day repeat, or those of a week."""

ADJUSTED_MAX: Final = 64
"""Most segment values with a baseline of their own in a rule with `adjust`."""

Duration = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mhd]$")]
"""A length of time such as `30m`, `6h` or `7d`."""


class AlertRule(WireModel):
    """An alert rule: a metric, a baseline, and a false-alarm budget.

    The baseline is given, learned from the first `learn_n` values, all values before each value (`earlier`), taken from
    the `baseline_window` before the present one, or learned for each hour of the day or of the week (`seasonal`). With
    `adjust`, each value of a segment has a baseline of its own. A rule fires on evidence of an e-detector. The mean
    number of values between false alarms is at least `run_length`, or follows from the budget or the false-discovery
    rate of the deployment (docs/understand/drift.md).
    """

    name: Name
    """Unique name of the rule."""
    kind: Annotated[
        RuleKindName, Field(description=f"What it fires on. {'. '.join(f'`{name}`: {KINDS[name]}' for name in KINDS)}.")
    ]
    """Comparison that the rule makes."""
    metric: MetricPattern = ""
    """Qualified metric name, or `tool.*.failed` for this number of every tool of an agent, each by itself; for
    `rmse` and `agreement` the metric that has gold scores. A rule with `covariate` leaves it out: its alerts have a
    name made from the covariate, such as `covariate.question_length`."""
    covariate: Name | None = None
    """For `distribution`: a covariate, such as `question_length`, or `segment:NAME`, such as `segment:topic`, whose
    distribution is compared with that of its first `learn_n` values."""
    statistic: AgreementStatistic | None = None
    """For `agreement`: the statistic that is compared."""
    threshold: float | None = None
    """For Cohen's kappa: the score that separates good from bad; it is good itself. None takes the band `good` of the
    metric, or the middle of its range if it has no bands."""
    direction: RuleDirection | None = None
    """Direction of a bad change; by default against the metric's own direction, and both for `distribution`."""
    pipeline: Name = "*"
    """Shell-style pattern of the names of pipelines."""
    labeler: Annotated[str, StringConstraints(pattern=r"^!?[^!\s][^\s]{0,255}$")] | None = None
    """Name of a labeler, such as `judge`, whose scores it watches; `!local` watches those of all but `local`. None
    watches each labeler by itself."""
    segment: Name | None = None
    """Name of a segment, to evaluate each of its values by itself; None evaluates whole pipelines."""
    adjust: Name | None = None
    """For `drift` on whole pipelines: name of a segment whose mix is held fixed. Each interaction is compared with the
    baseline of its own segment value, so a change of the mix does not fire."""
    target: float | None = None
    """For `threshold`, `rmse` and `agreement`: the limit."""
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    """For `threshold`: the rule is about this quantile, such as 0.95, and not about the mean. `min_effect` and
    `hysteresis` are then shares of the answers: with a quantile of 0.95 the rule counts more than 5% + `min_effect` of
    the answers beyond the target."""
    baseline: float | Literal["seasonal", "earlier"] | None = None
    """The normal mean or error; None learns it from the first `learn_n` values. `earlier` compares each value with all
    values before it, by ranks. `seasonal` learns it for each hour of the `season`."""
    baselines: Annotated[dict[Name, float], Field(min_length=1, max_length=ADJUSTED_MAX)] | None = None
    """With `adjust`: the normal mean of each segment value, such as `de`; None learns each from its first `learn_n`
    values. Segment values that are not named are not compared."""
    baseline_spread: Annotated[float, Field(gt=0)] | None = None
    """For `distribution` with a baseline: the normal standard deviation."""
    baseline_window: Duration | None = None
    """Length of the windows, such as `1d`: the baseline is that of the whole window before the present one."""
    season: Season | None = None
    """With the baseline `seasonal`: hours of the `day`, which None stands for, or of the `week`."""
    learn_n: Annotated[int, Field(ge=20, le=COUNTER_MAX)] = 200
    """Number of first values from which a baseline is learned, or least number of values in its window; 1,000 for a
    rule with `covariate` unless given."""
    min_effect: Annotated[float, Field(ge=0)] = 0.02
    """Largest change that does not matter, in the metric's unit; with `covariate` the total variation distance between
    two distributions, the largest change of the share of any set of values."""
    hysteresis: Annotated[float, Field(ge=0)] = 0.0
    """Distance from the alarm limit to which the mean must return before the alert resolves, in the metric's unit."""
    run_length: Annotated[float, Field(ge=10, le=RUN_LENGTH_MAX)] | None = None
    """Least mean number of values between false alarms, per pipeline or segment value; None takes a share of the
    deployment's budget or false-discovery rate, or 10,000 without both. Cohen's kappa needs one, in gold scores, and a
    rule with `covariate` needs one, in interactions."""
    resolve_run_length: Annotated[float, Field(ge=10, le=RUN_LENGTH_MAX)] = 1_000
    """Least mean number of values before a false resolve; a lower number resolves sooner."""
    severity: Severity = "ticket"
    """Urgency of its alerts, by which notifications are routed: `page`, `ticket` or `info`. It changes no decision."""

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, fields: Any) -> Any:
        return completed(fields) if isinstance(fields, dict) else fields

    @field_validator("baseline", mode="before")
    @classmethod
    def _is_number_or_seasonal(cls, value: object) -> object:
        if isinstance(value, str) and value not in (SEASONAL, EARLIER):
            try:
                float(value)
            except ValueError:
                raise ValueError('is no number: give the normal mean, "earlier" or "seasonal"') from None
        return value

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if not self.metric:
            raise ValueError("metric is missing: name the metric that the rule watches, such as trace.adherence")
        family, _, rest = self.metric.partition(".")
        if family == "rmse":
            meant = rest if rest in METRICS else closest(rest, METRICS) or rest
            raise ValueError(f"metric {self.metric} is an estimate: use kind rmse with the metric {meant}")
        if family in _ESTIMATED:
            raise ValueError(f"no rule can use {self.metric}: name a metric that has scores, such as trace.adherence")
        if self.kind == "agreement" and self.statistic is None:
            raise ValueError('an agreement rule needs a statistic: set statistic = "rmse" or "kappa"')
        if self.kind != "agreement" and self.statistic is not None:
            raise ValueError(f'statistic = "{self.statistic}" belongs to an agreement rule: set kind = "agreement"')
        if self.threshold is not None and not self.compares_verdicts:
            raise ValueError(
                f'threshold = {self.threshold:g} separates good from bad for kappa: set statistic = "kappa", or name '
                "the limit of the rule in target"
            )
        kind_of_rule(self).check(self)
        self._check_reference()
        definition = _own_definition(self.metric)
        if definition is not None:
            self._check_tools()
            self.check_definition(definition)
        elif self.metric.startswith(TOOL_FAMILY):
            quantity = self.metric.rpartition(".")[2]
            raise ValueError(f"{self.metric}: {unknown('number of a tool', quantity, TOOL_QUANTITIES)}")
        elif family in CLOSED_FAMILIES:
            raise ValueError(
                unknown("metric", self.metric, (name for name in METRICS if name.startswith(f"{family}.")))
            )
        return self

    def _check_tools(self) -> None:
        if not self.metric.startswith(ALL_TOOLS):
            return
        if self.kind not in ("drift", "threshold"):
            raise ValueError(f"metric {self.metric} is of all tools, and kind is {self.kind}: use drift or threshold")
        other = next((name for name in ("adjust", "quantile", "segment") if getattr(self, name) is not None), None)
        if other is not None:
            raise ValueError(f"metric {self.metric} is of all tools, without {other}: leave it out, or name one tool")

    def _check_reference(self) -> None:
        if self.season is not None and self.baseline != SEASONAL:
            raise ValueError('season goes with baseline = "seasonal": set it, or leave season out')
        references = [name for name in ("target", "baseline", "baseline_window") if getattr(self, name) is not None]
        if len(references) > 1:
            raise ValueError(f"{' and '.join(references)} exclude each other: keep one")
        if self.quantile is not None and self.kind != "threshold":
            raise ValueError(f'quantile compares with a target, and kind is {self.kind}: use kind = "threshold"')
        if self.baseline_spread is not None and self.kind != "distribution":
            raise ValueError("baseline_spread goes with baseline in a distribution rule: give both or neither")
        if self.adjust is None and self.baselines is not None:
            raise ValueError('baselines goes with adjust: set adjust = "lang", or another segment, or use baseline')
        if self.adjust is not None and self.kind != "drift":
            raise ValueError(f'adjust compares means with baselines, and kind is {self.kind}: use kind = "drift"')

    def check_definition(self, definition: MetricDefinition) -> None:
        """Check that the rule fits its metric, and that it can fire.

        Raises:
            ValueError: the rule has no direction for a metric without one, or no mean in the metric's range is beyond
                the alarm limit.
        """
        kind = kind_of_rule(self)
        if self.direction is None and kind.needs_direction and definition.direction is Direction.NEITHER:
            raise ValueError(f"{self.metric} has no better or worse: state direction, fall, rise or both")
        kind.check_range(self, definition)

    @property
    def reference(self) -> float | None:
        """The number that the rule gives to compare a statistic with: target or baseline; None if it is learned."""
        return self.given_baseline if self.target is None else self.target

    def watches_metric(self, metric: str) -> bool:
        """Return whether the rule watches a metric.

        Args:
            metric: its qualified name.
        """
        if not self.metric.startswith(ALL_TOOLS):
            return self.metric == metric
        tool = ToolMetric.read(metric)
        return tool is not None and self.metric == f"{ALL_TOOLS}{tool.quantity}"

    def watched_in(self, metrics: Collection[str]) -> Collection[str]:
        """Return the metrics, of some, that the rule watches.

        Args:
            metrics: qualified names.
        """
        if self.metric.startswith(ALL_TOOLS):
            return [metric for metric in metrics if self.watches_metric(metric)]
        return (self.metric,) if self.metric in metrics else ()

    def watches_labeler(self, labeler: str) -> bool:
        """Return whether the rule watches the scores of a labeler.

        Args:
            labeler: its name.
        """
        if self.labeler is None or not self.labeler.startswith("!"):
            return self.labeler in (None, labeler)
        return self.labeler != f"!{labeler}"

    def side(self, better: Direction | None) -> QuantileSide:
        """Return the side of the target on which answers are bad, for a rule on a quantile.

        Args:
            better: direction in which the metric gets better; None if it is not known.
        """
        rises = self.direction == "rise" or (self.direction is None and better is Direction.LOWER)
        return "above" if rises else "upto"

    def beyond_share(self, better: Direction | None) -> float:
        """Return the share of answers that may be on the bad side of the target, for a rule on a quantile.

        A quantile of 0.95 is above the target if more than 5% of the answers are; one of 0.05 is at or below it if at
        least 5% are.

        Args:
            better: direction in which the metric gets better; None if it is not known.
        """
        quantile = self.quantile or 0.0
        return 1 - quantile if self.side(better) == "above" else quantile

    @property
    def definition(self) -> bytes:
        """JSON of the fields that decide when the rule fires; the severity is not among them."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude={"severity"})

    @property
    def compares_errors(self) -> bool:
        """Whether it compares the error of scores against gold scores."""
        return self.kind == "rmse" or self.statistic == "rmse"

    @property
    def compares_verdicts(self) -> bool:
        """Whether it compares Cohen's kappa of the verdicts of scores and gold scores."""
        return self.statistic == "kappa"

    @property
    def given_baseline(self) -> float | None:
        """The baseline, if the rule states it."""
        return self.baseline if isinstance(self.baseline, float) else None

    @property
    def movements(self) -> tuple[Movement, ...]:
        """Directions of a bad change, if the metric is ragtide's own or the rule has a direction."""
        definition = _own_definition(self.metric)
        return self.movements_of(None if definition is None else definition.direction)

    def movements_of(self, better: Direction | None) -> tuple[Movement, ...]:
        """Return the directions of a bad change of a metric that gets better in a direction (None if unknown)."""
        return kind_of_rule(self).movements(self, better)


def _own_definition(metric: str) -> MetricDefinition | None:
    tool = ToolMetric.read(metric)
    return METRICS.get(metric) if tool is None else tool_declaration(tool).definition(metric.replace("*", "name"))


_ESTIMATED = ("consistency_score", "labeling")
"""Families of estimates without scores."""


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration.

    >>> duration_ms("6h")
    21600000
    """
    return int(text[:-1]) * {"m": 60_000, "h": 3_600_000, "d": 86_400_000}[text[-1]]
