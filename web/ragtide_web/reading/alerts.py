"""Alerts in words for the page: each with its acknowledgement, its silence and its address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from ragtide_aggregator.estimates.headline import is_narrow, is_of_mean
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.notify.silences import MutedAlerts, read_muted
from ragtide_schemas import Alert, Specimen, from_milliseconds, to_milliseconds, utc_now
from ragtide_schemas.alert_text import AlertText, CurrentLevel, WorstAnswer, alert_text, worst_answer

from ..guard.problems import HttpProblem
from ..guard.viewers import Viewer
from .context import Context

NOW: Final = (timedelta(minutes=15), timedelta(hours=1), timedelta(days=1))
"""Times over which a statistic is how it is now, the wanted one first."""

WIDEST: Final = 0.99
"""Width of an interval, as a share of the range, from which on it says nothing."""


def in_words(
    alert: Alert,
    muted: MutedAlerts,
    *,
    now: datetime,
    current: CurrentLevel | None = None,
    worst: Sequence[WorstAnswer] | None = None,
) -> AlertText:
    """Return an alert in words.

    Args:
        muted: silences and acknowledgements of the deployment.
        now: present time.
        current: how its statistic is now, if that is known.
        worst: its answers to read first; None takes those that it names, without questions.
    """
    return alert_text(
        alert,
        now=now,
        current=current,
        worst=worst,
        acknowledged=muted.acknowledged_by(alert.alert_id),
        silenced_until=muted.silenced_until(alert, now),
        link=f"/a/{quote(alert.alert_id)}",
    )


async def alert_texts(shared: Context, alerts: Sequence[Alert]) -> list[AlertText]:
    """Return alerts in words, in their order."""
    muted, now = await read_muted(shared.redis, shared.settings.prefix), utc_now()
    return [in_words(alert, muted, now=now) for alert in alerts]


async def visible_alerts(shared: Context, viewer: Viewer) -> list[Alert]:
    """Return the alerts that a viewer may see, in their latest state, the newest first."""
    return [alert for alert in reversed(await shared.deployment.alerts()) if viewer.may_use(alert.pipeline)]


async def visible_alert(shared: Context, viewer: Viewer, alert_id: str) -> Alert | None:
    """Return an alert that a viewer may see; None if there is none, and without an id."""
    if not alert_id:
        return None
    return next((alert for alert in await visible_alerts(shared, viewer) if alert.alert_id == alert_id), None)


async def find_alert(shared: Context, viewer: Viewer, alert_id: str) -> Alert:
    """Return an alert that a viewer may see.

    Raises:
        HttpProblem: 404, there is no such alert.
    """
    alert = await visible_alert(shared, viewer, alert_id)
    if alert is not None:
        return alert
    raise HttpProblem(404, f"there is no alert {alert_id[:200]!r}: it was resolved long ago, or its name is wrong")


@dataclass(frozen=True, slots=True)
class AlertWithItems:
    """One alert in words, and the answers that it names."""

    text: AlertText
    muted: MutedAlerts
    specimens: Mapping[str, Sequence[Specimen]]
    """Kept answers by id, the worst first; none of an answer that is no longer kept."""

    @property
    def not_kept(self) -> list[str]:
        """Ids of the answers that are no longer kept."""
        return [name for name, kept in self.specimens.items() if not kept and self.text.names_answers]


async def alert_with_items(shared: Context, alert: Alert, now: datetime, *, texts: bool) -> AlertWithItems:
    """Return one alert in words, and the answers that it names.

    Args:
        now: present time.
        texts: whether the words may quote questions.
    """
    muted = await read_muted(shared.redis, shared.settings.prefix)
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    specimens = {name: await kept.find(name, alert.pipeline) for name in alert.worst_interaction_ids}
    worst = [worst_answer(alert, name, next(iter(answers), None), texts=texts) for name, answers in specimens.items()]
    current = await current_level(shared, alert, now)
    return AlertWithItems(in_words(alert, muted, now=now, current=current, worst=worst), muted, specimens)


async def current_level(shared: Context, alert: Alert, now: datetime) -> CurrentLevel | None:
    """Return how the mean of an alert is now: over the last minutes, or longer if these have too few values.

    No time begins before the change of the alert, or before its end, if that is later, and no value from before it
    counts. None for another statistic, for an offline run, and without a history.
    """
    if alert.run is not None or not is_of_mean(alert) or not shared.settings.history.enabled:
        return None
    event = alert.resolved_at or alert.began_at or alert.fired_at
    level, start = None, event
    for length in NOW:
        start = max(event, now - length)
        history = await shared.deployment.level_since(alert, start)
        if history is not None:
            point, value_range = history.points[0], history.key.value_range
            level = CurrentLevel(point.start, point.n)
            if is_narrow(point, value_range, WIDEST):
                level = CurrentLevel(point.start, point.n, point.estimate, point.lower, point.upper)
            if is_narrow(point, value_range):
                break
        if start == event:
            break
    pane_ms = shared.deployment.shortest_pane_ms
    return level or CurrentLevel(from_milliseconds(-(-to_milliseconds(start) // pane_ms) * pane_ms))
