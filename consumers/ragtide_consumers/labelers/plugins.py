"""Loads labelers and metrics of users, from entry points of installed packages or by names in the settings."""

from collections.abc import Collection, Sequence
from functools import partial
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final, cast

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.user_code import attribute, attribute_at, load_value
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import CRITERIA_MAX
from ragtide_schemas.declared import DECLARED_MAX
from ragtide_schemas.step_metrics import STEP_METRICS_MAX

from ..metrics.custom import CustomMetric
from ..metrics.optional import optional_metrics
from .protocol import Labeler

if TYPE_CHECKING:
    from .remote.services import Services

LABELERS: Final = "ragtide.labelers"
"""Entry point group of labelers: each a labeler, or a class or function that makes one."""

METRICS: Final = "ragtide.metrics"
"""Entry point group of metrics: each a `CustomMetric`."""

CUSTOM_METRICS_MAX: Final = DECLARED_MAX - CRITERIA_MAX - STEP_METRICS_MAX
"""Most custom metrics, so that an event has room for those of all criteria and of all steps."""


def custom_metrics(settings: Settings) -> Sequence[CustomMetric]:
    """Return the metrics of installed packages, then the metrics that the settings name (optional or the user's).

    Raises:
        ConfigurationError: a metric cannot be loaded, is no `CustomMetric`, or has the name of another metric; or
            there are more than `CUSTOM_METRICS_MAX`.
    """
    named = [(f"entry point {point.name}", point.load) for point in sorted(entry_points(group=METRICS))]
    named += [(f"metrics: {name}", partial(_metric, name)) for name in settings.metrics]
    by_name: dict[str, CustomMetric] = {}
    for origin, load in named:
        metric = load_value(origin, load)
        if not isinstance(metric, CustomMetric):
            raise ConfigurationError(f"{origin} is {type(metric).__name__}: it must be a ragtide.CustomMetric")
        other = by_name.setdefault(metric.definition.name, metric)
        if other != metric:
            raise ConfigurationError(
                f"{origin}: there is another metric named {metric.definition.name}: rename this metric"
            )
    check_number(by_name)
    return list(by_name.values())


def check_number(metrics: Collection[object]) -> None:
    """Check that an event has room for custom metrics beside those of criteria and of retrieval steps.

    Raises:
        ConfigurationError: there are too many.
    """
    if len(metrics) > CUSTOM_METRICS_MAX:
        raise ConfigurationError(
            f"metrics has {len(metrics):,} custom metrics, with those of installed packages: name at most "
            f"{CUSTOM_METRICS_MAX}, because an event declares at most {DECLARED_MAX} metrics, those of criteria and of "
            "retrieval steps included"
        )


def _metric(name: str) -> Any:
    optional = optional_metrics()
    return optional[name] if name in optional else attribute(name)


def custom_labeler(name: str, settings: Settings, services: "Services") -> Labeler | None:
    """Return the labeler of an installed package by its name, or the labeler at `module:attribute`; otherwise None.

    Raises:
        ConfigurationError: it cannot be loaded, or is no labeler.
    """
    points = {point.name: point for point in entry_points(group=LABELERS)}
    if name in points:
        origin, labeler = f"entry point {name}", load_value(f"entry point {name}", points[name].load)
    elif ":" in name:
        origin, labeler = f"labeler: {name}", attribute_at("labeler", name)
    else:
        return None
    if isinstance(labeler, type) or not hasattr(labeler, "label"):
        factory = labeler
        labeler = load_value(origin, lambda: _call_factory(factory, settings, services))
    return check_labeler(labeler, origin)


def check_labeler(candidate: object, origin: str) -> Labeler:
    """Return an object as a labeler.

    Args:
        candidate: the object.

    Raises:
        ConfigurationError: it lacks a part of a labeler.
    """
    missing = [part for part in ("name", "version", "profile", "label") if not hasattr(candidate, part)]
    if missing or isinstance(candidate, type):
        lacks = f"has no {', '.join(missing)}" if missing else "is a class, not an object"
        raise ConfigurationError(f"{origin} {lacks}: a labeler has a name, a version, a profile and label()")
    return cast("Labeler", candidate)


def _call_factory(factory: Any, settings: Settings, services: "Services") -> Any:
    arguments = {"settings": settings, "services": services}
    parameters = signature(factory).parameters.values()
    named = {
        parameter.name: arguments[parameter.name]
        for parameter in parameters
        if parameter.name in arguments and parameter.kind in _BY_NAME
    }
    first = next(iter(parameters), None)
    takes_first = first is not None and first.name not in named and first.kind in _BY_POSITION
    return factory(*([settings] if takes_first else []), **named)


_BY_POSITION: Final = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
_BY_NAME: Final = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}


def installed_labelers() -> list[str]:
    """Return the names of the labelers of installed packages."""
    return sorted(point.name for point in entry_points(group=LABELERS))
