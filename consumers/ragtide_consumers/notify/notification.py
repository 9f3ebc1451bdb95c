"""A notification: the change of one alert, or of a group of alerts of one pipeline, for one destination."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ragtide_schemas import Alert, to_milliseconds, utc_now

NotificationStatus = Literal["firing", "explained", "resolved", "summary", "test"]
"""The content of a notification: a change of alerts, a summary of withheld messages, or a test of a destination."""


@dataclass(frozen=True, slots=True)
class Notification:
    """The change of one alert, or of a group of alerts of one pipeline."""

    key: str
    """Id that stays the same over the life of the alert or the group: the alert's id, or the group's id."""
    status: NotificationStatus
    """The change."""
    alerts: tuple[Alert, ...]
    """The alerts that changed, all of one pipeline; several if they are grouped."""
    repeat: int = 0
    """Number of times that it was sent before, while it fires."""
    n_withheld: int = 0
    """Number of messages that a summary of the storm guard replaces."""
    n_still_firing: int = 0
    """Number of other alerts of the group that still fire. With 0, `resolved` ends the group."""
    sent_as: str = ""
    """Id under which the destination knows the first message, as `deliver` returned it; empty before the first."""
    url: str | None = None
    """Link to the alert on the page."""
    raised_at: datetime | None = None
    """Wall time at which the alert was raised; None means its `fired_at`, the time of an interaction."""
    changed_at: datetime | None = None
    """Wall time of the change; None means now."""


def sample_alert() -> Alert:
    """Return an alert for a test of a destination; each has an id of its own, so no receiver drops a second test."""
    now = utc_now()
    return Alert(
        alert_id=f"ragtide-test-{to_milliseconds(now)}",
        status="firing",
        rule="ragtide-test",
        kind="stall",
        severity="info",
        pipeline="ragtide-test",
        metric="trace.adherence",
        direction="fall",
        fired_at=now,
        message="This is a test of ragtide's notifications: no alert fires.",
    )
