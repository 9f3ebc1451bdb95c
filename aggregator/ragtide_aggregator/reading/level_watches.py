"""Reads what quiet detectors know about the levels of metrics: since when each is as it is, and how it moved."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import NamedTuple, Self

import numpy as np
from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import LevelWatch

from ..errors import reading
from ..estimates.assumptions import CERTAIN_SHARE
from ..events.keys import EstimateKey
from ..state.level_rows import FoundLevel
from ..state.measured_rows import SWING_CONFIDENCE
from ..state.options import NO_WINDOWS, LevelOptions, StateOptions
from ..statistics.drift.drift import Direction
from ..statistics.drift.levels import DIRECTIONS, explained_by
from ..statistics.drift.seasons import SeasonTable
from ..statistics.means.dependence import Dependence, DependenceTable
from .field_names import FieldNames
from .states import FieldSelection, PartitionStates


def _fields_of(key: EstimateKey) -> tuple[str, str, str]:
    scope = json.dumps((key.pipeline, key.run), ensure_ascii=False, separators=(",", ":"))
    name = key.encode()
    return CheckpointField.DEPENDENCE + name, CheckpointField.SEASON + name, CheckpointField.CLUSTER_SCOPE + scope


class _LevelMeasures(NamedTuple):
    """What else may explain a move of a metric."""

    dependence: Dependence | None
    """None where values count in clusters, or dependence is not measured."""
    swings: Mapping[Direction, float]
    """How far the mean moves with the hour of the day, scaled to [0, 1]; nan where that is not known."""

    @classmethod
    def read(cls, key: EstimateKey, parts: Sequence[Sequence[bytes | None]], *, measures: bool) -> Self:
        """Return it from the fields of `_fields_of` in each partition."""
        blocks, part = DependenceTable(), DependenceTable()
        row, other = blocks.add_row(), part.add_row()
        swings: dict[Direction, float] = dict.fromkeys(DIRECTIONS, nan)
        with reading(CheckpointField.DEPENDENCE + key.encode()):
            for dependence, season, _ in parts:
                if dependence is not None:
                    part.load(other, dependence)
                    blocks.merge(row, part, other)
                if season is not None:
                    table = SeasonTable("day")
                    table.load(table.add_row(), season)
                    for way in DIRECTIONS:
                        swing = table.swings(np.array([0]), direction=way, confidence=SWING_CONFIDENCE)
                        # Of a swing that luck may explain, nothing is left.
                        sure = float(swing.estimate[0]) if swing.share[0] > CERTAIN_SHARE else nan
                        swings[way] = float(np.fmax(swings[way], sure))
        counts_in_clusters = any(scope is not None for *_, scope in parts)
        return cls(blocks.read(np.array([row])) if measures and not counts_in_clusters else None, swings)


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
        self._watched, self._measures = levels is not None, options.clusters is not None
        only = replace(
            options, panes=NO_WINDOWS, quantiles=False, history=None, caps=None, clusters=None, levels=levels
        )
        kind = CheckpointField.LEVEL
        select = FieldSelection((kind,), lambda listing: listing.of_pipeline(kind, pipeline))
        self._states = PartitionStates(redis, only, split=False, select=select, names=names)

    async def read(self) -> list[LevelWatch]:
        """Return the levels at the last commits; of the parts of a split pipeline, one for all.

        A move that the hour of the day or the dependence of neighbouring answers explains is withheld.

        Raises:
            CheckpointError: a checkpoint cannot be read.
            DamagedFieldError: what is measured of a metric that moved cannot be read.
        """
        if not self._watched:
            return []
        found = await self._states.compute(self._partitions, "levels", lambda state: state.found_levels())
        measured = await self._measured([level for level in found if level.change is not None])
        return merged(_watch(level, measured.get(level.key)) for level in found)

    async def _measured(self, moved: Sequence[FoundLevel]) -> dict[EstimateKey, _LevelMeasures]:
        keys = list(dict.fromkeys(level.key for level in moved))
        if not keys:
            return {}
        fields = [field for key in keys for field in _fields_of(key)]
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in self._partitions:
                pipe.hmget(streams.checkpoint, fields)
            replies = await pipe.execute()
        return {
            key: _LevelMeasures.read(
                key, [reply[3 * place : 3 * place + 3] for reply in replies], measures=self._measures
            )
            for place, key in enumerate(keys)
        }


def _watch(level: FoundLevel, measured: _LevelMeasures | None) -> LevelWatch:
    watch = level.watch
    if level.change is None or watch.move is None or measured is None:
        return watch
    explained = explained_by(level.change, measured.dependence, measured.swings[watch.move.direction])
    return watch if explained is None else watch.model_copy(update={"move": None, "since": None, "withheld": explained})


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
