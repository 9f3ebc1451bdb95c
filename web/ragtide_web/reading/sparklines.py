"""The history on the fleet: the last day in a small drawing. Viewers share a drawing for a minute."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.reading.deployment import Deployment, HistoryName
from ragtide_schemas import utc_now

from .bands import LEAST_N, BandChart, chart_start

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
POINTS: Final = 48
"""Points of a drawing."""
KEPT_S: Final = 60.0
"""Most seconds for which a drawing is used again: a drawing of less than an hour, for one of its points."""


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

        Those that are not known yet are read together.

        Args:
            wanted: pipeline, metric and labeler of each drawing that is in view.
            segment: segment value of the drawings; None for whole pipelines.
        """
        chosen = [HistoryName(*names) for names in wanted]
        async with self._reading:
            now = self._clock()
            keys = {(*names, segment) for names in chosen}
            self._known = {key: entry for key, entry in self._known.items() if entry[0] > now or key in keys}
            due = [
                names
                for names in chosen
                if (*names, segment) not in self._known or self._known[*names, segment][0] <= now
            ]
            if due:
                await self._read(due, segment)
        lines = ((names.pipeline, self._known[*names, segment][1]) for names in chosen)
        return {pipeline: line for pipeline, line in lines if line is not None}

    async def _read(self, due: Sequence[HistoryName], segment: str | None) -> None:
        end = utc_now()
        try:
            histories = await self._deployment.histories(
                due, start=end - DAY, end=end, points_max=POINTS, least_n=LEAST_N, segment=segment
            )
        except DamagedFieldError:  # the screen of the pipeline reports it
            histories = {}
        for names in due:
            line = sparkline(names.metric, histories.get(names, ()), end)
            length = DAY if line is None else line.chart.end - line.chart.start
            self._known[*names, segment] = self._clock() + min(length / POINTS / SECOND, KEPT_S), line


def sparkline(metric: str, histories: Sequence[History], end: datetime) -> Sparkline | None:
    """Return the drawing of the newest of some histories; None without a point.

    Args:
        metric: name.
        histories: of the last day, of one labeler in its versions.
    """
    newest = max(
        (history for history in histories if history.points), key=lambda history: history.points[-1].start, default=None
    )
    if newest is None:
        return None
    lowest, highest = newest.key.value_range
    chart = BandChart(newest.points, chart_start(newest, end - DAY), end, lowest, highest)
    late = [point for point in newest.points if point.end > end - HOUR]
    start = min((point.start for point in late), default=end - HOUR)
    return Sparkline(metric, chart, sum(point.n for point in late), (end - start) / SECOND)
