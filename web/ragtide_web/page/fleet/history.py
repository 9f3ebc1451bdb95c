"""The history on the fleet: the last day in a small drawing, and the trend of each metric.

Viewers share what was read: drawings for a minute, trends for some minutes.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import structlog

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_runtime.processes.waiting import end as end_of_task
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_schemas.alert_rule import duration_ms

from ..bands import BandChart
from .screen import NARROW

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
POINTS: Final = 48
"""Points of a drawing."""
KEPT_S: Final = 60.0
"""Seconds for which a drawing is used again."""
DRAWINGS_MAX: Final = 200
"""Pipelines that get a drawing: each takes a read."""
DRAWINGS_AT_ONCE: Final = 8

CONFIDENCE: Final = 0.995
"""Level of each of the two intervals: without a change, an arrow at one time has a chance of at most 1%."""
LEAST: Final = 0.02
"""Least change of an arrow, as a share of the metric's range: as large as the `min_effect` of rules."""
TREND_KEPT_S: Final = 600.0
"""Seconds for which a trend is used again: a mean of a day changes slowly, and 400 trends take seconds to read."""
TRENDS_MAX: Final = 400
"""Cells that get a trend: each takes two reads."""
TRENDS_AT_ONCE: Final = 1
"""Trends that are read at the same time: live numbers must not wait for them."""
FIRST_WAIT_S: Final = 0.5
"""Most seconds for which a screen waits for trends; later ones come with its next update."""
TrendKey = tuple[str, str, str, str | None]
"""Pipeline, metric, labeler and segment."""
log = structlog.get_logger("ragtide.web")


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The last day of one metric of a pipeline."""

    metric: str
    chart: BandChart
    per_minute: float
    """Scored interactions a minute in the last hour."""


class Sparklines:
    """The drawings of all pipelines.

    Args:
        deployment: read model.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, clock: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._clock = clock
        self._known: dict[tuple[str, str, str | None], tuple[float, Sparkline | None]] = {}
        self._reading = asyncio.Lock()

    async def read(self, wanted: Iterable[tuple[str, str, str]], segment: str | None = None) -> dict[str, Sparkline]:
        """Return the drawings by pipeline; a pipeline without a history has none.

        Args:
            wanted: pipeline, metric and labeler of each drawing.
            segment: segment value of the drawings; None for whole pipelines.
        """
        chosen = list(wanted)[:DRAWINGS_MAX]
        limit = asyncio.Semaphore(DRAWINGS_AT_ONCE)
        async with self._reading:
            now = self._clock()
            keys = {(pipeline, metric, segment) for pipeline, metric, _ in chosen}
            self._known = {key: entry for key, entry in self._known.items() if entry[0] > now or key in keys}
            found = await asyncio.gather(*(self._one(*names, segment, limit) for names in chosen))
        return {pipeline: line for (pipeline, _, _), line in zip(chosen, found, strict=True) if line is not None}

    async def _one(
        self, pipeline: str, metric: str, labeler: str, segment: str | None, limit: asyncio.Semaphore
    ) -> Sparkline | None:
        known = self._known.get((pipeline, metric, segment))
        if known is not None and known[0] > self._clock():
            return known[1]
        end = utc_now()
        async with limit:
            try:
                histories = await self._deployment.history(
                    pipeline,
                    metric,
                    start=end - DAY,
                    end=end,
                    points_max=POINTS,
                    segment=segment,
                    labeler=labeler,
                )
            except DamagedFieldError:  # the screen of the pipeline reports it
                histories = []
        found = sparkline(metric, histories, end)
        self._known[pipeline, metric, segment] = self._clock() + KEPT_S, found
        return found


def sparkline(metric: str, histories: Sequence[History], end: datetime) -> Sparkline | None:
    """Return the drawing of the newest of some histories; None without a point.

    Args:
        metric: name.
        histories: of the last day, of one labeler in its versions.
        end: of the day.
    """
    found = max(
        (history for history in histories if history.points), key=lambda history: history.points[-1].start, default=None
    )
    if found is None:
        return None
    lowest, highest = found.key.value_range
    chart = BandChart(found.points, end - DAY, end, found.step, lowest, highest)
    late = [point for point in found.points if point.end > end - HOUR]
    minutes = (end - min((point.start for point in late), default=end - HOUR)) / timedelta(minutes=1)
    return Sparkline(metric, chart, sum(point.n for point in late) / max(minutes, 1.0))


