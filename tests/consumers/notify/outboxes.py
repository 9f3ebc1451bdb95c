"""Outboxes for tests: destinations, changes of alerts, and a run of an outbox against a receiver that may fail."""

from typing import Any

from tests.support.alerts import alert

from ragtide_consumers.notify.grouping import DeliveryTimes, DueMessage, KnownDestination, PendingChange
from ragtide_consumers.notify.outbox import NotificationOutbox, WithheldBy
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_schemas import Alert
from ragtide_schemas.times import utc_now

WAIT_MS = 30_000
REPEAT_MS = 4 * 3_600_000
GIVE_UP_MS = 6 * 3_600_000
NOW = utc_now()


def machine(name: str = "hook", *, resend_ms: int | None = None, **fields: Any) -> KnownDestination:
    settings = DestinationSettings.model_validate({"name": name, "kind": "webhook", "url": "https://a", **fields})
    return KnownDestination(settings, False, DeliveryTimes(0, REPEAT_MS, resend_ms))


def channel(name: str = "people", **fields: Any) -> KnownDestination:
    settings = DestinationSettings.model_validate({"name": name, "kind": "teams", "url": "https://a", **fields})
    return KnownDestination(settings, True, DeliveryTimes(WAIT_MS, REPEAT_MS, None))


def outbox(*destinations: KnownDestination, storm_messages: int = 20) -> NotificationOutbox:
    settings = NotifySettings(
        give_up_s=GIVE_UP_MS / 1000, storm_messages=storm_messages, public_url="https://ragtide.example.com/"
    )
    return NotificationOutbox(destinations, settings)


def change(alert_id: str, status: str, at_ms: int = 1000, **fields: Any) -> PendingChange:
    ended = {"resolved": {"resolved_at": NOW}, "explained": {"explained_at": NOW}}.get(status, {})
    one: Alert = alert(alert_id, status=status, fired_at=NOW, **ended, **fields)
    return PendingChange(status=one.status, alert=one, entry_id=f"{at_ms}-0")


def reloaded(
    before: NotificationOutbox, stored: dict[str, bytes], *destinations: KnownDestination
) -> NotificationOutbox:
    """Return another process's outbox that goes on with what the first has written."""
    write(before, stored)
    after = outbox(*destinations)
    after.load({name.encode(): data for name, data in stored.items()}, 0)
    return after


def write(one: NotificationOutbox, stored: dict[str, bytes]) -> list[Alert]:
    """Write the changes of an outbox, and return the alerts that it raised or ended."""
    changes = one.take_changes()
    stored |= changes.fields
    for name in changes.removed:
        stored.pop(name, None)
    return changes.alerts


def due(one: NotificationOutbox, now_ms: int, withheld_by: WithheldBy | None = None) -> list[DueMessage]:
    return one.due(now_ms, withheld_by or WithheldBy(), may_try=lambda _: True)


def send(
    one: NotificationOutbox, now_ms: int, withheld_by: WithheldBy | None = None
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Tell every destination all that is due; return destination, status and ids of each message."""
    sent: list[tuple[str, str, tuple[str, ...]]] = []
    while messages := due(one, now_ms, withheld_by):
        for message in messages:
            told = one.notification(message)
            sent.append((message.destination, told.status, tuple(sorted(alert.alert_id for alert in told.alerts))))
            one.record_sent(message, "ts", now_ms)
    return sent
