"""Selects alerts by pipeline, rule, severity and status."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, get_args

from ragtide_schemas import Alert
from ragtide_schemas.alert import AlertStatus
from ragtide_schemas.alert_rule import Severity

SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)
STATUSES: Final[tuple[str, ...]] = get_args(AlertStatus)


class AlertFilter:
    """The alerts that a subscriber wants: an alert must match every argument that is given.

    Args:
        pipeline: shell pattern of the pipeline, or several; `[*]` is the pipeline `*` of deployment-wide alerts.
        rule: shell pattern of the name of the rule, or several.
        severity: severity, or several.
        status: status, or several.

    Raises:
        ValueError: an argument is empty or has an unknown value.
    """

    def __init__(self, *, pipeline: Any = None, rule: Any = None, severity: Any = None, status: Any = None) -> None:
        self._pipelines = _texts("pipeline", pipeline)
        self._rules = _texts("rule", rule)
        self._severities = _texts("severity", severity, SEVERITIES)
        self._statuses = _texts("status", status, STATUSES)

    def matches(self, alert: Alert) -> bool:
        """Return whether an alert is wanted."""
        return (
            (self._severities is None or alert.severity in self._severities)
            and (self._statuses is None or alert.status in self._statuses)
            and (self._pipelines is None or any(fnmatchcase(alert.pipeline, one) for one in self._pipelines))
            and (self._rules is None or any(fnmatchcase(alert.rule, one) for one in self._rules))
        )


def _texts(name: str, given: str | Sequence[str] | None, known: Sequence[str] = ()) -> tuple[str, ...] | None:
    if given is None:
        return None
    texts = (given,) if isinstance(given, str) else tuple(given)
    if not texts or not all(isinstance(one, str) and one for one in texts):
        raise ValueError(f"{name} is {given!r}: give a text, or a list with at least one text; None takes every alert")
    for one in texts:
        if known and one not in known:
            raise ValueError(f"{name} is {one!r}: give one of {', '.join(known)}")
    return texts
