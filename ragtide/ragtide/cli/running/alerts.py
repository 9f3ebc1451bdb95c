"""Alerts that commands show in words, and what destinations of notifications would get."""

from collections.abc import Sequence
from typing import Any

from redis import RedisError
from redis.asyncio import Redis

from ragtide_aggregator.reading.alerts import AlertLog
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.notify.silences import MutedAlerts, read_muted
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.alert_text import MOST_WORST, AlertText, WorstAnswer, alert_text, worst_answer

from ..printing import warn


async def read_alerts(redis: Redis, settings: Settings) -> list[Alert]:
    """Return the alerts in the order in which they fired; warn of entries that cannot be read.

    Raises:
        redis.RedisError: Redis failed.
    """
    log = AlertLog(redis, settings.layout.all())
    alerts = await log.read()
    warn(*filter(None, [log.unreadable.warning()]))
    return alerts


async def texts_of_alerts(redis: Redis, settings: Settings, alerts: Sequence[Alert]) -> list[AlertText]:
    """Return alerts in words, with the questions of the answers that a firing alert names.

    Raises:
        redis.RedisError: Redis failed.
    """
    muted, kept = await read_muted(redis, settings.prefix), KeptSpecimens(redis, settings.layout)
    texts = []
    for alert in alerts:
        worst = []
        for interaction_id in alert.worst_interaction_ids[:MOST_WORST] if alert.status != "resolved" else ():
            specimens = await kept.find(interaction_id, alert.pipeline)
            worst.append(worst_answer(alert, interaction_id, specimens[0] if specimens else None, texts=True))
        texts.append(text_of_alert(alert, muted, worst))
    return texts


async def text_of_new_alert(redis: Redis, settings: Settings, alert: Alert) -> AlertText:
    """Return an alert that has just been read in words; while Redis fails, with what its record says alone."""
    try:
        (text,) = await texts_of_alerts(redis, settings, [alert])
    except RedisError:
        return alert_text(alert, now=utc_now())
    return text


def text_of_alert(alert: Alert, muted: MutedAlerts, worst: Sequence[WorstAnswer] = ()) -> AlertText:
    """Return an alert in words, with what people did about it.

    Args:
        muted: silences and acknowledgements of the deployment.
        worst: its answers to read first.
    """
    now = utc_now()
    return alert_text(
        alert,
        now=now,
        worst=worst,
        acknowledged=muted.acknowledged_by(alert.alert_id),
        silenced_until=muted.silenced_until(alert, now),
    )


def json_of_alert(text: AlertText) -> dict[str, Any]:
    """Return the record of an alert with what people did about it, for JSON."""
    until = None if text.silenced_until is None else text.silenced_until.isoformat()
    return {**text.alert.model_dump(mode="json"), "acknowledged_by": text.acknowledged, "silenced_until": until}


async def requests_of_firing_alerts(redis: Redis, settings: Settings) -> list[dict[str, Any]]:
    """Return for each destination the requests about the alerts that fire now, as if none had been sent to it."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.notification import Notification  # noqa: PLC0415
    from ragtide_consumers.notify.routing import together, wants  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    firing = [alert for alert in await read_alerts(redis, settings) if alert.status != "resolved"]
    previews = []
    async with open_destinations(settings) as destinations:
        for name, destination in destinations.items():
            wanted = [alert for alert in firing if wants(destination.known.settings, alert)]
            notifications = [
                Notification(group[0].alert_id, "firing", group)
                for group in together(wanted, grouped=destination.known.grouped)
            ]
            requests = [
                _fields_of_request(request)
                for message in notifications
                for request in destination.destination.preview(message)
            ]
            previews.append({"destination": name, "kind": destination.known.settings.kind, "requests": requests})
    return previews


def _fields_of_request(request: Any) -> dict[str, Any]:
    return {"target": request.target, "headers": request.headers, "body": request.body}


async def answers_of_destinations(settings: Settings, names: Sequence[str], *, dry_run: bool) -> list[dict[str, Any]]:
    """Return the answer of each destination to a test notification, or the requests of a dry run."""
    # Imported late, because a help needs no HTTP client.
    from ragtide_consumers.notify.destinations.protocol import Refused, TryLater  # noqa: PLC0415
    from ragtide_consumers.notify.notification import Notification, sample_alert  # noqa: PLC0415
    from ragtide_consumers.notify.service import open_destinations  # noqa: PLC0415

    alert = sample_alert()
    notification = Notification(alert.alert_id, "test", (alert,), url=settings.notify.public_url)
    answers = []
    async with open_destinations(settings) as destinations:
        for name in names:
            destination = destinations[name].destination
            answer: dict[str, Any] = {"destination": name, "kind": destinations[name].known.settings.kind, "ok": True}
            answers.append(answer)
            if dry_run:
                answer["requests"] = [_fields_of_request(request) for request in destination.preview(notification)]
                continue
            try:
                answer["answer"] = await destination.deliver(notification) or "accepted"
            except (TryLater, Refused) as error:
                answer["ok"], answer["answer"] = False, str(error)
    return answers
