"""The metrics that an experiment measures itself, made known to a process that works with them."""

from ragtide_schemas import register_metric
from ragtide_schemas.experiments import Plan

from .errors import ConfigurationError


def know_metrics(plan: Plan) -> None:
    """Make an experiment's own metrics known to this process.

    Raises: ConfigurationError if another experiment's of the same name differ.
    """
    for metric in plan.metrics:
        try:
            register_metric(metric.definition())
        except ValueError as error:
            raise ConfigurationError(f"experiment {plan.run}: {error}") from None
