"""A notification: the change of one alert, or of a group of alerts of one pipeline, for one destination."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from ragtide_schemas import Alert, to_milliseconds, utc_now
from ragtide_schemas.alert_text import WorstAnswer

NotificationStatus = Literal["firing", "explained", "resolved", "summary", "test"]
"""The content of a notification: a change of alerts, a summary of withheld messages, or a test of a destination."""


Tone = Literal["problem", "news", "end"]
"""How people are to take a notification."""


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
    worst: Mapping[str, tuple[WorstAnswer, ...]] = field(default_factory=dict)
    """The answers that each alert names, by the alert's id, with their questions if the destination may have them."""
    acknowledged: Mapping[str, str] = field(default_factory=dict)
    """User who acknowledged an alert, by the alert's id."""
    silenced_until: Mapping[str, datetime] = field(default_factory=dict)
    """End of the silence that holds for an alert, by the alert's id."""

    @property
    def tone(self) -> Tone:
        """Whether it reports a problem, news that are none, or that all is well again."""
        events = {alert.event for alert in self.alerts}
        if events and events <= {"release.opened", "release.ended"}:
            return "news"
        return "end" if self.status == "resolved" else "problem"


def sample_alert() -> Alert:
    """Return an alert for a test of a destination; each has an id of its own, so no receiver drops a second test.

    It has all that an alert about a mean has, so that a test shows what an alert looks like.
    """
    now = utc_now()
    return Alert(
        alert_id=f"ragtide-test-{to_milliseconds(now)}",
        status="firing",
        rule="ragtide-test",
        kind="drift",
        severity="info",
        pipeline="ragtide-test",
        metric="trace.adherence",
        profile="ragbench",
        labeler="local",
        labeler_version="test",
        direction="fall",
        began_at=now - timedelta(minutes=5),
        fired_at=now,
        baseline=0.8,
        baseline_source="learned",
        normal=0.85,
        normal_n=500,
        limit=0.78,
        observed=0.62,
        observed_n=60,
        observed_lower=0.56,
        observed_upper=0.68,
        log_evidence=10.0,
        run_length=10_000,
        n=2_000,
        message="This is a test of ragtide's notifications: no alert fires.",
    )
