"""Reads the estimates of whole pipelines, and of segment values, several times a second, for screens that stay open."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import Estimate

from ..errors import TooManySegmentsError
from ..estimates.estimates import estimates, metric_means
from ..estimates.means import MetricMean
from ..estimates.view import IntervalMethod
from ..state.options import NO_WINDOWS, StateOptions
from ..state.state import AggregatorState
from ..statistics.tables.names import AUTO
from .field_names import FieldNames, Listing
from .selected_fields import FieldSelection
from .states import PartitionStates

SEGMENTS_MAX: Final = 16
"""Segment values that are read at the same time: each keeps the rows of its pipelines in memory."""
UNUSED_S: Final = 60.0
"""Seconds after its last read for which the rows of a segment value are kept if others need their place."""


class Overview:
    """The estimates of whole live pipelines over all time, without quantiles and design effects.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state that is only read.
        confidence: level of the intervals.
        split: whether pipelines are split over partitions, so that several states are merged into one.
        segment: segment value of which the estimates are; None for whole pipelines.
        names: lists the fields.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        confidence: float,
        split: bool,
        segment: str | None = None,
        names: FieldNames,
    ) -> None:
        of_segment = replace(options, panes=NO_WINDOWS, quantiles=False, history=None, dependence=False)
        self._states = PartitionStates(redis, of_segment, split=split, select=live_keys(segment), names=names)
        self._partitions = partitions
        self._method = IntervalMethod(AUTO, confidence)
        self._segment = segment

    async def read(self) -> list[Estimate]:
        """Return the estimates at the last commits.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        level = self._method.confidence
        return await self._states.compute(
            self._partitions, "estimates", lambda state: estimates(state, confidence=level, windows=False)
        )

    async def means(self) -> list[MetricMean]:
        """Return the means at the last commits: the same numbers in less time.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """

        def of_pipelines(state: AggregatorState, pipelines: Collection[str] | None) -> dict[str, list[MetricMean]]:
            by_pipeline: defaultdict[str, list[MetricMean]] = defaultdict(list)
            for mean in metric_means(state, self._method, self._segment, pipelines=pipelines):
                by_pipeline[mean.key.pipeline].append(mean)
            return by_pipeline

        return await self._states.compute_by_pipeline(self._partitions, of_pipelines)


@dataclass(slots=True)
class _SegmentReading:
    """The rows of a segment value, and when they were read last."""

    overview: Overview
    read_at: float


class SegmentMeans:
    """The means of segment values.

    Args:
        overview_of: makes the reader of a segment value.
        clock: monotonic seconds.
    """

    def __init__(self, overview_of: Callable[[str], Overview], clock: Callable[[], float] = time.monotonic) -> None:
        self._overview_of = overview_of
        self._clock = clock
        self._known: dict[str, _SegmentReading] = {}

    async def read(self, segment: str) -> list[MetricMean]:
        """Return the means of a segment value of all live pipelines at the last commits.

        Args:
            segment: segment value such as `lang=de`.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            TooManySegmentsError: `SEGMENTS_MAX` other values were read within the last minute.
        """
        now = self._clock()
        known = self._known.get(segment)
        if known is None:
            if len(self._known) >= SEGMENTS_MAX:
                oldest = min(self._known, key=lambda value: self._known[value].read_at)
                if now - self._known[oldest].read_at < UNUSED_S:
                    raise TooManySegmentsError(SEGMENTS_MAX)
                del self._known[oldest]
            known = self._known[segment] = _SegmentReading(self._overview_of(segment), now)
        known.read_at = now
        return await known.overview.means()


def live_keys(segment: str | None) -> FieldSelection:
    """Return the fields of a segment value of live pipelines; None for whole pipelines."""
    # A key is a JSON list that begins with pipeline, run and segment: in these fields the run is null.
    text = f",null,{json.dumps(segment, ensure_ascii=False)},"
    of_keys = (CheckpointField.ESTIMATE, CheckpointField.CLUSTERS, CheckpointField.PAIR)
    others = (CheckpointField.CLUSTER_SCOPE, CheckpointField.DECLARED)

    def is_wanted(kind: CheckpointField, name: str) -> bool:
        if text not in name:
            return False
        begin, end = f'{kind}["', name.find('"', len(kind) + 2)
        if name.startswith(begin) and name.find("\\", len(begin), end) < 0:  # the pipeline ends with this quote
            return name.startswith(text, end + 1)
        try:
            parts = json.loads(name.removeprefix(kind))
            _, run, value, *_ = parts[0] if kind == CheckpointField.PAIR else parts
        except ValueError:
            return True  # loading the field reports the damage
        return run is None and value == segment

    def choose(listing: Listing) -> Iterator[str]:
        for kind in of_keys:
            yield from (name for name in listing.of(kind) if is_wanted(kind, name))
        for kind in others:
            yield from listing.of(kind)

    return FieldSelection((*of_keys, *others), choose)
