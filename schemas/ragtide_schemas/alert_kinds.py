"""The kinds of alert rules: what each compares, which fields a rule of the kind may have, and its words. Pure.

A kind is one class. The rule asks it what it fills in, whether its fields agree, and which change is bad; `alert_text`
asks it how an alert of the kind is worded. Its baseline is in `ragtide_aggregator.alerts`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from .alert_words import cut, number, percent, short_name
from .metric_definitions import SENTINEL_UNLIKE, SENTINEL_UNLIKE_SHARE
from .metrics import Direction, MetricDefinition

if TYPE_CHECKING:
    from .alert import Alert
    from .alert_rule import AlertRule

RuleKindName = Literal["threshold", "drift", "rmse", "agreement", "distribution", "sentinel"]
"""Kind that a rule states."""

KINDS: Final[Mapping[RuleKindName, str]] = {
    "threshold": "a mean beyond `target`, or with `quantile` a quantile beyond it",
    "drift": "a mean that left its baseline",
    "rmse": "an error against gold scores beyond `target`, or beyond its baseline",
    "agreement": (
        'a labeler that leaves the people who grade it: an error that rises (`statistic = "rmse"`, as the kind `rmse`),'
        ' or Cohen\'s kappa of the verdicts good and bad that falls (`statistic = "kappa"`)'
    ),
    "distribution": (
        "a mean or a spread that left its baseline, in either direction; with `covariate` a number known before the "
        "answer, or a segment, whose values have other shares than at first"
    ),
    "sentinel": "a judge that answers sentinels (`judge.sentinels`) in another way than before; it needs a name only",
}
"""What a rule of each kind fires on."""

Quantity = Literal["mean", "spread", "rmse", "kappa", "share"]
"""The statistic that an alert is about."""

Movement = Literal["fall", "rise"]

SEASONAL: Final = "seasonal"
"""The baseline of a rule that learns each hour of the day or of the week."""

SEGMENT_COVARIATE: Final = "segment:"
"""Prefix of a covariate that is a segment: `segment:NAME`."""

EARLIER: Final = "earlier"
"""The baseline of a rule that compares each value with all earlier ones, by ranks."""

LEAST_RANKED_PART: Final = 0.02
"""Least `min_effect` of a rule with the baseline `earlier`, as a part of the range of its metric: with a smaller one
more false alarms than stated would come of what chance does to the earlier values."""

LEARN_COVARIATE: Final = 1_000
"""Number of values that a rule on a covariate learns from unless it states one: shares need more than a mean."""

SENTINEL_MIN_EFFECT: Final = 0.05
"""Default `min_effect` of a sentinel rule: no alert fires while few more answers than by chance are unlike."""

SENTINEL_RESOLVE_RUN_LENGTH: Final = 100.0
"""Default `resolve_run_length` of a sentinel rule: there are few answers to sentinels."""

KAPPA_RANGE: Final = (-1.0, 1.0)
"""Lowest and highest value of Cohen's kappa."""


def alarm_line(reference: float, movement: Movement, min_effect: float) -> float:
    """Return the alarm limit: an alert may fire on a mean beyond it."""
    return reference - min_effect if movement == "fall" else reference + min_effect


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


