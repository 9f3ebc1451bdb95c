"""Reads what quiet detectors know about the levels of metrics: since when each is as it is, and how it moved."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import LevelWatch

from ..state.options import NO_WINDOWS, LevelOptions, StateOptions
from .field_names import FieldNames
from .states import FieldSelection, PartitionStates


class LevelWatches:
    """The levels of a deployment.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state that is read.
        levels: how levels are watched; None if they are not.
        names: lists the fields.
        pipeline: only the levels of this pipeline; all unless given.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        levels: LevelOptions | None,
        *,
        names: FieldNames,
        pipeline: str | None = None,
    ) -> None:
        self._partitions = partitions
        self._watched = levels is not None
        only = replace(
            options, panes=NO_WINDOWS, quantiles=False, history=None, caps=None, clusters=None, levels=levels
        )
        kind = CheckpointField.LEVEL
        select = FieldSelection((kind,), lambda listing: listing.of_pipeline(kind, pipeline))
        self._states = PartitionStates(redis, only, split=False, select=select, names=names)

    async def read(self) -> list[LevelWatch]:
        """Return the levels at the last commits; of the parts of a split pipeline, one for all.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        if not self._watched:
            return []
        return merged(await self._states.compute(self._partitions, "levels", lambda state: state.level_watches()))


def merged(watches: Iterable[LevelWatch]) -> list[LevelWatch]:
    """Return one level for each metric and labeler: of several parts, the one whose move was found last.

    Without a move it is the part that was learned first, since when it was watched. Each part watches its own values.
    """
    by_cell: defaultdict[tuple[str | None, ...], list[LevelWatch]] = defaultdict(list)
    for watch in watches:
        cell = watch.pipeline, watch.metric, watch.metric_version, watch.profile, watch.labeler, watch.labeler_version
        by_cell[cell].append(watch)
    return [max(parts, key=_newness) for parts in by_cell.values()]


def _newness(watch: LevelWatch) -> tuple[float, bool, float]:
    found = 0.0 if watch.move is None else watch.move.found_at.timestamp()
    return found, watch.needed == 0, 0.0 if watch.since is None else -watch.since.timestamp()
