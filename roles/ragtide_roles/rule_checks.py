"""Checks of alert rules against the metrics that a process knows: rules that do not suit, and rules that never fire."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from ragtide_consumers.labelers.plugins import custom_metrics
from ragtide_consumers.labelers.published import criteria_metrics, published_metrics
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_runtime.settings.evaluators import is_pattern
from ragtide_runtime.settings.model import COMPUTED_COVARIATES, Settings
from ragtide_schemas import METRICS, AlertRule, MetricDefinition
from ragtide_schemas.alert_kinds import SEGMENT_COVARIATE
from ragtide_schemas.criterion import BUILT_IN
from ragtide_schemas.metric_definitions import (
    AGENT,
    CRITERIA_FAMILY,
    FROM_PEOPLE,
    OUTCOMES,
    SELF_CONSISTENCY,
    SENTINELS,
)
from ragtide_schemas.slopes import misses_claims, shipped_slopes
from ragtide_schemas.step_metrics import ToolMetric
from ragtide_schemas.suggestions import closest


def known_metrics(settings: Settings) -> Mapping[str, MetricDefinition]:
    """Return the definitions of all known metrics by name.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    return {**METRICS, **criteria_metrics(settings), **_custom(settings)}


def _custom(settings: Settings) -> dict[str, MetricDefinition]:
    return {metric.definition.name: metric.definition for metric in custom_metrics(settings)}


def check_rules(rules: Iterable[AlertRule], known: Mapping[str, MetricDefinition]) -> None:
    """Check alert rules against the definitions of their metrics; a rule on an unknown metric passes.

    Raises:
        ConfigurationError: a rule does not suit its metric, or could never fire.
    """
    for rule in rules:
        definition = known.get(rule.metric)
        if definition is None:
            continue
        try:
            rule.check_definition(definition)
        except ValueError as error:
            raise ConfigurationError(f"alert rule {rule.name}: {error}") from None


_OF_EVERY_EVENT: Final = frozenset(definition.name for definition in (*OUTCOMES, *FROM_PEOPLE))


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A problem of an alert rule."""

    rule: str
    level: Literal["error", "warning"]
    message: str


def scored_metrics(settings: Settings, pipeline: str = "*") -> frozenset[str] | None:
    """Return the metrics that workers with these settings may publish; None if a custom labeler does not declare them.

    Args:
        pipeline: name or pattern of pipelines: evaluators of other pipelines, and criteria that are asked of others, do
            not count.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    scored: frozenset[str] = frozenset()
    labelings = [settings]
    if settings.evaluators:
        matching = (evaluator for evaluator in settings.evaluators if _meet(evaluator.pipelines, pipeline))
        labelings = [settings.of_evaluator(evaluator) for evaluator in matching]
    for own in labelings:
        metrics = published_metrics(own)
        if metrics is None:
            return None
        elsewhere = {criterion.metric for criterion in own.judge.criteria if not _meet(criterion.pipelines, pipeline)}
        scored |= metrics - elsewhere
    return scored | _OF_EVERY_EVENT | {definition.name for definition in AGENT} | frozenset(_custom(settings))


def _meet(patterns: Iterable[str], pattern: str) -> bool:
    """Return whether a pipeline may match one of the patterns and another pattern.

    >>> _meet(["shop*"], "shop-1"), _meet(["shop"], "*"), _meet(["shop*"], "search"), _meet(["a*"], "*b")
    (True, True, False, True)
    """
    return any(
        fnmatchcase(pattern, other) or fnmatchcase(other, pattern) or (is_pattern(other) and is_pattern(pattern))
        for other in patterns
    )