class AlertKind(ABC):
    """A kind of rules and of their alerts; this base has what rules on a mean have."""

    quantity: ClassVar[Quantity] = "mean"
    """What is compared, of which an alert of the kind has the words."""
    watches_level: ClassVar[bool] = False
    """Whether it looks for a change of the mean of a metric."""
    has_spread: ClassVar[bool] = False
    """Whether it compares the spread as well as the mean."""
    own_values: ClassVar[bool] = False
    """Whether its baseline makes the values that it compares."""
    takes_first_answers: ClassVar[bool] = True
    """Whether it compares the first answers of sessions, too, at once."""
    statistic: ClassVar[str] = "The mean"
    """What changed, at the beginning of a sentence."""
    noun: ClassVar[str] = "answer"
    """One of the values that are counted."""
    in_percent: ClassVar[bool] = False
    """Whether the statistic is a share."""
    named: ClassVar[str] = "Worst answer"
    """What the interactions are that an alert names."""
    names_answers: ClassVar[bool] = True
    """Whether these are interactions that may be kept."""
    first: ClassVar[str | None] = None
    """What to do first; None where that depends on the alert."""
    bad: ClassVar[tuple[Movement, ...] | None] = None
    """Directions of a bad change; None where they follow from rule and metric."""

    @staticmethod
    def completed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a rule with those that the kind fills in."""
        return fields

    @abstractmethod
    def check(self, rule: "AlertRule") -> None:
        """Check that the fields of a rule agree.

        Raises:
            ValueError: they do not.
        """

    def check_range(self, rule: "AlertRule", definition: MetricDefinition) -> None:
        """Check that a rule can fire on its metric.

        Raises:
            ValueError: no mean in the metric's range is beyond its alarm limit.
        """
        self._check_lines(rule, definition, definition.lower, definition.upper)

    @staticmethod
    def _check_lines(rule: "AlertRule", definition: MetricDefinition, lower: float, upper: float) -> None:
        movements = rule.movements_of(definition.direction)
        for value, mean in (rule.baselines or {}).items():
            ends = [alarm_line(mean, movement, rule.min_effect) for movement in movements]
            if not all(lower < end < upper for end in ends):
                raise ValueError(
                    f"the rule could never fire for {value}: baselines.{value} is {mean:g}, and with min_effect "
                    f"{rule.min_effect:g} its alarm limit is not inside the metric's range {lower:g} to {upper:g}; "
                    "choose another mean or a smaller min_effect, or leave the segment value out"
                )
        if rule.reference is None:
            return
        lines = [alarm_line(rule.reference, movement, rule.min_effect) for movement in movements]
        if not any(lower < line < upper for line in lines):
            raise ValueError(
                f"the rule could never fire: its alarm limit {lines[0]:g} is not inside the metric's range "
                f"{lower:g} to {upper:g}; choose another target, baseline or min_effect"
            )

    @property
    def needs_direction(self) -> bool:
        """Whether a rule needs a direction for a metric that has no better."""
        return self.bad is None

    def movements(self, rule: "AlertRule", better: Direction | None) -> tuple[Movement, ...]:
        """Return the directions of a bad change of a metric that gets better in a direction (None if unknown)."""
        if self.bad is not None:
            return self.bad
        if rule.direction == "both":
            return ("fall", "rise")
        if rule.direction is not None:
            return (rule.direction,)
        # Only a declared metric may have no better: a rule on ragtide's own metrics must have a direction.
        return ("rise",) if better is Direction.LOWER else ("fall",)

    def subject(self, alert: "Alert") -> str:
        """Return what changed, of which scope."""
        return f"{short_name(alert.metric)} of {scope_of(alert)}"

    def title(self, alert: "Alert") -> str | None:
        """Return the title of an alert; None for that of a subject that fell or rose."""
        return None

    def counted(self, n: int) -> str:
        """Return so many values in words."""
        return f"{n:,} {self.noun}{'' if n == 1 else 's'}"

    def observed(self, alert: "Alert") -> str:
        """Return the number of values since the change in words."""
        return self.counted(alert.observed_n or 0)

    def learned(self, alert: "Alert") -> str | None:
        """Return where a normal value comes from, after a comma; None where its source says it."""
        return None

    def about(self, alert: "Alert") -> tuple[str, str]:
        """Return what the rule watches, with the name of that."""
        return "Metric", short_name(alert.metric)

    def named_words(self, interaction_id: str) -> str | None:
        """Return an interaction that an alert names, in words; None where it is an answer with a score."""
        return None

    def value(self, value: float | None) -> str:
        """Return a value of the statistic in its unit."""
        return percent(value) if self.in_percent and value is not None else number(value)


def scope_of(alert: "Alert") -> str:
    """Return pipeline and segment value of an alert, shortened."""
    pipeline = "all pipelines" if alert.pipeline == "*" else short_name(alert.pipeline)
    return f"{pipeline}, {short_name(alert.segment)}" if alert.segment else pipeline


class Threshold(AlertKind):
    """A mean beyond a target."""

    watches_level = True

    def check(self, rule: "AlertRule") -> None:
        """Check that there is a target, and nothing else to compare with."""
        if rule.target is None:
            raise ValueError("a threshold rule needs target: the limit of the mean")
        if rule.baseline is not None or rule.baseline_window is not None:
            raise ValueError("baseline belongs to a drift rule: use target in a threshold rule")
        if rule.direction == "both":
            raise ValueError("a threshold is on one side: state direction, fall or rise")


class Quantile(Threshold):
    """A quantile beyond a target: the share of answers on its bad side."""

    quantity = "share"
    watches_level = False
    statistic = "The share"
    in_percent = True
    bad = ("rise",)

    @property
    def needs_direction(self) -> bool:
        """Whether a rule needs a direction: it says on which side of the target answers are bad."""
        return True

    def check_range(self, rule: "AlertRule", definition: MetricDefinition) -> None:
        """Check that answers can be on both sides of the target, and the share beyond its limit."""
        lower, upper = definition.lower, definition.upper
        if rule.target is not None and not lower <= rule.target < upper:
            raise ValueError(
                f"the rule could never fire: target is {rule.target:g}, and all scores of {rule.metric} are on one "
                f"side of it; give a number from {lower:g} to below {upper:g}"
            )
        share = rule.beyond_share(definition.direction)
        if not alarm_line(share, "rise", rule.min_effect) < 1:
            raise ValueError(
                f"the rule could never fire: a share of {share:g} of the answers may be beyond the target, and with "
                f"min_effect {rule.min_effect:g} the alarm limit is not below 1; choose a smaller min_effect, which is "
                "a share of the answers here"
            )

    def subject(self, alert: "Alert") -> str:
        """Return which share changed."""
        side = "above" if alert.edge_side == "above" else "at or below"
        return f"share of {scope_of(alert)} with {short_name(alert.metric)} {side} {number(alert.edge)}"


class Drift(AlertKind):
    """A mean that left its baseline."""

    watches_level = True

    def check_range(self, rule: "AlertRule", definition: MetricDefinition) -> None:
        """Check that a rule can fire on its metric, and that ranks leave room for chance."""
        super().check_range(rule, definition)
        least = LEAST_RANKED_PART * (definition.upper - definition.lower)
        if rule.baseline == EARLIER and rule.min_effect < least * (1 - 1e-9):
            raise ValueError(
                f'min_effect is {rule.min_effect:g}, and baseline = "earlier" needs at least {least:g} for '
                f"{rule.metric}, 2% of its range: give that, or leave baseline out to learn a mean of first values"
            )

    def check(self, rule: "AlertRule") -> None:
        """Check that no target is given, and that a fixed mix has baselines of its own."""
        _refuse_target(rule)
        if rule.baseline == EARLIER and rule.learn_n != type(rule).model_fields["learn_n"].default:
            raise ValueError(
                f'learn_n is {rule.learn_n}, and baseline = "earlier" compares with all values before: leave it out'
            )
        if rule.adjust is None:
            return
        if rule.segment is not None:
            raise ValueError(
                f"segment = {rule.segment} and adjust = {rule.adjust} exclude each other: keep adjust to compare whole "
                "pipelines with the mix held fixed, or segment to watch each segment value by itself"
            )
        if rule.given_baseline is not None:
            raise ValueError(
                f"baseline = {rule.given_baseline:g} is one mean for all values of {rule.adjust}, and adjust needs "
                "one for each: give baselines, or leave baseline out to learn them"
            )
        if rule.baseline is not None or rule.baseline_window is not None:
            name = "baseline" if rule.baseline is not None else "baseline_window"
            raise ValueError(
                f"{name} = {rule.baseline or rule.baseline_window} and adjust exclude each other: give "
                "baselines, or leave it out to learn the mean of each segment value"
            )

    def movements(self, rule: "AlertRule", better: Direction | None) -> tuple[Movement, ...]:
        """Return both directions for a metric without a better one, if the rule has none."""
        if rule.direction is None and better is Direction.NEITHER:
            return ("fall", "rise")
        return super().movements(rule, better)


def _refuse_target(rule: "AlertRule") -> None:
    if rule.target is not None:
        raise ValueError(f"target belongs to a threshold rule: use baseline in a {rule.kind} rule")


class Errors(AlertKind):
    """An error against gold scores that rose."""

    quantity = "rmse"
    statistic = "The RMSE"
    bad = ("rise",)

    def check(self, rule: "AlertRule") -> None:
        """Check the direction."""
        if rule.direction not in (None, "rise"):
            raise ValueError("an rmse rule fires on a rising error: leave direction out")
        if rule.baseline == EARLIER:
            raise ValueError('baseline = "earlier" compares scores, and not their errors: use kind = "drift"')

    def check_range(self, rule: "AlertRule", definition: MetricDefinition) -> None:
        """Check that an error can be beyond the limit."""
        self._check_lines(rule, definition, 0.0, definition.upper - definition.lower)

    def subject(self, alert: "Alert") -> str:
        """Return which error changed."""
        return f"RMSE of {super().subject(alert)}"


class Kappa(AlertKind):
    """A falling Cohen's kappa of the verdicts of labeler and people."""

    quantity = "kappa"
    own_values = True
    takes_first_answers = False
    statistic = "Cohen's kappa"
    noun = "gold score"
    bad = ("fall",)

    def check(self, rule: "AlertRule") -> None:
        """Check that it has one baseline, a run length, and can fire."""
        if rule.direction not in (None, "fall"):
            raise ValueError("a rule on kappa fires on a falling kappa: leave direction out")
        if isinstance(rule.baseline, str) or rule.baseline_window is not None:
            raise ValueError(
                "a rule on kappa has one baseline: give it as a number, leave it out to learn it, or give a target"
            )
        if rule.run_length is None:
            raise ValueError(
                "a rule on kappa needs run_length, the mean number of gold scores between false alarms, such as 1000: "
                "it has no share of the deployment's budget"
            )
        reference, (lowest, highest) = rule.reference, KAPPA_RANGE
        if reference is not None and not lowest < (line := alarm_line(reference, "fall", rule.min_effect)) < highest:
            raise ValueError(
                f"the rule could never fire: its alarm limit {line:g} is not inside kappa's range {lowest:g} to "
                f"{highest:g}; choose another target, baseline or min_effect"
            )

    def check_range(self, rule: "AlertRule", definition: MetricDefinition) -> None:
        """Check that scores can be on both sides of the line between good and bad; kappa has a range of its own."""
        lower, upper = definition.lower, definition.upper
        if rule.threshold is not None and not lower < rule.threshold < upper:
            raise ValueError(
                f"threshold is {rule.threshold:g}, and all scores of {rule.metric} are on one side of it: give a number"
                f" between {lower:g} and {upper:g}"
            )

    def subject(self, alert: "Alert") -> str:
        """Return whose agreement changed."""
        labeler = f"{short_name(alert.labeler)} with people" if alert.labeler else "labeler and people"
        return f"agreement of {labeler} on {short_name(alert.metric)} of {scope_of(alert)}"


