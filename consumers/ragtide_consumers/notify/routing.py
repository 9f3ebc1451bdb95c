"""Routing: which destination gets an alert. Pure functions of the settings and the alert."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

from ragtide_runtime.settings.notify import DestinationSettings, MatchSettings
from ragtide_schemas import Alert
from ragtide_schemas.alert_rule import AlertStatus
from ragtide_schemas.release import ReleaseEvent

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
    return may_send(destination.on, alert) and matches(destination.match, alert)


def sends(on: Sequence[AlertStatus | ReleaseEvent], alert: Alert) -> bool:
    """Return whether a change of an alert is one of those that are sent to a destination.

    A release is no problem until its new version is worse, so its other events are sent only where they are named.

    Args:
        on: changes that are sent to the destination.
        alert: after the change.
    """
    return alert.event in on or (alert.status in on and not alert.is_news)


def may_send(on: Sequence[AlertStatus | ReleaseEvent], alert: Alert) -> bool:
    """Return whether a change of an alert, in this status or a later one, may be sent to a destination."""
    return not alert.is_news or any(change in on for change in _NEWS)


_NEWS: Final[tuple[ReleaseEvent, ...]] = ("release.opened", "release.not_worse", "release.ended")


def is_quiet(destination: DestinationSettings, alert: Alert, now_ms: int) -> bool:
    """Return whether quiet hours of a destination withhold an alert at a time (milliseconds since 1970)."""
    quiet = destination.quiet
    if quiet is None or alert.severity in quiet.except_severity:
        return False
    return quiet.holds(datetime.fromtimestamp(now_ms / 1000, UTC))


def together(alerts: Sequence[Alert], *, grouped: bool) -> list[tuple[Alert, ...]]:
    """Return alerts as they are sent: each alone, or those of a pipeline and run together but for those of releases."""
    groups: dict[object, list[Alert]] = {}
    for alert in alerts:
        together = grouped and alert.release is None
        groups.setdefault((alert.pipeline, alert.run) if together else alert.alert_id, []).append(alert)
    return [tuple(group) for group in groups.values()]


def any_matches(patterns: tuple[str, ...], text: str) -> bool:
    """Return whether a text matches one of several shell-style patterns."""
    return any(fnmatchcase(text, pattern) for pattern in patterns)
