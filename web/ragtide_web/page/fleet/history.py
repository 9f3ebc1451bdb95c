"""The history on the fleet: the last day in a small drawing. Viewers share a drawing for a minute."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_schemas import utc_now

from ..bands import LEAST_N, BandChart, chart_start

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
POINTS: Final = 48
"""Points of a drawing."""
KEPT_S: Final = 60.0
"""Most seconds for which a drawing is used again: a drawing of less than an hour, for one of its points."""
DRAWINGS_MAX: Final = 200
"""Pipelines that get a drawing: each takes a read."""
DRAWINGS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The last day of one metric of a pipeline."""

    metric: str
    chart: BandChart
    recent_n: int
    """Scored interactions in the points that reach into the last hour."""
    recent_s: float
    """Seconds from the start of the first of these points until now; those of an hour without one."""


class Sparklines:
    """The drawings of all pipelines.

    Args:
        deployment: read model.
        clock: monotonic seconds.
    """

    def __init__(self, deployment: Deployment, clock: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._clock = clock
        self._known: dict[tuple[str, str, str, str | None], tuple[float, Sparkline | None]] = {}
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
            keys = {(*names, segment) for names in chosen}
            self._known = {key: entry for key, entry in self._known.items() if entry[0] > now or key in keys}
            found = await asyncio.gather(*(self._one(*names, segment, limit) for names in chosen))
        return {pipeline: line for (pipeline, _, _), line in zip(chosen, found, strict=True) if line is not None}

    async def _one(
        self, pipeline: str, metric: str, labeler: str, segment: str | None, limit: asyncio.Semaphore
    ) -> Sparkline | None:
        known = self._known.get((pipeline, metric, labeler, segment))
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
                    least_n=LEAST_N,
                    segment=segment,
                    labeler=labeler,
                )
            except DamagedFieldError:  # the screen of the pipeline reports it
                histories = []
        found = sparkline(metric, histories, end)
        shown = DAY if found is None else found.chart.end - found.chart.start
        self._known[pipeline, metric, labeler, segment] = self._clock() + min(shown / POINTS / SECOND, KEPT_S), found
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
    chart = BandChart(found.points, chart_start(found, end - DAY), end, lowest, highest)
    late = [point for point in found.points if point.end > end - HOUR]
    start = min((point.start for point in late), default=end - HOUR)
    return Sparkline(metric, chart, sum(point.n for point in late), (end - start) / SECOND)
