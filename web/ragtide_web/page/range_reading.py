"""Reads the numbers of a range that a user chose from the history."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragtide_aggregator.estimates.over_time import History
from ragtide_aggregator.reading.deployment import Deployment

from .chosen_range import VALUES_MAX, ChosenRange, chosen_range
from .pipeline import SegmentRow
from .ranges import TimeSpan

AT_ONCE: Final = 8
"""Keys that are read at the same time."""


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
        return [one for histories in found for one in histories]

    whole = await read_all((None, metric) for metric in metrics)
    return chosen_range(whole, {name: await read_all(keys) for name, keys in wanted.items()}, metrics)
