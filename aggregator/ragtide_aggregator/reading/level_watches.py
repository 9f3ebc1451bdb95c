"""Reads what quiet detectors know about the levels of metrics: since when each is as it is, and how it moved."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import nan

import numpy as np
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..errors import reading
from ..estimates.assumptions import CERTAIN_SHARE
from ..events.keys import EstimateKey
from ..state.level_rows import WatchedLevel, read_levels
from ..state.measured_rows import SWING_CONFIDENCE
from ..state.options import LevelOptions, StateOptions
from ..statistics.drift.levels import HEAD, explained_by
from ..statistics.drift.seasons import SeasonTable
from ..statistics.means.dependence import DependenceTable
from .field_names import FieldNames
from .selected_fields import FieldSelection, SelectedFields, reporting


def _fields_of(key: EstimateKey) -> tuple[str, str, str]:
    scope = json.dumps((key.pipeline, key.run), ensure_ascii=False, separators=(",", ":"))
    name = key.encode()
    return CheckpointField.DEPENDENCE + name, CheckpointField.SEASON + name, CheckpointField.CLUSTER_SCOPE + scope


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
        self._redis, self._partitions = redis, partitions
        self._levels, self._measures = levels, options.clusters is not None
        kind = CheckpointField.LEVEL
        select = FieldSelection((kind,), lambda listing: listing.of_pipeline(kind, pipeline), HEAD, pipeline)
        self._fields = SelectedFields(redis, select, names)
        self._reading = asyncio.Lock()
        self._read: dict[Streams, dict[EstimateKey, WatchedLevel]] = {}

    async def read(self) -> list[WatchedLevel]:
        """Return the levels at the last commits; of the parts of a split pipeline, one for all.

        A move that the hour of the day or the dependence of neighbouring answers explains is withheld.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: what is measured of a metric that moved cannot be read.
        """
        if self._levels is None:
            return []
        async with self._reading:
            levels = await self._read_levels(self._levels.learn)
        keys = list(dict.fromkeys(level.key for level in levels if level.move is not None))
        measured: dict[EstimateKey, list[Sequence[bytes | None]]] = {key: [] for key in keys}
        if keys:
            async with self._redis.pipeline(transaction=False) as pipe:
                for streams in self._partitions:
                    pipe.hmget(streams.checkpoint, [field for key in keys for field in _fields_of(key)])
                for reply in await pipe.execute():
                    for place, key in enumerate(keys):
                        measured[key].append(reply[3 * place : 3 * place + 3])
        if keys:
            levels = [
                level._replace(since=None, move=None)
                if _is_explained(level, measured.get(level.key, ()), measures=self._measures)
                else level
                for level in levels
            ]
        return levels if len(self._partitions) == 1 else merged(levels)

    async def _read_levels(self, learn: int) -> list[WatchedLevel]:
        async with self._fields.changes(self._partitions) as changes:
            for streams, changed in changes.items():
                known = {} if changed.anew else self._read.get(streams, {})
                with reporting(streams):
                    self._read[streams] = known | await asyncio.to_thread(read_levels, learn, changed.values)
        return [level for streams in self._partitions for level in self._read.get(streams, {}).values()]


def _is_explained(level: WatchedLevel, parts: Sequence[Sequence[bytes | None]], *, measures: bool) -> bool:
    """Return whether the hour of the day or the dependence of neighbouring answers explains a move.

    Args:
        parts: values of the fields of `_fields_of` in each partition.
        measures: whether dependence is measured.
    """
    if level.move is None or level.change is None:
        return False
    blocks, part = DependenceTable(), DependenceTable()
    row, other = blocks.add_row(), part.add_row()
    swing_of_all = nan
    with reading(CheckpointField.DEPENDENCE + level.key.encode()):
        for dependence, season, _ in parts:
            if dependence is not None:
                part.load(other, dependence)
                blocks.merge(row, part, other)
            if season is not None:
                table = SeasonTable("day")
                table.load(table.add_row(), season)
                swing = table.swings(np.array([0]), direction=level.move.direction, confidence=SWING_CONFIDENCE)
                # Of a swing that luck may explain, nothing is left.
                if swing.share[0] > CERTAIN_SHARE:
                    swing_of_all = float(np.fmax(swing_of_all, swing.estimate[0]))
    # Values that count in clusters are independent of each other.
    in_clusters = any(scope is not None for *_, scope in parts)
    measured = blocks.read(np.array([row])) if measures and not in_clusters else None
    return explained_by(level.change, measured, swing_of_all) is not None


def merged(levels: Iterable[WatchedLevel]) -> list[WatchedLevel]:
    """Return one level for each key: of the parts of a split pipeline, the one whose move was found last.

    Without a move it is the part that was learned first, since when it was watched. Each part watches its own values.
    """
    by_key: defaultdict[EstimateKey, list[WatchedLevel]] = defaultdict(list)
    for level in levels:
        by_key[level.key].append(level)
    return [max(parts, key=_newness) for parts in by_key.values()]


def _newness(level: WatchedLevel) -> tuple[float, bool, float]:
    found_at = 0.0 if level.move is None else level.move.found_at.timestamp()
    return found_at, level.needed == 0, 0.0 if level.since is None else -level.since.timestamp()
