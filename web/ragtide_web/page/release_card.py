"""A release on the page: its verdict, both versions over time, and each metric. No clock, no I/O."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ragtide_aggregator.estimates.over_time import HistoryPoint
from ragtide_schemas import METRICS, Alert
from ragtide_schemas.headline import MeanOfAll
from ragtide_schemas.release import MetricVerdict, Release, ReleasePoint
from ragtide_schemas.release_text import (
    VERDICTS,
    answers_sentence,
    budget_sentence,
    deciding,
    end_sentence,
    to_go_words,
    would_see_words,
)

from ..reading.bands import BandChart, Mark

SHOWN_FOR: Final = timedelta(days=1)
"""Time for which the last ended release has a card."""
ROOM: Final = 0.6
"""Room of a chart above and below the newest intervals, as a share of their height: earlier ones are cut."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of a release."""

    of: MetricVerdict
    verdict: str
    """The verdict in words."""
    to_go: str
    """Answers until a verdict; empty if that is not known, or reached."""
    would_see: str
    """What would be found in the next hour; empty likewise."""


@dataclass(frozen=True, slots=True)
class ReleaseCard:
    """One release."""

    release: Release
    metric: MetricVerdict | None
    """The metric that decides, which the chart shows; None without metrics."""
    chart: BandChart | None
    """Both versions over time; None without points."""

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.release.verdict]

    @property
    def rows(self) -> Sequence[MetricRow]:
        """The metrics, the worst verdict first."""
        return [
            MetricRow(metric, VERDICTS[metric.verdict], to_go_words(metric), would_see_words(metric))
            for metric in self.release.metrics
        ]

    @property
    def answers(self) -> str:
        """How many answers both versions gave, and the share of the new one."""
        return answers_sentence(self.release)

    @property
    def budget(self) -> str:
        """What is promised about false verdicts."""
        return budget_sentence(self.release)

    @property
    def end(self) -> str | None:
        """When and why it ended; None while it is open."""
        return end_sentence(self.release)


def release_card(release: Release) -> ReleaseCard:
    """Return a release as a card shows it."""
    metric = deciding(release)
    return ReleaseCard(release, metric, None if metric is None else _chart(release, metric))


def release_cards(releases: Iterable[Release], now: datetime) -> list[ReleaseCard]:
    """Return the open releases and the last one that ended within a day, in their order.

    Args:
        releases: of a pipeline, the newest first.
        now: present time.
    """
    listed = [*releases]
    ended = [release for release in listed if release.ended_at is not None and now - release.ended_at < SHOWN_FOR]
    last = max(ended, key=lambda release: release.ended_at or now, default=None)
    return [release_card(release) for release in listed if release.is_open or release is last]


def release_marks(releases: Iterable[Release], deploys: Iterable[Mark], start: datetime, end: datetime) -> list[Mark]:
    """Return marks of releases within a range: that one opened, was decided, and ended.

    Args:
        releases: of a pipeline.
        deploys: first values of versions, which stand for the opening of their release.
        start: of the range.
        end: of the range, exclusive.
    """
    versions = {mark.text for mark in deploys}
    marks = []
    for release in releases:
        names = f"{release.to_version} beside {release.from_version}"
        if release.to_version not in versions:
            marks.append(("opened", release.opened_at, names))
        marks.append((release.verdict, release.decided_at, names))
        marks.append(("ended", release.ended_at, names))
    return [Mark(at, kind, text) for kind, at, text in marks if at is not None and start < at < end]


def released_pipelines(alerts: Iterable[Alert]) -> dict[str, Release]:
    """Return the release of each pipeline that an alert reports as open or as worse, the worse first."""
    firing = [alert for alert in alerts if alert.release is not None and alert.status != "resolved"]
    ordered = sorted(firing, key=lambda alert: (alert.is_news, -alert.fired_at.timestamp()))
    return {alert.pipeline: alert.release for alert in reversed(ordered) if alert.release is not None}


def _chart(release: Release, metric: MetricVerdict) -> BandChart | None:
    points = metric.points
    if not points:
        return None
    end = max(release.ended_at or points[-1].at, points[-1].at)
    after, before = (_line(points, end, mean) for mean in (lambda point: point.after, lambda point: point.before))
    if not after:
        return None
    definition = METRICS.get(metric.metric)
    shown = [*after[len(after) // 2 :], *before[len(before) // 2 :]]
    ends = [value for line in (after[-1:], before[-1:]) for point in line for value in (point.lower, point.upper)]
    values = [value for value in (*(point.estimate for point in shown), *ends) if value is not None]
    room = ROOM * ((max(values) - min(values)) or 1.0)
    low, high = min(values) - room, max(values) + room
    if definition is not None:
        low, high = max(low, definition.lower), min(high, definition.upper)
    start = min(release.opened_at or points[0].at, points[0].at)
    return BandChart(after, start, end, low, high, beside=before, within=(low, high))


def _line(
    points: Sequence[ReleasePoint], end: datetime, mean_of: Callable[[ReleasePoint], MeanOfAll]
) -> list[HistoryPoint]:
    """Return means as a chart draws them: each holds until the next."""
    ends = [*(point.at for point in points[1:]), end]
    line = []
    for point, until in zip(points, ends, strict=True):
        mean = mean_of(point)
        if mean.estimate is not None:
            line.append(HistoryPoint(mean.estimate, mean.lower, mean.upper, point.at, until, mean.n, open=False))
    return line
