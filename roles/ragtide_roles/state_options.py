"""The state options of the aggregator, from the settings."""

from ragtide_aggregator.state.capping import KeyCaps
from ragtide_aggregator.state.state import AlertBudget, StateOptions
from ragtide_aggregator.statistics.windows import Panes, window
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.alert import duration_ms


def state_options(settings: Settings) -> StateOptions:
    """Return the state options of the aggregator, from the settings.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """
    budget = settings.budget.false_alarms
    return StateOptions(
        rules=settings.alerts,
        segments=settings.segments,
        panes=panes_of(settings),
        # Each partition is aggregated by itself, so each has its part.
        budget=None
        if budget is None
        else AlertBudget(budget / settings.partitions, duration_ms(settings.budget.period)),
        quantiles=settings.quantiles,
        caps=KeyCaps(settings.keys_cap, settings.partition_keys_cap),
    )


def panes_of(settings: Settings) -> Panes:
    """Return the panes into which event time is cut, from the settings.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """
    try:
        windows = tuple(window(text) for text in dict.fromkeys(settings.windows))
    except ValueError as error:
        raise ConfigurationError(f"windows: {error}") from None
    return Panes(windows, int(settings.lateness_s * 1000))
