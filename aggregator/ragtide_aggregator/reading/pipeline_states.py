"""Reads the states of single pipelines: only their fields, however many other pipelines there are."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..state.options import LevelOptions, StateOptions
from .field_names import FieldNames, Listing
from .level_watches import LevelWatches
from .selected_fields import FieldSelection
from .states import PartitionStates
from .suspicions import Suspicions

PIPELINES_KEPT: Final = 32
"""Pipelines whose states a process keeps, those read last."""

_LISTED: Final = (
    CheckpointField.ESTIMATE, CheckpointField.PAIR, CheckpointField.PANE, CheckpointField.CLUSTER_SCOPE,
    CheckpointField.OPEN_CLUSTER, CheckpointField.DECLARED, CheckpointField.HISTORY_SERIES, CheckpointField.HISTORY,
)  # fmt: skip
"""Kinds of fields whose names are listed; the names of the others follow from the keys of the estimates."""

_OF_KEYS: Final = (CheckpointField.QUANTILES, CheckpointField.DEPENDENCE, CheckpointField.CLUSTERS)


def fields_of_pipeline(pipeline: str, pane_ms: int) -> FieldSelection:
    """Return the fields of a pipeline, of all its runs and segment values, that a reader without rules reads.

    Args:
        pipeline: its name.
        pane_ms: length of the panes of windows.
    """

    def choose(listing: Listing) -> Iterator[str]:
        for kind in _LISTED:
            yield from listing.of_pipeline(kind, pipeline)
        for name in listing.of_pipeline(CheckpointField.ESTIMATE, pipeline):
            key = name.removeprefix(CheckpointField.ESTIMATE)
            yield from (kind + key for kind in _OF_KEYS)
            yield f"{CheckpointField.PROCESSED}{pane_ms}:{key}"

    return FieldSelection(_LISTED, choose, pipeline=pipeline)


@dataclass(frozen=True, slots=True)
class PipelineReading:
    """The readers of one pipeline."""

    states: PartitionStates
    suspicions: Suspicions
    levels: LevelWatches


class PipelineStates:
    """The readers of single pipelines, those that were read last.

    Args:
        redis: client.
        options: of states that are read.
        levels: how levels are watched; None if they are not.
        names: lists the fields.
    """

    def __init__(self, redis: Redis, options: StateOptions, levels: LevelOptions | None, names: FieldNames) -> None:
        self._redis = redis
        self._options = options
        self._levels = levels
        self._names = names
        self._known: OrderedDict[str, PipelineReading] = OrderedDict()

    def take_rules(self) -> None:
        """Forget the readers: the alert rules changed."""
        self._known.clear()

    def of(self, pipeline: str, partitions: Sequence[Streams], rules: StateOptions) -> PipelineReading:
        """Return the readers of a pipeline.

        Args:
            pipeline: its name.
            partitions: that hold it.
            rules: options with the alert rules.
        """
        known = self._known.pop(pipeline, None)
        if known is None:
            redis, names = self._redis, self._names
            select = fields_of_pipeline(pipeline, self._options.panes.pane_ms)
            known = PipelineReading(
                PartitionStates(redis, replace(self._options), split=len(partitions) > 1, select=select, names=names),
                Suspicions(redis, partitions, rules, names=names, pipeline=pipeline),
                LevelWatches(redis, partitions, self._options, self._levels, names=names, pipeline=pipeline),
            )
        self._known[pipeline] = known
        while len(self._known) > PIPELINES_KEPT:
            self._known.popitem(last=False)
        return known