class Distribution(AlertKind):
    """A mean or a spread that left its baseline, in either direction."""

    quantity = "spread"
    has_spread = True
    statistic = "The standard deviation"
    bad = ("fall", "rise")

    @staticmethod
    def completed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields with the metric, and with the covariate if only its segment is given."""
        covariate, segment = fields.get("covariate"), fields.get("segment")
        if covariate is None and fields.get("metric") is None and isinstance(segment, str):
            covariate = f"{SEGMENT_COVARIATE}{segment}"
            fields = {**fields, "covariate": covariate, "segment": None}
        if isinstance(covariate, str) and fields.get("metric") is None:
            fields = {"learn_n": LEARN_COVARIATE, **fields, "metric": covariate_metric(covariate)}
        return fields

    def check(self, rule: "AlertRule") -> None:
        """Check that it has a baseline of both, or none."""
        _refuse_target(rule)
        if rule.baseline in (SEASONAL, EARLIER):
            raise ValueError(
                f'baseline = "{rule.baseline}" knows means, and a distribution rule compares spreads too: use kind = '
                '"drift"'
            )
        if rule.direction not in (None, "both"):
            raise ValueError("a distribution rule fires in both directions: leave direction out")
        if (rule.baseline_spread is not None) != (rule.baseline is not None):
            raise ValueError("baseline_spread goes with baseline in a distribution rule: give both or neither")

    def subject(self, alert: "Alert") -> str:
        """Return whose spread changed."""
        return f"spread of {super().subject(alert)}"


class Covariate(AlertKind):
    """Values of a number known before the answer, or of a segment, with other shares than at first."""

    quantity = "share"
    own_values = True
    statistic = "The share"
    noun = "interaction"
    in_percent = True
    named = "Example"
    first = "Read first the newest interactions with these values, and find out where they come from."
    bad = ("rise",)

    def check(self, rule: "AlertRule") -> None:
        """Check that only a covariate is compared, with what is learned of it."""
        covariate = rule.covariate or ""
        if rule.kind != "distribution":
            raise ValueError(f'covariate = "{covariate}" belongs to a distribution rule: set kind = "distribution"')
        if rule.metric != covariate_metric(covariate):
            raise ValueError(
                f'metric = "{rule.metric}" and covariate = "{covariate}" exclude each other: keep metric to compare '
                "mean and spread of scores, or covariate to compare what is asked"
            )
        if covariate == SEGMENT_COVARIATE:
            raise ValueError(f'covariate = "{covariate}" has no name: name the segment, such as segment:topic')
        if rule.segment is not None and covariate == f"{SEGMENT_COVARIATE}{rule.segment}":
            raise ValueError(
                f'segment = "{rule.segment}" leaves one value of the covariate {covariate}: leave segment out'
            )
        extra = [
            name
            for name in ("target", "baseline", "baseline_spread", "baseline_window", "direction")
            if getattr(rule, name) not in (None, "both")
        ]
        if extra:
            raise ValueError(
                f"a rule on a covariate learns its distribution from the first learn_n values and fires on any change "
                f"of it: leave {' and '.join(extra)} out"
            )
        if rule.run_length is None:
            raise ValueError(
                "a rule on a covariate needs run_length, the mean number of interactions between false alarms, such as "
                "10000: it has no share of the deployment's budget"
            )
        if rule.min_effect >= 1:
            raise ValueError(
                f"the rule could never fire: min_effect is {rule.min_effect:g}, and no two distributions have a total "
                "variation distance above 1; choose a number such as 0.05"
            )

    def subject(self, alert: "Alert") -> str:
        """Return the share of which values changed."""
        values = covariate_values(alert, alert.values or "")
        return f"{covariate_name(alert)} of {scope_of(alert)}: the share of {values}"

    def about(self, alert: "Alert") -> tuple[str, str]:
        """Return the covariate."""
        return "Covariate", short_name(alert.covariate or "")


_UNITS: Final = {"question_length": "characters", "context_length": "characters", "documents": "documents"}


def covariate_name(alert: "Alert") -> str:
    """Return the name of the covariate of an alert; of a segment its name."""
    return short_name((alert.covariate or alert.metric).removeprefix(SEGMENT_COVARIATE))


def covariate_values(alert: "Alert", values: str) -> str:
    """Return values of the covariate of an alert in words, with their unit where it is known."""
    unit = _UNITS.get(alert.covariate or "")
    return short_name(values) if unit is None else f"{short_name(values)} {unit}"


class SentinelAnswers(AlertKind):
    """The share of answers of a judge to sentinels that are unlike earlier ones."""

    statistic = "The share of unlike answers"
    in_percent = True
    named = "Sentinel"
    names_answers = False
    first = (
        "Let people grade some answers (ragtide items annotate) before you trust the judge's numbers since the change. "
        "ragtide judge baseline accepts its answers as the new baseline."
    )
    bad = ("rise",)

    @staticmethod
    def completed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields with the metric, and the share that is unlike by chance."""
        return {
            "metric": SENTINEL_UNLIKE.name,
            "min_effect": SENTINEL_MIN_EFFECT,
            "resolve_run_length": SENTINEL_RESOLVE_RUN_LENGTH,
            "baseline": SENTINEL_UNLIKE_SHARE,
            **fields,
        }

    def check(self, rule: "AlertRule") -> None:
        """Check that nothing else is compared."""
        if rule.metric != SENTINEL_UNLIKE.name:
            raise ValueError(f"a sentinel rule compares {SENTINEL_UNLIKE.name}, not {rule.metric}: leave metric out")
        if rule.baseline != SENTINEL_UNLIKE_SHARE or rule.target is not None or rule.baseline_window is not None:
            raise ValueError(
                f"a sentinel rule compares with {SENTINEL_UNLIKE_SHARE:g}, the share that is unlike by chance: leave "
                "baseline, target and baseline_window out"
            )
        if rule.direction not in (None, "rise") or rule.segment is not None or rule.adjust is not None:
            raise ValueError(
                "a sentinel rule fires on a rising share of all sentinels: leave direction, segment and adjust out"
            )

    def title(self, alert: "Alert") -> str:
        """Return which judge changed; its model comes before the first prompt in its version.

        The share of unlike answers is known only with the alert, so the model is shortened and the numbers are not.
        """
        model = cut(short_name(_PROMPT.split(alert.labeler_version or "")[0]), 40)
        if alert.status == "resolved":
            return f"the judge {model} answers sentinels as remembered again"
        chance, unlike = self.value(alert.baseline), self.observed(alert)
        return f"the judge {model} changed: {unlike} to sentinels are unlike earlier ones, {chance} by chance"

    def observed(self, alert: "Alert") -> str:
        """Return how many of the answers since the change are unlike: each is 1 or 0, so the share has the count.

        Of a resolved alert these are the answers since they came back.
        """
        n = alert.observed_n or 0
        return f"{round((alert.observed or 0.0) * n):,} of {self.counted(n)}"

    def learned(self, alert: "Alert") -> str | None:
        """Return that the normal share is one of chance."""
        return ", by chance"

    def named_words(self, interaction_id: str) -> str | None:
        """Return the sentinel, and the number of its answer."""
        match = _SENTINEL_ANSWER.fullmatch(interaction_id)
        return None if match is None else f"{short_name(match[1])}, in answer {int(match[2]) + 1:,} to sentinels"


