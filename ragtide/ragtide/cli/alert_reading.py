"""Reads what is known about alerts besides their records: acknowledgements, silences, and answers that they name."""

from collections.abc import Sequence
from typing import Any

from redis import RedisError
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.notify.silences import MutedAlerts, read_muted
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, utc_now
from ragtide_schemas.alert_text import MOST_WORST, AlertText, WorstAnswer, alert_text, worst_answer


async def texts_of_alerts(redis: Redis, settings: Settings, alerts: Sequence[Alert]) -> list[AlertText]:
    """Return alerts in words, with the questions of the answers that a firing alert names.

    Raises:
        redis.RedisError: Redis failed.
    """
    muted, kept = await read_muted(redis, settings.prefix), KeptSpecimens(redis, settings.layout)
    found = []
    for alert in alerts:
        worst = []
        for interaction_id in alert.worst_interaction_ids[:MOST_WORST] if alert.status != "resolved" else ():
            specimens = await kept.find(interaction_id, alert.pipeline)
            worst.append(worst_answer(alert, interaction_id, specimens[0] if specimens else None, texts=True))
        found.append(text_of_alert(alert, muted, worst))
    return found


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
        alert: in its latest state.
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
