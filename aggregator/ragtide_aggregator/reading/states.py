"""Loads the states of a deployment's partitions from their checkpoints, again only after a commit.

A reader selects the fields that it needs. It loads only those that changed since its last read, and decodes them in a
thread, so a read costs the same however many other keys there are.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams

from ..checkpoint.change_log import Revision
from ..checkpoint.loading import load_checkpoint
from ..state.state import AggregatorState, StateOptions
from .checkpoint_heads import REVISION
from .field_names import FieldNames
from .selected_fields import FieldSelection, SelectedFields, reporting

COMPUTED_MAX: Final = 8
"""Lists of values that are kept, such as the estimates at several levels of confidence."""

T = TypeVar("T")


@dataclass(slots=True)
class _Loaded:
    """The loaded state of a partition."""

    state: AggregatorState
    load: int
    """Number of the load that brought the state."""
    revision: Revision = ()
    """Of a state with all fields."""
    changed: set[str] | None = None
    """Pipelines that changed since values were last computed by pipeline; None for all."""


class _OfPipelines(NamedTuple):
    """Values that were computed by pipeline."""

    loads: Sequence[int]
    by_state: Mapping[int, Mapping[str, list[Any]]]
    """By place of the state, and by pipeline."""
    values: list[Any]


def _in_order(by_pipeline: Mapping[str, list[T]]) -> Iterator[T]:
    for name in sorted(by_pipeline):
        yield from by_pipeline[name]


class PartitionStates:
    """The state of every partition at its newest checkpoint, or the selected part of it.

    With a selection of a large checkpoint, a new field may be there some seconds after its commit (`FieldNames`).

    Args:
        redis: client.
        split: whether pipelines are split over partitions, so that several states are merged into one.
        select: fields to read; None for all.
        names: lists the fields of all selections; needed with a selection.
    """

    def __init__(
        self,
        redis: Redis,
        options: StateOptions,
        *,
        split: bool,
        select: FieldSelection | None = None,
        names: FieldNames | None = None,
    ) -> None:
        self._redis = redis
        self._options = options
        self._split = split
        self._fields = None if select is None else SelectedFields(redis, select, names or FieldNames(redis))
        self._reading = asyncio.Lock()
        self._loads = 0
        self._loaded: dict[Streams, _Loaded] = {}
        self._merged: dict[tuple[Streams, ...], tuple[list[int], AggregatorState]] = {}
        self._computed: dict[Hashable, tuple[list[int], list[Any]]] = {}
        self._of_pipelines: _OfPipelines | None = None

    async def read(self, partitions: Sequence[Streams]) -> list[AggregatorState]:
        """Return the states of partitions; one merged state if pipelines are split.

        Without a commit since the last call, the call takes one round trip, whatever the number of partitions. The
        states belong to the reader and change with its next read.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            return (await self._read(partitions))[1]

    async def compute(
        self, partitions: Sequence[Streams], name: Hashable, of_state: Callable[[AggregatorState], list[T]]
    ) -> list[T]:
        """Return the values that a function returns for the states, computed in a thread, again only after a commit.

        Args:
            partitions: the partitions.
            name: of the values; values of another name are kept beside them.
            of_state: function of a state.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            loads, states = await self._read(partitions)
            known = self._computed.pop(name, None)
            if known is None or known[0] != loads:
                known = loads, await asyncio.to_thread(lambda: [value for state in states for value in of_state(state)])
            self._computed[name] = known
            if len(self._computed) > COMPUTED_MAX:
                del self._computed[next(iter(self._computed))]
            return known[1]

    async def compute_by_pipeline(
        self,
        partitions: Sequence[Streams],
        of_pipelines: Callable[[AggregatorState, Collection[str] | None], Mapping[str, list[T]]],
    ) -> list[T]:
        """Return what a function returns by pipeline, in the order of their names; computed for those that changed.

        A reader calls it with one function only. Split pipelines are computed all.

        Args:
            partitions: the partitions.
            of_pipelines: function of a state and of names of pipelines, None for all.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            loads, states = await self._read(partitions)
            if self._of_pipelines is not None and self._of_pipelines.loads == loads:
                return self._of_pipelines.values
            by_state = {} if self._of_pipelines is None else dict(self._of_pipelines.by_state)
            merged = len(states) < len(partitions)
            for place, (streams, state) in enumerate(zip(partitions, states, strict=False)):
                changed = None if merged else self._loaded[streams].changed
                if changed is None:
                    by_state[place] = await asyncio.to_thread(of_pipelines, state, None)
                elif changed:
                    new = await asyncio.to_thread(of_pipelines, state, changed)
                    kept = {name: values for name, values in by_state[place].items() if name not in changed}
                    by_state[place] = {**kept, **new}
            all_values = [value for _, of_state in sorted(by_state.items()) for value in _in_order(of_state)]
            for streams in partitions:
                self._loaded[streams].changed = set()
            self._of_pipelines = _OfPipelines(loads, by_state, all_values)
            return all_values

    async def _read(self, partitions: Sequence[Streams]) -> tuple[list[int], list[AggregatorState]]:
        await self._load_changed(partitions)
        loaded = [self._loaded[streams] for streams in partitions]
        loads, states = [part.load for part in loaded], [part.state for part in loaded]
        if not self._split or len(states) < 2:
            return loads, states
        known = self._merged.get(tuple(partitions))
        if known is None or known[0] != loads:
            known = loads, await asyncio.to_thread(AggregatorState.merged, states, self._options)
            self._merged[tuple(partitions)] = known
        return loads, [known[1]]

    async def _load_changed(self, partitions: Sequence[Streams]) -> None:
        if self._fields is None:
            await self._load_whole(partitions)
            return
        async with self._fields.changes(partitions) as changes:
            for streams, changed in changes.items():
                # Until it has all values, no other read uses the state.
                known = self._loaded.pop(streams, None)
                whole = known is None or changed.anew
                if known is None or whole:
                    known = _Loaded(AggregatorState(self._options), 0)
                values = changed.everything if whole else changed.values
                with reporting(streams):
                    await asyncio.to_thread(known.state.set_fields, values)
                known.changed = None if whole or known.changed is None else known.changed | changed.pipelines()
                self._count(streams, known)

    async def _load_whole(self, partitions: Sequence[Streams]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.hmget(streams.checkpoint, *REVISION)
            revisions = cast("list[list[bytes | None]]", await pipe.execute())
        changed = [
            streams
            for streams, revision in zip(partitions, revisions, strict=True)
            if streams not in self._loaded or self._loaded[streams].revision != tuple(revision)
        ]
        for streams in changed:
            checkpoint = await load_checkpoint(self._redis, streams, self._options)
            revision = tuple(checkpoint.fields.get(name) for name in REVISION)
            self._count(streams, _Loaded(checkpoint.state, 0, revision))

    def _count(self, streams: Streams, loaded: _Loaded) -> None:
        self._loads += 1
        loaded.load = self._loads
        self._loaded[streams] = loaded
