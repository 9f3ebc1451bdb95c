"""Reads the traffic of now: the answers an hour of each pipeline, for prices and for how long a fall would last."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas.metric_definitions import PER_ANSWER, SENTINEL_PIPELINE

from ..estimates.means import MetricMean
from ..estimates.view import IntervalMethod
from ..events.keys import EstimateKey, PairKey
from ..statistics.tables.names import AUTO
from .history import HistoryReader

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


async def answers_an_hour(
    history: HistoryReader, partitions: Sequence[Streams], means: Sequence[MetricMean], now: datetime
) -> dict[str, float]:
    """Return the answers an hour of each live pipeline, 0 without an answer in a day; empty without a history.

    It is the count of the last 24 hours by 24. Of a pipeline whose traffic began within the last hour it is the count.

    Args:
        means: over all time, of all labelers.
        now: present time.

    Raises:
        DamagedFieldError: a pane of the history cannot be read.
    """
    if not history.shortest_pane_ms:
        return {}
    best: dict[str, tuple[tuple[bool, float, int], MetricMean]] = {}
    for mean in means:
        if mean.key.segment is None and not mean.is_powered and mean.key.pipeline != SENTINEL_PIPELINE:
            other, place = best.get(mean.key.pipeline), _place(mean)
            if other is None or place > other[0]:
                best[mean.key.pipeline] = place, mean
    counting = {pipeline: mean for pipeline, (_, mean) in best.items()}
    keys = {mean.key for mean in counting.values()}
    method = IntervalMethod(AUTO, 0.95)  # only counts are read

    async def counts(length: timedelta) -> dict[EstimateKey | PairKey, int]:
        points = await history.numbers(partitions, keys, now - length, now + DAY, method=method)
        return {key: point.n + point.n_absent for key, point in points.items()}

    day, hour = await asyncio.gather(counts(DAY), counts(HOUR))
    return {
        pipeline: float(hour[mean.key]) if day.get(mean.key, 0) == hour.get(mean.key, -1) else day.get(mean.key, 0) / 24
        for pipeline, mean in counting.items()
    }


def _place(mean: MetricMean) -> tuple[bool, float, int]:
    """Return how well a mean counts the answers of now: best a value of each, of the newest version of a labeler."""
    newest = 0.0 if mean.updated_at is None else mean.updated_at.timestamp()
    return mean.key.metric == PER_ANSWER, newest, mean.n + mean.n_absent