class DayTrend(NamedTuple):
    """The last day of a metric against the day before."""

    word: str
    """`rising`, `falling` or `no clear change`."""
    before: HistoryPoint
    last: HistoryPoint


def trend_of(before: Sequence[History], last: Sequence[History]) -> DayTrend | None:
    """Return the trend between two days; None where there are too few values to decide.

    Labelers and their versions are never mixed: both days are of the same, with the most values in the last day.

    Args:
        before: histories of one point, of the day before.
        last: the same of the last day.
    """
    earlier = {history.key: history.points[0] for history in before if history.points}
    pairs = [
        (history.key, earlier[history.key], history.points[0])
        for history in last
        if history.points and history.key in earlier
    ]
    if not pairs:
        return None
    key, old, new = max(pairs, key=lambda pair: pair[2].n)
    if old.lower is None or old.upper is None or new.lower is None or new.upper is None:
        return None
    span = (key.value_range[1] - key.value_range[0]) or 1.0
    if abs(new.mean - old.mean) >= LEAST * span and (new.lower > old.upper or new.upper < old.lower):
        return DayTrend("rising" if new.mean > old.mean else "falling", old, new)
    if max(old.upper - old.lower, new.upper - new.lower) > NARROW * span:
        return None
    return DayTrend("no clear change", old, new)


@dataclass(frozen=True, slots=True)
class Days:
    """The last day and the day before, in whole coarse panes, so that no pane counts in both."""

    first: datetime
    middle: datetime
    last: datetime

    @classmethod
    def before(cls, now: datetime, coarse: timedelta) -> "Days":
        """Return the days before a time.

        Args:
            now: the end of the last day, rounded up to a coarse pane.
            coarse: length of a coarse pane.
        """
        epoch = datetime.fromtimestamp(0, now.tzinfo)
        last = epoch - (epoch - now) // coarse * coarse
        length = -(-DAY // coarse) * coarse
        return cls(last - 2 * length, last - length, last)


class Trends:
    """The trends of all cells, read by a task of their own.

    Args:
        deployment: read model.
        settings: of the deployment.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._coarse = timedelta(milliseconds=duration_ms(settings.history.coarse))
        self._enabled = settings.history.enabled
        self._clock = clock
        self._known: dict[TrendKey, tuple[float, DayTrend | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def read(self, wanted: Iterable[TrendKey]) -> dict[tuple[str, str], DayTrend]:
        """Return the known trends by pipeline and metric, and read those that are old.

        Args:
            wanted: cells.
        """
        if not self._enabled:
            return {}
        chosen = list(wanted)[:TRENDS_MAX]
        now = self._clock()
        due = [key for key in chosen if key not in self._known or self._known[key][0] <= now]
        if due and self._task is None:
            self._task = asyncio.create_task(self._run(due, set(chosen)))
        if self._task is not None and any(key not in self._known for key in due):
            await asyncio.wait((self._task,), timeout=FIRST_WAIT_S)
        known = ((key, self._known.get(key, (0.0, None))[1]) for key in chosen)
        return {(pipeline, metric): trend for (pipeline, metric, *_), trend in known if trend is not None}

    async def aclose(self) -> None:
        """Cancel a read that is under way."""
        if self._task is not None:
            await end_of_task(self._task)

    async def _run(self, due: Sequence[TrendKey], used: Collection[TrendKey]) -> None:
        limit = asyncio.Semaphore(TRENDS_AT_ONCE)
        now = self._clock()
        self._known = {key: entry for key, entry in self._known.items() if entry[0] > now or key in used}
        days = Days.before(utc_now(), self._coarse)
        try:
            await asyncio.gather(*(self._one(key, days, limit) for key in due))
        except Exception as error:  # noqa: BLE001 - a fleet without trends is better than no fleet
            log.warning("the trends of the fleet were not read", error=f"{type(error).__name__}: {error}")
        finally:
            self._task = None

    async def _one(self, wanted: TrendKey, days: Days, limit: asyncio.Semaphore) -> None:
        pipeline, metric, labeler, segment = wanted

        async def read(start: datetime, end: datetime) -> list[History]:
            return await self._deployment.history(
                pipeline,
                metric,
                start=start,
                end=end,
                points_max=1,
                segment=segment,
                labeler=labeler,
                confidence=CONFIDENCE,
            )

        async with limit:
            try:
                found = trend_of(await read(days.first, days.middle), await read(days.middle, days.last))
            except DamagedFieldError:  # the screen of the pipeline reports it
                found = None
        self._known[wanted] = self._clock() + TREND_KEPT_S, found
