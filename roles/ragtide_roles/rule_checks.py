"""Checks of alert rules against the metrics that a process knows: rules that do not suit, and rules that never fire."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ragtide_consumers.labelers.plugins import custom_metrics
from ragtide_consumers.labelers.published import published_metrics
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, AlertRule, MetricDefinition
from ragtide_schemas.metric_definitions import FROM_PEOPLE, OUTCOMES, SELF_CONSISTENCY
from ragtide_schemas.suggestions import closest


def known_metrics(settings: Settings) -> Mapping[str, MetricDefinition]:
    """Return the definitions of all known metrics by name.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    return {**METRICS, **{metric.definition.name: metric.definition for metric in custom_metrics(settings)}}


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


def scored_metrics(settings: Settings) -> frozenset[str] | None:
    """Return the metrics that workers with these settings may publish; None if a custom labeler does not declare them.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    found = published_metrics(settings)
    if found is None:
        return None
    return found | _OF_EVERY_EVENT | (frozenset(known_metrics(settings)) - frozenset(METRICS))


def rule_findings(rules: Iterable[AlertRule], settings: Settings) -> list[RuleFinding]:
    """Return the problems of rules in a deployment with these settings.

    A metric that is unknown here gives only a warning, because a worker elsewhere may declare it. A default rule on a
    metric that the labeler never publishes is no problem while another default rule can fire.

    Raises:
        ConfigurationError: a metric that the settings name cannot be loaded.
    """
    known = known_metrics(settings)
    there = scored_metrics(settings)
    found: list[RuleFinding] = []
    names: set[str] = set()
    for rule in rules:
        if rule.name in names:
            found.append(RuleFinding(rule.name, "error", "another rule has this name: give each a name of its own"))
        names.add(rule.name)
        try:
            check_rules([rule], known)
        except ConfigurationError as error:
            found.append(RuleFinding(rule.name, "error", str(error).removeprefix(f"alert rule {rule.name}: ")))
            continue
        if rule.metric not in known:
            found.append(RuleFinding(rule.name, "warning", _unknown(rule.metric, known)))
        elif there is not None and rule.metric not in there and not _spare(rule, there):
            found.append(RuleFinding(rule.name, "warning", _unpublished(rule.metric, settings.labeler, there)))
    return found


def _spare(rule: AlertRule, there: Iterable[str]) -> bool:
    return rule in DEFAULT_RULES and any(default.metric in there for default in DEFAULT_RULES)


def _unknown(metric: str, known: Iterable[str]) -> str:
    near = closest(metric, known, likeness=0.75)
    meant = f"did you mean {near}? If not, name" if near else "name"
    return (
        f"no metric {metric} is known here; {meant} it in the setting metrics (module:attribute). "
        "Unless workers declare it, the rule never fires"
    )


def _unpublished(metric: str, labeler: str, there: Iterable[str]) -> str:
    if metric == SELF_CONSISTENCY.name and labeler in ("judge", "cascade"):
        return f"no interaction has {metric}, so the rule never fires: set judge.repeat_share, such as 0.02"
    family = metric.partition(".")[0]
    others = sorted(name for name in there if name.startswith(f"{family}."))
    instead = f"watch {', '.join(others)}" if others else "watch another metric"
    return (
        f"the labeler {labeler} (setting labeler) never publishes {metric}, so the rule never fires: use another "
        f"labeler, or {instead}"
    )
