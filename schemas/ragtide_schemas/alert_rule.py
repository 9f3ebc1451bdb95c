"""Alert rules."""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from .base import Name, WireModel
from .limits import COUNTER_MAX, RUN_LENGTH_MAX
from .metric_definitions import CLOSED_FAMILIES, METRICS, SENTINEL_UNLIKE, SENTINEL_UNLIKE_SHARE
from .metrics import Direction, MetricDefinition, MetricName
from .suggestions import closest, unknown

Movement = Literal["fall", "rise"]


RuleDirection = Literal["fall", "rise", "both"]

QuantileSide = Literal["above", "upto"]
"""The side of a target on which answers are counted: above it, or at or below it."""

Severity = Literal["page", "ticket", "info"]
"""Urgency of an alert: `page` wakes a person, `ticket` waits for working hours, `info` needs no action."""

SEVERITIES: Final[tuple[Severity, ...]] = ("page", "ticket", "info")
"""All severities, the most urgent first."""

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

    - `threshold` fires on a mean beyond `target`, or with `quantile` on a quantile beyond it.
    - `drift` fires on a mean that left its baseline.
    - `rmse` fires on an error against gold scores beyond `target`, or beyond its baseline.
    - `agreement` fires when the labeler leaves the people who grade it: on a rising error (`statistic = "rmse"`, as the
      kind `rmse`), or on a falling Cohen's kappa of the verdicts good and bad (`statistic = "kappa"`).
    - `distribution` fires on a mean or a spread that left its baseline, in either direction; with `covariate` on a
      number known before the answer, or a segment, whose values have other shares than at first.
    - `sentinel` fires when the judge answers sentinels (`judge.sentinels`) in another way than before. It needs a name
      only.

    The baseline is given, learned from the first `learn_n` values, taken from the `baseline_window` before the present
    one, or learned for each hour of the day or of the week (`seasonal`). With `adjust`, each value of a segment has a
    baseline of its own. A rule fires on evidence of an e-detector. The mean number of values between false alarms is at
    least `run_length`, or follows from the budget or the false-discovery rate of the deployment
    (docs/understand/drift.md).
    """

    name: Name
    """Unique name of the rule."""
    kind: Literal["threshold", "drift", "rmse", "agreement", "distribution", "sentinel"]
    """Comparison that the rule makes."""
    metric: MetricName = ""
    """Qualified metric name; for `rmse` and `agreement` the metric that has gold scores. A rule with `covariate` leaves
    it out: its alerts have a name made from the covariate, such as `covariate.question_length`."""
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
    baseline: float | Literal["seasonal"] | None = None
    """The normal mean or error; None learns it. `seasonal` learns it for each hour of the `season`."""
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
    def _named_by_covariate(cls, fields: Any) -> Any:
        """Complete a rule on a covariate: with the metric, and with the covariate if only its segment is given."""
        if not isinstance(fields, dict) or fields.get("kind") != "distribution":
            return fields
        covariate, segment = fields.get("covariate"), fields.get("segment")
        if covariate is None and fields.get("metric") is None and isinstance(segment, str):
            covariate = f"{SEGMENT_COVARIATE}{segment}"
            fields = {**fields, "covariate": covariate, "segment": None}
        if isinstance(covariate, str) and fields.get("metric") is None:
            fields = {"learn_n": LEARN_COVARIATE, **fields, "metric": covariate_metric(covariate)}
        return fields

    @model_validator(mode="before")
    @classmethod
    def _sentinel_defaults(cls, data: Any) -> Any:
        """Fill in what every rule on sentinels has: their metric, and the share that is unlike by chance."""
        if not isinstance(data, dict) or data.get("kind") != "sentinel":
            return data
        return {
            "metric": SENTINEL_UNLIKE.name,
            "min_effect": SENTINEL_MIN_EFFECT,
            "resolve_run_length": SENTINEL_RESOLVE_RUN_LENGTH,
            "baseline": SENTINEL_UNLIKE_SHARE,
            **data,
        }

    @field_validator("baseline", mode="before")
    @classmethod
    def _is_number_or_seasonal(cls, value: object) -> object:
        if isinstance(value, str) and value != SEASONAL:
            try:
                float(value)
            except ValueError:
                raise ValueError('is no number: give the normal mean, or "seasonal"') from None
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
        self._check_agreement()
        self._check_covariate()
        self._check_sentinel()
        self._check_reference()
        self._check_adjusted()
        definition = METRICS.get(self.metric)
        if definition is not None:
            self.check_definition(definition)
        elif family in CLOSED_FAMILIES:
            raise ValueError(
                unknown("metric", self.metric, (name for name in METRICS if name.startswith(f"{family}.")))
            )
        return self

    def _check_agreement(self) -> None:
        if self.kind == "agreement" and self.statistic is None:
            raise ValueError('an agreement rule needs a statistic: set statistic = "rmse" or "kappa"')
        if self.kind != "agreement" and self.statistic is not None:
            raise ValueError(f'statistic = "{self.statistic}" belongs to an agreement rule: set kind = "agreement"')
        if not self.compares_verdicts:
            if self.threshold is not None:
                raise ValueError(
                    f'threshold = {self.threshold:g} separates good from bad for kappa: set statistic = "kappa", or '
                    "name the limit of the rule in target"
                )
            return
        if self.direction not in (None, "fall"):
            raise ValueError("a rule on kappa fires on a falling kappa: leave direction out")
        if self.baseline == SEASONAL or self.baseline_window is not None:
            raise ValueError(
                "a rule on kappa has one baseline: give it as a number, leave it out to learn it, or give a target"
            )
        if self.run_length is None:
            raise ValueError(
                "a rule on kappa needs run_length, the mean number of gold scores between false alarms, such as 1000: "
                "it has no share of the deployment's budget"
            )
        given, (lowest, highest) = self.given_baseline if self.target is None else self.target, KAPPA_RANGE
        if given is not None and not lowest < (line := alarm_line(given, "fall", self.min_effect)) < highest:
            raise ValueError(
                f"the rule could never fire: its alarm limit {line:g} is not inside kappa's range {lowest:g} to "
                f"{highest:g}; choose another target, baseline or min_effect"
            )

    def _check_covariate(self) -> None:
        covariate = self.covariate
        if covariate is None:
            return
        if self.kind != "distribution":
            raise ValueError(f'covariate = "{covariate}" belongs to a distribution rule: set kind = "distribution"')
        if self.metric != covariate_metric(covariate):
            raise ValueError(
                f'metric = "{self.metric}" and covariate = "{covariate}" exclude each other: keep metric to compare '
                "mean and spread of scores, or covariate to compare what is asked"
            )
        if covariate == SEGMENT_COVARIATE:
            raise ValueError(f'covariate = "{covariate}" has no name: name the segment, such as segment:topic')
        if self.segment is not None and covariate == f"{SEGMENT_COVARIATE}{self.segment}":
            raise ValueError(
                f'segment = "{self.segment}" leaves one value of the covariate {covariate}: leave segment out'
            )
        given = [
            name
            for name in ("target", "baseline", "baseline_spread", "baseline_window", "direction")
            if getattr(self, name) not in (None, "both")
        ]
        if given:
            raise ValueError(
                f"a rule on a covariate learns its distribution from the first learn_n values and fires on any change "
                f"of it: leave {' and '.join(given)} out"
            )
        if self.run_length is None:
            raise ValueError(
                "a rule on a covariate needs run_length, the mean number of interactions between false alarms, such as "
                "10000: it has no share of the deployment's budget"
            )
        if self.min_effect >= 1:
            raise ValueError(
                f"the rule could never fire: min_effect is {self.min_effect:g}, and no two distributions have a total "
                "variation distance above 1; choose a number such as 0.05"
            )

    def _check_sentinel(self) -> None:
        if self.kind != "sentinel":
            return
        if self.metric != SENTINEL_UNLIKE.name:
            raise ValueError(f"a sentinel rule compares {SENTINEL_UNLIKE.name}, not {self.metric}: leave metric out")
        if self.baseline != SENTINEL_UNLIKE_SHARE or self.target is not None or self.baseline_window is not None:
            raise ValueError(
                f"a sentinel rule compares with {SENTINEL_UNLIKE_SHARE:g}, the share that is unlike by chance: leave "
                "baseline, target and baseline_window out"
            )
        if self.direction not in (None, "rise") or self.segment is not None or self.adjust is not None:
            raise ValueError(
                "a sentinel rule fires on a rising share of all sentinels: leave direction, segment and adjust out"
            )

    def _check_reference(self) -> None:
        if self.kind == "threshold" and self.target is None:
            raise ValueError("a threshold rule needs target: the limit of the mean")
        if self.kind == "threshold" and (self.baseline is not None or self.baseline_window is not None):
            raise ValueError("baseline belongs to a drift rule: use target in a threshold rule")
        if self.kind in ("drift", "distribution") and self.target is not None:
            raise ValueError(f"target belongs to a threshold rule: use baseline in a {self.kind} rule")
        if self.season is not None and self.baseline != SEASONAL:
            raise ValueError('season goes with baseline = "seasonal": set it, or leave season out')
        if self.baseline == SEASONAL and self.kind == "distribution":
            raise ValueError(
                'baseline = "seasonal" knows means, and a distribution rule compares spreads too: use kind = "drift"'
            )
        if len(self._referred()) > 1:
            raise ValueError(f"{' and '.join(self._referred())} exclude each other: keep one")
        if self.quantile is not None and self.kind != "threshold":
            raise ValueError(f'quantile compares with a target, and kind is {self.kind}: use kind = "threshold"')
        if self.kind == "threshold" and self.direction == "both":
            raise ValueError("a threshold is on one side: state direction, fall or rise")
        if self.compares_errors and self.direction not in (None, "rise"):
            raise ValueError("an rmse rule fires on a rising error: leave direction out")
        if self.kind == "distribution" and self.direction not in (None, "both"):
            raise ValueError("a distribution rule fires in both directions: leave direction out")
        if (self.baseline_spread is not None) != (self.kind == "distribution" and self.baseline is not None):
            raise ValueError("baseline_spread goes with baseline in a distribution rule: give both or neither")

    def _check_adjusted(self) -> None:
        if self.adjust is None:
            if self.baselines is not None:
                raise ValueError('baselines goes with adjust: set adjust = "lang", or another segment, or use baseline')
            return
        if self.kind != "drift":
            raise ValueError(f'adjust compares means with baselines, and kind is {self.kind}: use kind = "drift"')
        if self.segment is not None:
            raise ValueError(
                f"segment = {self.segment} and adjust = {self.adjust} exclude each other: keep adjust to compare whole "
                "pipelines with the mix held fixed, or segment to watch each segment value by itself"
            )
        if self.given_baseline is not None:
            raise ValueError(
                f"baseline = {self.given_baseline:g} is one mean for all values of {self.adjust}, and adjust needs "
                "one for each: give baselines, or leave baseline out to learn them"
            )
        if self.baseline is not None or self.baseline_window is not None:
            raise ValueError(
                f"{self._referred()[0]} = {self.baseline or self.baseline_window} and adjust exclude each other: give "
                "baselines, or leave it out to learn the mean of each segment value"
            )

    def _referred(self) -> list[str]:
        return [name for name in ("target", "baseline", "baseline_window") if getattr(self, name) is not None]

    def check_definition(self, definition: MetricDefinition) -> None:
        """Check that the rule fits its metric, and that it can fire.

        Args:
            definition: of the rule's metric.

        Raises:
            ValueError: the rule has no direction for a metric without one, or no mean in the metric's range is beyond
                the alarm limit.
        """
        stated = self.direction is not None or self.kind not in ("threshold", "drift")
        if not stated and definition.direction is Direction.NEITHER:
            raise ValueError(f"{self.metric} has no better or worse: state direction, fall, rise or both")
        lower, upper = definition.lower, definition.upper
        if self.threshold is not None and not lower < self.threshold < upper:
            raise ValueError(
                f"threshold is {self.threshold:g}, and all scores of {self.metric} are on one side of it: give a number"
                f" between {lower:g} and {upper:g}"
            )
        if self.compares_errors:
            lower, upper = 0.0, upper - lower
        elif self.compares_verdicts:  # kappa has a range of its own
            return
        for value, mean in (self.baselines or {}).items():
            ends = [alarm_line(mean, movement, self.min_effect) for movement in self.movements_of(definition.direction)]
            if not all(lower < end < upper for end in ends):
                raise ValueError(
                    f"the rule could never fire for {value}: baselines.{value} is {mean:g}, and with min_effect "
                    f"{self.min_effect:g} its alarm limit is not inside the metric's range {lower:g} to {upper:g}; "
                    "choose another mean or a smaller min_effect, or leave the segment value out"
                )
        if self.quantile is not None:
            self._check_quantile(definition)
            return
        given = self.reference
        if given is None:
            return
        lines = [alarm_line(given, movement, self.min_effect) for movement in self.movements_of(definition.direction)]
        if not any(lower < line < upper for line in lines):
            raise ValueError(
                f"the rule could never fire: its alarm limit {lines[0]:g} is not inside the metric's range "
                f"{lower:g} to {upper:g}; choose another target, baseline or min_effect"
            )

    def _check_quantile(self, definition: MetricDefinition) -> None:
        lower, upper = definition.lower, definition.upper
        if self.target is not None and not lower <= self.target < upper:
            raise ValueError(
                f"the rule could never fire: target is {self.target:g}, and all scores of {self.metric} are on one "
                f"side of it; give a number from {lower:g} to below {upper:g}"
            )
        share = self.beyond_share(definition.direction)
        if not alarm_line(share, "rise", self.min_effect) < 1:
            raise ValueError(
                f"the rule could never fire: a share of {share:g} of the answers may be beyond the target, and with "
                f"min_effect {self.min_effect:g} the alarm limit is not below 1; choose a smaller min_effect, which is "
                "a share of the answers here"
            )

    @property
    def reference(self) -> float | None:
        """The number that the rule gives to compare a statistic with: target or baseline; None if it is learned."""
        return self.given_baseline if self.target is None else self.target

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
        definition = METRICS.get(self.metric)
        return self.movements_of(None if definition is None else definition.direction)

    def movements_of(self, better: Direction | None) -> tuple[Movement, ...]:
        """Return the directions of a bad change of a metric that gets better in a direction (None if unknown)."""
        if self.compares_errors or self.quantile is not None or self.covariate is not None:
            # Of a quantile the share of bad answers rises; of a covariate that of some values, or of all others.
            return ("rise",)
        if self.compares_verdicts:
            return ("fall",)
        if self.kind == "distribution" or self.direction == "both":
            return ("fall", "rise")
        if self.direction is not None:
            return (self.direction,)
        if better is Direction.NEITHER:
            # Only for a declared metric: a rule on ragtide's own metrics must have a direction.
            return ("fall", "rise") if self.kind == "drift" else ("fall",)
        return ("rise",) if better is Direction.LOWER else ("fall",)


SEGMENT_COVARIATE: Final = "segment:"
"""Prefix of a covariate that is a segment: `segment:NAME`."""


LEARN_COVARIATE: Final = 1_000
"""Number of values that a rule on a covariate learns from unless it states one: shares need more than a mean."""


def covariate_metric(covariate: str) -> str:
    """Return the name that stands for a covariate where alerts name a metric.

    >>> covariate_metric("question_length"), covariate_metric("segment:topic"), covariate_metric("2nd Score")
    ('covariate.question_length', 'segment.topic', 'covariate.c2nd_score')
    """
    family, name = "covariate", covariate
    if covariate.startswith(SEGMENT_COVARIATE):
        family, name = "segment", covariate.removeprefix(SEGMENT_COVARIATE)
    name = re.sub("[^a-z0-9_]", "_", name.lower())[:180]
    return f"{family}.{name if name[:1].isalpha() else f'c{name}'}"


SENTINEL_MIN_EFFECT: Final = 0.05
"""Default `min_effect` of a sentinel rule: no alert fires while few more answers than by chance are unlike."""

SENTINEL_RESOLVE_RUN_LENGTH: Final = 100.0
"""Default `resolve_run_length` of a sentinel rule: there are few answers to sentinels."""

KAPPA_RANGE: Final = (-1.0, 1.0)
"""Lowest and highest value of Cohen's kappa."""

SEASONAL: Final = "seasonal"
"""The baseline of a rule that learns each hour of the day or of the week."""

_ESTIMATED = ("consistency_score", "labeling")
"""Families of estimates without scores."""


def alarm_line(reference: float, movement: Movement, min_effect: float) -> float:
    """Return the alarm limit: an alert may fire on a mean beyond it."""
    return reference - min_effect if movement == "fall" else reference + min_effect


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration.

    >>> duration_ms("6h")
    21600000
    """
    return int(text[:-1]) * {"m": 60_000, "h": 3_600_000, "d": 86_400_000}[text[-1]]
