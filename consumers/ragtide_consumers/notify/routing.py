"""Routing: which destination gets an alert. Pure functions of the settings and the alert."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

from ragtide_runtime.settings.notify import DestinationSettings, MatchSettings
from ragtide_schemas import Alert

FAILING_RULE: Final = "notify-"
"""Beginning of the rule of an alert that a destination fails; its name follows."""


def matches(match: MatchSettings, alert: Alert) -> bool:
    """Return whether an alert matches every field.

    Args:
        match: patterns, shell-style and case-sensitive.
        alert: in any status; its status does not count.
    """
    return (
        any_matches(match.pipeline, alert.pipeline)
        and any_matches(match.rule, alert.rule)
        and any_matches(match.metric, alert.metric)
        and (match.segment is None or (alert.segment is not None and any_matches(match.segment, alert.segment)))
        and (match.kind is None or alert.kind in match.kind)
        and (match.severity is None or alert.severity in match.severity)
        and (match.runs or alert.run is None)
    )


def is_about_destination(alert: Alert) -> bool:
    """Return whether an alert says that a destination fails."""
    return alert.kind == "stall" and alert.rule.startswith(FAILING_RULE)


def wants(destination: DestinationSettings, alert: Alert) -> bool:
    """Return whether a destination gets an alert.

    Every destination gets the alert that another one fails, whatever it matches. None gets that alert about itself.
    """
    if is_about_destination(alert):
        return alert.rule != f"{FAILING_RULE}{destination.name}"
    return matches(destination.match, alert)


def is_quiet(destination: DestinationSettings, alert: Alert, now_ms: int) -> bool:
    """Return whether quiet hours of a destination withhold an alert at a time (milliseconds since 1970)."""
    quiet = destination.quiet
    if quiet is None or alert.severity in quiet.except_severity:
        return False
    return quiet.holds(datetime.fromtimestamp(now_ms / 1000, UTC))


def together(alerts: Sequence[Alert], *, grouped: bool) -> list[tuple[Alert, ...]]:
    """Return alerts as they are sent: each alone, or those of a pipeline and run together."""
    groups: dict[object, list[Alert]] = {}
    for alert in alerts:
        groups.setdefault((alert.pipeline, alert.run) if grouped else alert.alert_id, []).append(alert)
    return [tuple(group) for group in groups.values()]


def any_matches(patterns: tuple[str, ...], text: str) -> bool:
    """Return whether a text matches one of several shell-style patterns."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)
