"""All metrics that a process knows (built-in, of installed packages, of the settings), and a check of rules by them."""

from collections.abc import Iterable, Mapping

from ragtide_consumers.labelers.plugins import custom_metrics
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, AlertRule, MetricDefinition


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
