"""The difference of two pipelines split into mix and within, for every metric that both have."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ragtide_aggregator.estimates.segment_values import segment_names
from ragtide_aggregator.estimates.view import View, windows_of
from ragtide_aggregator.events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.causes.explained_change import ExplainedChange
from ragtide_aggregator.statistics.tables.names import ALL_TIME
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas.suggestions import unknown

from .explaining import NotExplainable, change_as_dict, explained_by
from .labelings import metric_fields
from .pipelines import PipelineSide, metric_order


@dataclass(frozen=True, slots=True)
class ExplainedDifference:
    """The difference of one metric of two pipelines, the first minus the second, explained by a segment.

    The second pipeline is the reference: `before` and its shares and means are the second pipeline's.
    """

    key: EstimateKey
    """What was measured, of the first pipeline."""
    segment: str
    """Name of the segment, such as `lang`."""
    change: ExplainedChange

    def as_dict(self) -> dict[str, Any]:
        """Return the difference as values that JSON can hold."""
        return {**metric_fields(self.key), "segment": self.segment, **change_as_dict(self.change)}


async def read_explained_differences(
    sides: tuple[PipelineSide, PipelineSide], by: str, *, window: str, confidence: float | None = None
) -> list[ExplainedDifference]:
    """Return the differences of two pipelines, explained by a segment, for metrics measured in the same way in both.

    Args:
        sides: the two pipelines.
        by: name of the segment.
        window: name of the window.
        confidence: level of the intervals; that of the settings unless given.

    Raises:
        NotExplainable: neither pipeline has the segment.
        CheckpointError: a checkpoint cannot be read.
    """
    level = sides[0].deployment.settings.confidence if confidence is None else confidence
    first, second = [
        _views(state, side, window) for side in sides for state in await side.deployment.states(side.pipeline)
    ]
    blocks = any(side.deployment.settings.clusters.by == BLOCKS for side in sides)
    known: set[str] = set()
    explained = []
    for measured, (view, whole) in first.items():
        if measured not in second:
            continue
        other_view, other_whole = second[measured]
        names = segment_names(view.state, whole), segment_names(other_view.state, other_whole)
        known |= {*names[0], *names[1]}
        values = sorted({*names[0].get(by, []), *names[1].get(by, [])})
        if not values:
            continue
        change = explained_by(values, by, (other_view, view), (other_whole, whole), confidence=level, blocks=blocks)
        if change is not None:
            explained.append(ExplainedDifference(whole, by, change))
    if not explained and known and by not in known:
        raise NotExplainable(unknown("segment", by, known))
    return sorted(explained, key=lambda difference: (*metric_order(difference.key), difference.key.profile))


def _views(state: AggregatorState, side: PipelineSide, window: str) -> dict[EstimateKey, tuple[View, EstimateKey]]:
    return {
        state.keys[row]._replace(pipeline="", run=None): (view, state.keys[row])
        for view, rows in _window_rows(state, side, window)
        for row in rows
    }


def _window_rows(state: AggregatorState, side: PipelineSide, window: str) -> Iterator[tuple[View, list[int]]]:
    run = workspace_of(side.deployment.settings.prefix)
    rows = [
        row
        for row, key in enumerate(state.keys)
        if key.pipeline == side.pipeline and key.run in (None, run) and key.segment is None
        if not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED
    ]
    if window == ALL_TIME:
        yield View(state), rows
    else:
        yield from ((view, members) for view, members in windows_of(state, rows) if view.name == window)
