"""Alerts for a screen: their place in lists, their timeline, and their guarantee in words. No clock, no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import log10
from typing import Final, Literal

from ragtide_consumers.notify.silences import Acknowledgement, Silence
from ragtide_schemas import Alert
from ragtide_schemas.alert_evidence import EvidencePoint

from ...reading.bands import HEIGHT, WIDTH
from ...reading.list_pages import ListPage

PAGE: Final = 50
"""Alerts on one page of the list."""

SILENCES: Final = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7)}
"""Lengths of a silence that the screen offers."""

REPLAYS: Final = {f"{days}d": timedelta(days=days) for days in (30, 90, 7, 1)}
"""Lengths of a replay that the screen offers, the usual one first."""

LEAST_SIDES: Final = {
    timedelta(minutes=50): timedelta(minutes=2),
    timedelta(hours=47): timedelta(hours=1),
    timedelta.max: timedelta(hours=12),
}
"""By the most age of a change: least time that the chart shows before it, and after it as far as it is over. So it has
some points while the history has panes of seconds, then of minutes, and then of hours."""
LEAST_END: Final = timedelta(seconds=5)
"""Least time after the change."""
MOST_SIDE: Final = timedelta(days=7)
"""Most of this time."""


def alert_list(alerts: Sequence[Alert], *, state: str = "", page: int = 1) -> ListPage[Alert]:
    """Return a page of alerts, those that fire first, and then the newest first.

    Args:
        alerts: that the viewer may see, in their latest state.
        state: `firing` or `resolved`; all unless given.
        page: from 1; a page beyond the last is the last.
    """
    firing = [alert for alert in alerts if alert.status != "resolved"]
    resolved = [alert for alert in alerts if alert.status == "resolved"]
    chosen = {"firing": firing, "resolved": resolved}.get(state)
    wanted = [
        alert
        for part in ((firing, resolved) if chosen is None else (chosen,))
        for alert in sorted(part, key=lambda alert: alert.fired_at, reverse=True)
    ]
    return ListPage.of(wanted, page, PAGE)


Moment = Literal["began", "fired", "explained", "acknowledged", "silenced", "sent", "resolved"]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One moment in the life of an alert."""

    at: datetime
    kind: Moment
    by: str = ""
    """User or destination."""
    note: str = ""


def timeline(
    alert: Alert,
    *,
    acknowledged: Acknowledgement | None,
    silences: Sequence[Silence],
    sent: Mapping[str, datetime],
) -> list[TimelineEntry]:
    """Return the life of an alert in the order of time.

    Args:
        acknowledged: its acknowledgement.
        silences: that match it; those of the past are forgotten.
        sent: time of the last message by destination, as far as the outbox remembers.
    """
    own: tuple[tuple[Moment, datetime | None], ...] = (
        ("began", alert.began_at),
        ("fired", alert.fired_at),
        ("explained", alert.explained_at),
        ("resolved", alert.resolved_at),
    )
    entries = [TimelineEntry(at, kind) for kind, at in own if at is not None]
    if acknowledged is not None:
        entries.append(TimelineEntry(acknowledged.at, "acknowledged", acknowledged.by))
    entries += [TimelineEntry(silence.created_at, "silenced", silence.by, silence.reason) for silence in silences]
    entries += [TimelineEntry(at, "sent", name) for name, at in sent.items()]
    return sorted(entries, key=lambda entry: entry.at)


def chart_range(alert: Alert, now: datetime) -> tuple[datetime, datetime]:
    """Return the range of time that shows the change of an alert: as much before it as after it, and no future."""
    change = alert.began_at or alert.fired_at
    least = next(side for age, side in LEAST_SIDES.items() if now - change <= age)
    lasted = max(alert.resolved_at or now, alert.fired_at) - change
    side = min(max(lasted * 1.2, least), MOST_SIDE)
    end = max(change + side, alert.fired_at + side / 6)
    # Nothing is known after now, and an alert that has only just begun has a moment of its own.
    return change - side, max(min(end, now), change + LEAST_END)


@dataclass(frozen=True, slots=True)
class EvidenceChart:
    """Evidence over time, on a logarithmic scale, with the line at which the rule fires."""

    points: Sequence[EvidencePoint]
    start: datetime
    end: datetime

    @property
    def highest(self) -> float:
        """Decimal logarithm at the upper edge; the lower edge is 0, which is once in one value."""
        values = [value for point in self.points for value in (point.once_in, point.run_length) if value]
        return 1.1 * max((log10(max(value, 1.0)) for value in values), default=1.0) or 1.0

    def x(self, at: datetime) -> float:
        """Return the place of a time."""
        share = (at - self.start) / ((self.end - self.start) or timedelta(seconds=1))
        return round(WIDTH * min(max(share, 0.0), 1.0), 2)

    def y(self, value: float) -> float:
        """Return the place of a number of values."""
        return round(HEIGHT * (1 - log10(max(value, 1.0)) / self.highest), 2)

    def stretches(self) -> Iterator[list[EvidencePoint]]:
        """Yield the points without gaps: a rule that learns or fires has no evidence."""
        for known, points in groupby(self.points, key=lambda point: point.once_in is not None):
            if known:
                yield list(points)

    def line(self, stretch: Sequence[EvidencePoint]) -> str:
        """Return the evidence over a stretch, as points of a polyline."""
        return " ".join(f"{self.x(point.at)},{self.y(point.once_in)}" for point in stretch if point.once_in is not None)

    def limit(self, stretch: Sequence[EvidencePoint]) -> str:
        """Return the line at which the rule fires, as points of a polyline."""
        return " ".join(
            f"{self.x(point.at)},{self.y(point.run_length)}" for point in stretch if point.run_length is not None
        )