_PROMPT: Final = re.compile(r"/(?=(?:[a-z]+-)?(?:trace|claims|verdicts|criteria)\.[0-9])")
"""Where the prompts begin in the version of a judge."""

_SENTINEL_ANSWER: Final = re.compile(r"(.*)#([0-9]{1,20})", re.DOTALL)
"""The id of an answer to a sentinel: the id of the sentinel, and the number of answers before."""

_COVARIATE, _KAPPA, _QUANTILE, _DRIFT, _ERRORS = Covariate(), Kappa(), Quantile(), Drift(), Errors()
_OF_NAME: Final[Mapping[str, AlertKind]] = {
    "threshold": Threshold(), "drift": _DRIFT, "rmse": _ERRORS, "agreement": _ERRORS, "distribution": Distribution(),
    "sentinel": SentinelAnswers(),
}  # fmt: skip
"""The kind of a rule that states it, unless other fields of the rule make it another one."""


def kind_of_rule(rule: "AlertRule") -> AlertKind:
    """Return the kind of a rule."""
    if rule.covariate is not None:
        return _COVARIATE
    if rule.compares_verdicts:
        return _KAPPA
    return _QUANTILE if rule.kind == "threshold" and rule.quantile is not None else _OF_NAME[rule.kind]


def kind_of(alert: "Alert") -> AlertKind:
    """Return the kind whose words an alert has: of one that its rule's kind does not compare, those of the quantity."""
    if alert.covariate is not None:
        return _COVARIATE
    kind = _OF_NAME.get(alert.kind, _DRIFT)
    if kind.quantity == alert.quantity:
        return kind
    return next(kind for kind in (_DRIFT, _KAPPA, _QUANTILE, *_OF_NAME.values()) if kind.quantity == alert.quantity)


def completed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a rule with those that its kind fills in."""
    kind = fields.get("kind")
    return _OF_NAME[kind].completed(fields) if isinstance(kind, str) and kind in _OF_NAME else fields
