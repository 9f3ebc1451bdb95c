"""Reads selected fields of checkpoints, and returns only the values that changed since the last read."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_scripts

from ..checkpoint.commit import CHECKPOINT_VERSION
from ..checkpoint.loading import FIELDS_AT_ONCE, checkpoint_of_fields, damaged
from ..errors import DamagedFieldError
from ..state.options import StateOptions
from .field_names import FieldNames, Listing

REVISION: Final = (CheckpointField.STEPS, CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION)
"""Fields of a checkpoint that change with every commit."""

READ_HEADS: Final = Lua("read_heads")

Revision = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """Fields of a checkpoint."""

    kinds: tuple[CheckpointField, ...]
    """Kinds of fields whose names are listed."""
    choose: Callable[[Listing], Iterable[str]]
    """Returns the names of the fields to read; a field that does not exist is left out."""
    head: int | None = None
    """Bytes of each value that are read; None for whole values."""


class ChangedFields(NamedTuple):
    """What changed in the selected fields of a partition."""

    values: Mapping[str, bytes]
    """New values by name."""
    everything: Mapping[str, bytes]
    """All values by name."""
    anew: bool
    """Whether the values of earlier reads no longer count."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The selected fields of a partition at the last read."""

    names: Sequence[str]
    values: Mapping[str, bytes]
    revision: Revision
    listing: int
    """Number of the listing of the names."""


class SelectedFields:
    """The selected fields of checkpoints.

    Without a commit since the last call, a read takes one round trip, whatever the number of partitions.

    Args:
        redis: client.
        select: fields to read.
        names: lists the fields of all selections.
    """

    def __init__(self, redis: Redis, select: FieldSelection, names: FieldNames) -> None:
        self._redis = redis
        self._select = select
        self._names = names
        self._known: dict[Streams, _Known] = {}

    @asynccontextmanager
    async def changes(self, partitions: Sequence[Streams]) -> AsyncGenerator[dict[Streams, ChangedFields]]:
        """Return a context with what changed in each partition with a commit since its last read.

        If the body does not end, because it raises or is cancelled, the next read returns the same changes and more.

        Raises:
            CheckpointError: another version wrote a checkpoint.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in partitions:
                pipe.hmget(streams.checkpoint, CheckpointField.VERSION, *REVISION)
            for streams in partitions:
                pipe.hlen(streams.checkpoint)
            replies = await pipe.execute()
        stored = zip(partitions, replies[: len(partitions)], replies[len(partitions) :], strict=True)
        read = await asyncio.gather(
            *(self._read(streams, version, tuple(revision), length) for streams, (version, *revision), length in stored)
        )
        changed = {streams: known for streams, known in zip(partitions, read, strict=True) if known is not None}
        yield {streams: self._changed(streams, known) for streams, known in changed.items()}
        self._known |= changed

    def _changed(self, streams: Streams, known: _Known) -> ChangedFields:
        before = self._known.get(streams)
        # If fields were removed, or the checkpoint went back, none of the numbers before may stay.
        if (
            before is None
            or before.values.keys() - known.values.keys()
            or _steps(known.revision) < _steps(before.revision)
        ):
            return ChangedFields(known.values, known.values, anew=True)
        old = before.values
        changed = {name: value for name, value in known.values.items() if old.get(name) != value}
        return ChangedFields(changed, known.values, anew=False)

    async def _read(self, streams: Streams, version: bytes | None, revision: Revision, length: int) -> _Known | None:
        if version not in (None, CHECKPOINT_VERSION):
            checkpoint_of_fields(streams, StateOptions(), {CheckpointField.VERSION: version or b""})
        known, kinds = self._known.get(streams), self._select.kinds
        listing = await self._names.read(streams, kinds, length)
        if known is not None and known.revision == revision and known.listing == listing.number:
            return None
        same = known is not None and known.listing == listing.number
        read = await self._values(streams, listing, known.names if known is not None and same else None)
        if same and known is not None and known.values.keys() - read.values.keys():  # a field was removed since
            listing = await self._names.read(streams, kinds, length, anew=True)
            read = await self._values(streams, listing)
        return read

    async def _values(self, streams: Streams, listing: Listing, names: Sequence[str] | None = None) -> _Known:
        names = sorted(set(self._select.choose(listing))) if names is None else names
        revision, values = await (self._whole if self._select.head is None else self._heads)(streams, names)
        stored = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return _Known(names, stored, revision, listing.number)

    async def _whole(self, streams: Streams, names: Sequence[str]) -> tuple[Revision, list[bytes | None]]:
        # In one transaction, so that all numbers are of the same commit.
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(streams.checkpoint, *REVISION)
            for start in range(0, len(names), FIELDS_AT_ONCE):
                pipe.hmget(streams.checkpoint, names[start : start + FIELDS_AT_ONCE])
            revision, *replies = cast("list[list[bytes | None]]", await pipe.execute())
        return tuple(revision), [value for reply in replies for value in reply]

    async def _heads(self, streams: Streams, names: Sequence[str]) -> tuple[Revision, list[bytes | None]]:
        parts = [names[start : start + FIELDS_AT_ONCE] for start in range(0, len(names), FIELDS_AT_ONCE)]
        calls = [read_heads(streams, part, self._select.head or 0) for part in parts or [()]]
        replies = await run_scripts(self._redis, calls)
        # Each part is of one commit. A commit between them is read with the next read.
        revision = tuple(replies[0][: len(REVISION)])
        return revision, [value for reply in replies for value in reply[len(REVISION) :]]


def read_heads(streams: Streams, names: Sequence[str], size: int) -> ScriptCall[list[bytes | None]]:
    """Return the call that reads the first bytes of fields of a checkpoint; its reply begins with the revision.

    Args:
        names: at most `FIELDS_AT_ONCE`.
        size: number of bytes.
    """
    return ScriptCall(READ_HEADS, [streams.checkpoint], [size, *REVISION, *names], list)


@contextmanager
def reporting(streams: Streams) -> Iterator[None]:
    """Turn the error of a damaged field into that of its checkpoint, which says how to repair it.

    Raises:
        CheckpointError: the body cannot read a field of the checkpoint.
    """
    try:
        yield
    except DamagedFieldError as error:
        raise damaged(streams, error) from None


def _steps(revision: Sequence[bytes | None]) -> int:
    return int((revision and revision[0]) or 0)
