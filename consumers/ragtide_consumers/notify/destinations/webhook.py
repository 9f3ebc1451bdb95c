"""Webhooks: each change of an alert as a CloudEvent, signed as Standard Webhooks describes.

The body is a CloudEvent 1.0 in structured JSON whose `data` is the alert; `title` and `text` have it in words. The
event's id is also `webhook-id`, so a receiver removes repetitions by it.
"""

import base64
import hashlib
import hmac
import re
from datetime import datetime
from typing import ClassVar, Final

import aiohttp
from pydantic import SecretStr

from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_schemas import Alert

from ..messages import TEST_TITLE, text_of
from ..notification import Notification, sample_alert
from .http import HttpDestination, HttpRequest, bearer

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"

_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_:-]{1,200}")
"""A full stop would let the id of a signed message end early, so an id has none."""


class Webhook(HttpDestination):
    """A webhook of the user.

    Args:
        notify: settings of all notifications.
        session: that `open_session` returned.
        prefix: of the keys in Redis, which names the deployment in `source`.
    """

    grouped: ClassVar[bool] = False

    def __init__(
        self, settings: DestinationSettings, notify: NotifySettings, session: aiohttp.ClientSession, *, prefix: str
    ) -> None:
        super().__init__(settings, notify, session)
        self._source = f"/ragtide/{prefix}"

    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return one signed event for each alert."""
        headers = {"webhook-timestamp": str(int(now.timestamp())), **bearer(self._settings.token)}
        requests = []
        for alert in notification.alerts or (sample_alert(),):
            event = cloud_event(alert, notification, self._source)
            requests.append(
                HttpRequest(
                    self._settings.url.get_secret_value() if self._settings.url else "",
                    event,
                    {"webhook-id": str(event["id"]), **headers},
                    CONTENT_TYPE,
                )
            )
        return requests

    def signature_headers(self, request: HttpRequest, body: bytes) -> dict[str, str]:
        """Return the signature of a body; nothing without a secret."""
        if self._settings.secret is None:
            return {}
        message_id, timestamp = (request.headers[name] for name in ("webhook-id", "webhook-timestamp"))
        return {"webhook-signature": signature(self._settings.secret, message_id, timestamp, body)}


def cloud_event(alert: Alert, notification: Notification, source: str) -> dict[str, object]:
    """Return the CloudEvent of one change of an alert. A retry gives the same event.

    Args:
        alert: as it is now.
        notification: that carries it.
    """
    status = "test" if notification.status == "test" else alert.status
    repeat = f":{notification.repeat}" if notification.repeat else ""
    happened = {"resolved": alert.resolved_at, "explained": alert.explained_at}.get(alert.status)
    text = text_of(alert, notification)
    # A diagnosis that is held back, because there is too little data, is held back everywhere.
    explained = alert.model_copy(update={"diagnosis": text.diagnosis})
    event: dict[str, object] = {
        "specversion": "1.0",
        "type": f"io.ragtide.{alert.event or f'alert.{status}'}",
        "source": source,
        "id": event_id(f"{alert.alert_id}:{status}{repeat}"),
        "time": (notification.changed_at or happened or alert.fired_at).isoformat(),
        "subject": alert.pipeline,
        "datacontenttype": "application/json",
        "dataschema": f"urn:ragtide:alert:{alert.schema_version}",
        "data": explained.model_dump(mode="json", exclude_none=True),
    }
    title = TEST_TITLE if notification.status == "test" else text.title
    event |= {"title": title, "text": "\n".join(text.sentences)}
    if alert.event is not None:
        event["event"] = alert.event
    if notification.url:
        event["link"] = notification.url
    return event


def event_id(text: str) -> str:
    """Return an id that a header can carry: the text, or its hash if it has other characters or is too long.

    >>> event_id("drift-0a1b:firing"), event_id("rule.1:firing")[:8]
    ('drift-0a1b:firing', 'ragtide-')
    """
    if _SAFE_ID.fullmatch(text):
        return text
    return f"ragtide-{hashlib.sha256(text.encode()).hexdigest()}"


def signature(secret: SecretStr, message_id: str, timestamp: str, body: bytes) -> str:
    """Return the header `webhook-signature`: `v1,` and the HMAC-SHA256 of id, timestamp and body in base64.

    Args:
        secret: `whsec_` and the key in base64.
        timestamp: of the attempt, in seconds since 1970.
        body: exactly as it is sent.
    """
    key = base64.b64decode(secret.get_secret_value().removeprefix("whsec_"))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"