def rule_findings(rules: Iterable[AlertRule], settings: Settings) -> list[RuleFinding]:
    """Return the problems of rules in a deployment with these settings.

    A metric that is unknown here gives only a warning, because a worker elsewhere may declare it. A default rule on a
    metric that the labeler never publishes is no problem while another rule can fire.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    rules, known = tuple(rules), known_metrics(settings)
    everywhere = scored_metrics(settings)
    findings: list[RuleFinding] = []
    names: set[str] = set()
    for rule in rules:
        if rule.name in names:
            findings.append(RuleFinding(rule.name, "error", "another rule has this name: give each a name of its own"))
        names.add(rule.name)
        try:
            check_rules([rule], known)
        except ConfigurationError as error:
            findings.append(RuleFinding(rule.name, "error", str(error).removeprefix(f"alert rule {rule.name}: ")))
            continue
        if rule.covariate is not None:
            if not rule.covariate.startswith(SEGMENT_COVARIATE) and rule.covariate not in COMPUTED_COVARIATES:
                findings.append(RuleFinding(rule.name, "warning", _not_computed(rule.covariate)))
            continue
        if rule.metric not in known and ToolMetric.read(rule.metric) is None:
            findings.append(RuleFinding(rule.name, "warning", _unknown(rule.metric, known)))
            continue
        there = scored_metrics(settings, rule.pipeline)
        # A run has numbers of the tools that it calls, whoever scores it.
        if there is None or rule.metric in there or ToolMetric.read(rule.metric) is not None:
            if (caution := _labeler_caution(rule, settings)) is not None:
                findings.append(RuleFinding(rule.name, "warning", caution))
            continue
        if rule in DEFAULT_RULES and any(other.metric in there for other in rules):
            continue
        message = _unpublished(rule.metric, settings, there)
        if everywhere is None or rule.metric in everywhere:
            message = (
                f"{rule.metric} is scored in other pipelines only, so the rule never fires for {rule.pipeline}: "
                "correct pipeline, or the pipelines of an evaluator or of the criterion"
            )
        findings.append(RuleFinding(rule.name, "warning", message))
    return findings


def _labeler_caution(rule: AlertRule, settings: Settings) -> str | None:
    """Return what is to be said about the labelers whose numbers a rule watches; None for nothing."""
    labelers = settings.labelers
    if rule in DEFAULT_RULES or rule.metric in _OF_EVERY_EVENT:
        return None
    if rule.labeler is not None and not any(rule.watches_labeler(labeler) for labeler in labelers):
        return (
            f"labeler is {rule.labeler}, and the workers of these settings score with {', '.join(labelers)}: correct it"
            ", or leave it out to watch each labeler. Unless workers elsewhere score with it, the rule never fires"
        )
    others = [labeler for labeler in labelers if labeler != "local"]
    blind = "local" in labelers and misses_claims(shipped_slopes("local"), rule.metric)
    if settings.labeler == "cascade" and rule.kind == "threshold" and rule.labeler is None and others and blind:
        return (
            f"the rule compares {rule.metric} by local with the target, too, and it does not see unsupported claims: "
            f'set labeler = "{others[0]}"'
        )
    return None


def default_rules_sentence(names: Sequence[str]) -> str:
    """Return a sentence with the default rules that are in force beside the operator's own."""
    if not names:
        return "No default rule is in force."
    return f"Default rules in force: {', '.join(names)} (alert_defaults = false turns them off)."


def _unknown(metric: str, known: Iterable[str]) -> str:
    near = closest(metric, known, likeness=0.75)
    family, _, criterion = metric.partition(".")
    if family == CRITERIA_FAMILY:
        meant = f"did you mean {near}? If not, add" if near else "add"
        return (
            f"no criterion {criterion} is asked, so the rule never fires; {meant} it to [[judge.criteria]], or store "
            "it with ragtide criteria add"
        )
    meant = f"did you mean {near}? If not, name" if near else "name"
    return (
        f"no metric {metric} is known here; {meant} it in the setting metrics (module:attribute). "
        "Unless workers declare it, the rule never fires"
    )


def _not_computed(covariate: str) -> str:
    near = closest(covariate, COMPUTED_COVARIATES, likeness=0.75)
    meant = f"did you mean {near}? If not, publish" if near else "publish"
    return (
        f"ragtide does not compute the covariate {covariate}; {meant} it with the interactions "
        f'(covariates = {{"{covariate}": ...}}), or use {", ".join(COMPUTED_COVARIATES)}. '
        "Without it the rule never fires"
    )


def _unpublished(metric: str, settings: Settings, there: Iterable[str]) -> str:
    labeler, setting = settings.labeler, "labeler"
    if settings.evaluators:
        setting, labeler = "evaluators", ", ".join(evaluator.labeler for evaluator in settings.evaluators)
    if metric == SELF_CONSISTENCY.name and "judge" in settings.labelers:
        return f"no interaction has {metric}, so the rule never fires: set judge.repeat_share, such as 0.02"
    if metric in BUILT_IN and "judge" in settings.labelers:
        return f'no interaction has {metric}, so the rule never fires: add name = "{metric}" to [[judge.criteria]]'
    if metric in {sentinel.name for sentinel in SENTINELS} and "judge" in settings.labelers:
        return "no sentinels are asked, so the rule never fires: set judge.sentinels to a file of interactions"
    family = metric.partition(".")[0]
    others = sorted(name for name in there if name.startswith(f"{family}."))
    instead = f"watch {', '.join(others)}" if others else "watch another metric"
    who = f"the labeler {labeler}" if len(settings.evaluators) < 2 else f"none of the labelers {labeler}"
    verb = "never publishes" if len(settings.evaluators) < 2 else "publishes"
    return f"{who} (setting {setting}) {verb} {metric}, so the rule never fires: use another labeler, or {instead}"
