"""Loads the states of a deployment's partitions from their checkpoints, again only after a commit.

A reader selects the fields that it needs. It loads only those that changed since its last read, and decodes them in a
thread, so a read costs the same however many other keys there are.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams

from ..checkpoint.commit import CHECKPOINT_VERSION
from ..checkpoint.loading import FIELDS_AT_ONCE, damaged, load_checkpoint
from ..errors import DamagedFieldError
from ..state.state import AggregatorState, StateOptions
from .field_names import FieldNames, Listing

REVISION: Final = (CheckpointField.STEPS, CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION)
"""Fields of a checkpoint that change with every commit."""

COMPUTED_MAX: Final = 8
"""Lists of values that are kept, such as the estimates at several levels of confidence."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """Fields of a checkpoint."""

    kinds: tuple[CheckpointField, ...]
    """Kinds of fields whose names are listed."""
    choose: Callable[[Listing], Iterable[str]]
    """Returns the names of the fields to read; a field that does not exist is left out."""


@dataclass(slots=True)
class _Loaded:
    """The loaded state of a partition, and the fields from which it was loaded."""

    state: AggregatorState
    names: list[str] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict)
    revision: tuple[bytes | None, ...] = ()
    load: int = 0
    """Number of the load that brought the state."""
    listing: int = -1
    """Number of the listing of the names."""


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
        self._select = select
        self._names = names or FieldNames(redis)
        self._reading = asyncio.Lock()
        self._loads = 0
        self._loaded: dict[Streams, _Loaded] = {}
        self._merged: dict[tuple[Streams, ...], tuple[list[int], AggregatorState]] = {}
        self._computed: dict[Hashable, tuple[list[int], list[Any]]] = {}

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
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.hmget(streams.checkpoint, CheckpointField.VERSION, *REVISION)
            if self._select is not None:
                for streams in partitions:
                    pipe.hlen(streams.checkpoint)
            replies: list[Any] = await pipe.execute()
        versions, lengths = replies[: len(partitions)], replies[len(partitions) :] or [-1] * len(partitions)
        await asyncio.gather(
            *(
                self._load(streams, version, tuple(revision), length)
                for streams, (version, *revision), length in zip(partitions, versions, lengths, strict=True)
            )
        )

    async def _load(
        self, streams: Streams, version: bytes | None, revision: tuple[bytes | None, ...], length: int
    ) -> None:
        known = self._loaded.get(streams)
        if self._select is None or version not in (None, CHECKPOINT_VERSION):
            # Loading the whole checkpoint also reports why another version cannot be read.
            if known is None or known.revision != revision:
                checkpoint = await load_checkpoint(self._redis, streams, self._options)
                known = self._loaded[streams] = _Loaded(checkpoint.state)
                self._count(known, tuple(checkpoint.fields.get(name) for name in REVISION))
            return
        listing = await self._names.read(streams, self._select.kinds, length)
        if known is not None and known.revision == revision and known.listing == listing.number:
            return
        if known is not None and _steps(revision) < _steps(known.revision):
            known = None  # the checkpoint went back: discard all numbers of the state before
        if known is None or known.listing != listing.number:
            known = self._take_names(streams, known, listing, self._select)
        if not await self._load_selected(streams, known):
            listing = await self._names.read(streams, self._select.kinds, length, anew=True)
            await self._load_selected(streams, self._take_names(streams, None, listing, self._select))

    def _take_names(self, streams: Streams, known: _Loaded | None, listing: Listing, select: FieldSelection) -> _Loaded:
        # If fields were removed, begin anew, so that none of their numbers stays.
        names = sorted(set(select.choose(listing)))
        if known is None or known.values.keys() - set(names):
            known = self._loaded[streams] = _Loaded(AggregatorState(self._options))
        known.names, known.listing = names, listing.number
        return known

    async def _load_selected(self, streams: Streams, known: _Loaded) -> bool:
        # In one transaction, so that all numbers are of the same commit.
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(streams.checkpoint, *REVISION)
            for start in range(0, len(known.names), FIELDS_AT_ONCE):
                pipe.hmget(streams.checkpoint, known.names[start : start + FIELDS_AT_ONCE])
            revision, *replies = cast("list[list[bytes | None]]", await pipe.execute())
        values = [value for reply in replies for value in reply]
        changed = {}
        for name, value in zip(known.names, values, strict=True):
            if value is None:
                if name in known.values:
                    return False
            elif known.values.get(name) != value:
                changed[name] = value
        try:
            await asyncio.to_thread(known.state.set_fields, changed)
        except DamagedFieldError as error:
            del self._loaded[streams]
            raise damaged(streams, error) from None
        known.values |= changed
        self._count(known, tuple(revision))
        return True

    def _count(self, loaded: _Loaded, revision: tuple[bytes | None, ...]) -> None:
        self._loads += 1
        loaded.revision, loaded.load = revision, self._loads


def _steps(revision: Sequence[bytes | None]) -> int:
    return int((revision and revision[0]) or 0)
