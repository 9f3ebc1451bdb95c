"""The numbers of a range of time that a user chose: one number for each metric. No clock, no I/O."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ragtide_aggregator.estimates.means import MetricMean
from ragtide_aggregator.estimates.over_time import History, HistoryPoint
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_schemas import METRICS
from ragtide_schemas.fitness import certain_band

from ..fleet.screen import Cell, cell_of, importance
from .screen import SegmentRow, TimeSpan

VALUES_MAX: Final = 20
"""Values of a segment that get numbers of the range, those with the most values over all time: each takes a read for
each metric."""

AT_ONCE: Final = 8
"""Keys that are read at the same time."""


@dataclass(frozen=True, slots=True)
class RangeNumber:
    """The mean of a key over the panes of the history that hold a part of the range."""

    key: EstimateKey
    point: HistoryPoint
    cell: Cell | None
    """None for a metric without a highest value, such as seconds: it has no interval."""
    band: str


@dataclass(frozen=True, slots=True)
class ChosenRange:
    """The numbers of the range; what it does not hold has no number of this range."""

    whole: Mapping[EstimateKey, RangeNumber] = field(default_factory=dict)
    """Of the whole pipeline, the most important metric first."""
    segments: Mapping[str, Sequence[SegmentRow]] = field(default_factory=dict)
    """Rows by the name of each segment that the history keeps; none for a segment without a value in the range."""

    kept: frozenset[str] = frozenset()
    """Metrics of the whole pipeline that have a history; others have no number of the range."""

    @property
    def covers(self) -> tuple[datetime, datetime] | None:
        """The earliest start and the latest end of the panes in the numbers; None without a number."""
        points = [number.point for number in self.whole.values()]
        return (min(point.start for point in points), max(point.end for point in points)) if points else None


def range_number(history: History) -> RangeNumber | None:
    """Return the number of a history of one point; None without a value in the range.

    Args:
        history: of one point.
    """
    if not history.points:
        return None
    key, point = history.key, history.points[0]
    definition = METRICS.get(key.metric) if key.measure is None else None
    band = certain_band(definition, key.labeler, (point.lower, point.mean, point.upper)) or ""
    mean = MetricMean(
        key.pipeline,
        key.metric,
        key.labeler,
        point.n,
        point.mean,
        point.lower,
        point.upper,
        key.value_range,
        band,
        point.end,
    )
    return RangeNumber(key, point, cell_of(mean, (), {}), band)


def chosen_range(
    whole: Iterable[History], segments: Mapping[str, Iterable[History]], kept: Iterable[str]
) -> ChosenRange:
    """Return the numbers of a range.

    Args:
        whole: histories of one point, of the whole pipeline.
        segments: histories of one point by the name of each segment that the history keeps.
        kept: metrics of the whole pipeline that have a history.
    """
    numbers = [found for history in whole if (found := range_number(history)) is not None]
    numbers.sort(key=lambda number: (importance(number.key.metric), number.key.labeler, number.key.labeler_version))
    return ChosenRange(
        {number.key: number for number in numbers},
        {name: _rows(histories) for name, histories in segments.items()},
        frozenset(kept),
    )


def _rows(histories: Iterable[History]) -> list[SegmentRow]:
    by_value: defaultdict[str, dict[str, RangeNumber]] = defaultdict(dict)
    for history in histories:
        found = range_number(history)
        if found is None or found.cell is None or history.key.segment is None:
            continue
        known = by_value[history.key.segment].get(history.key.metric)
        # Labelers are never mixed: the cell has the labeler and version with the most values in the range.
        if known is None or found.point.n > known.point.n:
            by_value[history.key.segment][history.key.metric] = found
    rows = [
        SegmentRow(
            value,
            max(number.point.n for number in of.values()),
            {name: number.cell for name, number in of.items() if number.cell is not None},
        )
        for value, of in by_value.items()
    ]
    return sorted(rows, key=lambda row: (-row.n, row.value))


async def read_range(
    deployment: Deployment,
    pipeline: str,
    span: TimeSpan,
    *,
    segments: Mapping[str, Sequence[SegmentRow]],
    columns: Iterable[str],
) -> ChosenRange:
    """Return the numbers of a pipeline in a range.

    Args:
        deployment: read model.
        pipeline: name.
        span: the range.
        segments: rows of all time by the name of their segment, those with the most values first.
        columns: metrics of the rows.

    Raises:
        DamagedFieldError: a pane or a key cannot be read.
    """
    series = await deployment.series(pipeline)
    shown = set(columns)
    metrics = sorted({key.metric for key in series if key.segment is None})
    kept: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for key in series:
        if key.segment is not None:
            kept[key.segment.partition("=")[0]].add((key.segment, key.metric))
    wanted = {
        name: [
            (row.value, metric)
            for row in segments.get(name, ())[:VALUES_MAX]
            for metric in sorted(shown)
            if (row.value, metric) in known
        ]
        for name, known in kept.items()
    }
    limit = asyncio.Semaphore(AT_ONCE)

    async def read(metric: str, segment: str | None = None) -> list[History]:
        async with limit:
            return await deployment.history(
                pipeline, metric, start=span.start, end=span.end, segment=segment, points_max=1
            )

    async def read_all(keys: Iterable[tuple[str | None, str]]) -> list[History]:
        found = await asyncio.gather(*(read(metric, segment) for segment, metric in keys))
        return [history for histories in found for history in histories]

    whole = await read_all((None, metric) for metric in metrics)
    return chosen_range(whole, {name: await read_all(keys) for name, keys in wanted.items()}, metrics)
