"""Alertmanager: alerts by its API v2. A firing alert is sent again each minute, because Alertmanager ends it otherwise.

The labels identify an alert, so they hold neither numbers nor the id of the alert: these are annotations.
"""

import base64
from datetime import datetime, timedelta
from typing import ClassVar, Final

from ragtide_schemas import Alert

from ..messages import TEST_TITLE, text_of
from ..notification import Notification, sample_alert
from .http import HttpDestination, HttpRequest, bearer

RESEND_S: Final = 60.0
"""Seconds after which a firing alert is sent again; Alertmanager expects 30 s to 3 min."""

FIRING_FOR: Final = timedelta(minutes=5)
"""Time after which Alertmanager resolves a firing alert that is not sent again."""

PATH: Final = "/api/v2/alerts"


class Alertmanager(HttpDestination):
    """One Alertmanager. Of a cluster, each replica is a destination of its own."""

    grouped: ClassVar[bool] = False
    resend_s: ClassVar[float | None] = RESEND_S

    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return one request with all alerts."""
        url = (self._settings.url.get_secret_value() if self._settings.url else "").rstrip("/")
        headers = bearer(self._settings.token)
        if self._settings.user is not None and self._settings.password is not None:
            pair = f"{self._settings.user}:{self._settings.password.get_secret_value()}"
            headers = {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        alerts = notification.alerts or (sample_alert(),)
        body = [posted_alert(alert, notification, now) for alert in alerts]
        return [HttpRequest(url if url.endswith(PATH) else url + PATH, body, headers)]


def posted_alert(alert: Alert, notification: Notification, now: datetime) -> dict[str, object]:
    """Return one alert as Alertmanager takes it.

    Args:
        alert: as it is now.
        notification: that carries it.
        now: wall time of the attempt.
    """
    labels = {
        "alertname": alert.rule,
        "pipeline": alert.pipeline,
        "metric": alert.metric,
        "segment": alert.segment,
        "labeler": alert.labeler,
        "profile": alert.profile,
        "run": alert.run,
        "severity": alert.severity,
    }
    if alert.release is not None:  # a pipeline may have several releases at once
        labels |= {"from_version": alert.release.from_version, "to_version": alert.release.to_version}
    text = text_of(alert, notification)
    annotations = {
        "summary": TEST_TITLE if notification.status == "test" else text.title,
        "description": "\n".join(text.sentences) or alert.message,
        "alert_id": alert.alert_id,
        **{key: value for name, value in text.facts if (key := name.lower().replace(" ", "_")) not in labels},
    }
    if alert.status == "resolved":
        ends = notification.changed_at or now
    elif notification.status == "test":
        ends = now + timedelta(seconds=RESEND_S)
    else:
        ends = now + FIRING_FOR
    entry: dict[str, object] = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": annotations,
        # Alertmanager refuses an alert that ends before it starts; the clock of interactions may be ahead.
        "startsAt": min(notification.raised_at or alert.fired_at, now, ends).isoformat(),
        "endsAt": ends.isoformat(),
    }
    if notification.url:
        entry["generatorURL"] = notification.url
    return entry
