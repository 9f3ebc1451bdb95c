"""PagerDuty: an alert triggers an incident and resolves it, by the Events API v2."""

from datetime import datetime
from typing import ClassVar, Final

from ragtide_schemas import Alert

from ..messages import TEST_TITLE, text_of
from ..notification import Notification, sample_alert
from .http import HttpDestination, HttpRequest

ENQUEUE: Final = "https://events.pagerduty.com/v2/enqueue"
"""Address of the service region United States."""

LONGEST_SUMMARY: Final = 1024
"""Most characters of a summary, a limit of PagerDuty."""

SEVERITIES: Final = {"page": "critical", "ticket": "warning", "info": "info"}
"""PagerDuty's severity of each severity of ragtide."""


class PagerDuty(HttpDestination):
    """A service of PagerDuty with an integration of the type Events API v2."""

    grouped: ClassVar[bool] = False

    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return one event for each alert; of a test two, so that its incident is closed at once."""
        url = self._settings.url.get_secret_value() if self._settings.url else ENQUEUE
        key = self._settings.token.get_secret_value() if self._settings.token else ""
        events = [event_of(alert, notification, now) for alert in notification.alerts or (sample_alert(),)]
        if notification.status == "test":
            events += [{"event_action": "resolve", "dedup_key": event["dedup_key"]} for event in events]
        return [HttpRequest(url, {"routing_key": key, **event}) for event in events]


def event_of(alert: Alert, notification: Notification, now: datetime) -> dict[str, object]:
    """Return the event of one alert, without the key of the integration.

    Args:
        alert: as it is now.
        notification: that carries it.
        now: wall time of the attempt.
    """
    if alert.status == "resolved":
        return {"event_action": "resolve", "dedup_key": alert.alert_id}
    text = text_of(alert, notification)
    title = TEST_TITLE if notification.status == "test" else text.title
    event: dict[str, object] = {
        "event_action": "trigger",
        "dedup_key": alert.alert_id,
        "client": "ragtide",
        "payload": {
            "summary": title[:LONGEST_SUMMARY],
            "severity": SEVERITIES[alert.severity],
            "source": text.scope,
            "timestamp": (notification.raised_at or min(alert.fired_at, now)).isoformat(),
            "component": alert.metric,
            "group": alert.pipeline,
            "class": alert.event or alert.kind,
            "custom_details": {"Message": " ".join(text.sentences), **dict(text.facts)},
        },
    }
    if notification.url:
        name = "Open ragtide" if notification.status == "test" else "Open the alert"
        event |= {"client_url": notification.url, "links": [{"href": notification.url, "text": name}]}
    return event
