"""Reads selected fields of checkpoints, and returns only the values that changed since the last read."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script, run_scripts

from ..checkpoint.change_log import Revision
from ..checkpoint.commit import CHECKPOINT_VERSION
from ..checkpoint.field_pipelines import pipeline_of_field
from ..checkpoint.loading import FIELDS_AT_ONCE, checkpoint_of_fields, damaged
from ..checkpoint.name_index import LISTED
from ..errors import DamagedFieldError
from ..state.options import StateOptions
from .checkpoint_heads import REVISION, CheckpointHead, read_heads_of
from .field_names import FieldNames, Listing

READ_HEADS: Final = Lua("read_heads")

WHOLE: Final = -1
"""Size of a whole value."""


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """Fields of a checkpoint."""

    kinds: tuple[CheckpointField, ...]
    """Kinds of fields whose names are listed."""
    choose: Callable[[Listing], Iterable[str]]
    """Returns the names of the fields to read; a field that does not exist is left out. Each is of one pipeline."""
    head: int | None = None
    """Bytes of each value that are read; None for whole values."""
    pipeline: str | None = None
    """The pipeline of all these fields; None for several."""


class ChangedFields(NamedTuple):
    """The selected fields of a partition that a reading brought."""

    values: Mapping[str, bytes]
    """New values by name."""
    everything: Mapping[str, bytes]
    """All values by name."""
    anew: bool = False
    """Whether the values of earlier reads no longer count."""

    def pipelines(self) -> set[str]:
        """Return the pipelines of the new values."""
        return {pipeline_of_field(name) or "" for name in self.values}


@dataclass(frozen=True, slots=True)
class _Known:
    """The selected fields of a partition at the last read."""

    names: Sequence[str]
    values: Mapping[str, bytes]
    revision: Revision
    listing: int
    """Number of the listing of the names."""
    is_complete: bool
    """Whether no field was added since the listing."""
    changed: Sequence[str] | None = None
    """Names that the last read looked at; None for all."""
    by_pipeline: dict[str, list[str]] = field(default_factory=dict)
    """Names by pipeline; empty until they are needed."""

    def of_pipelines(self, pipelines: Iterable[str]) -> list[str]:
        """Return the names of some pipelines."""
        if not self.by_pipeline:
            for name in self.names:
                with suppress(ValueError):  # loading the field reports the damage
                    self.by_pipeline.setdefault(pipeline_of_field(name) or "", []).append(name)
        return [name for pipeline in pipelines for name in self.by_pipeline.get(pipeline, ())]


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
        heads = await read_heads_of(self._redis, {streams: self._revision(streams) for streams in partitions})
        read = await asyncio.gather(*(self._read(streams, heads[streams]) for streams in partitions))
        changed = {streams: known for streams, known in zip(partitions, read, strict=True) if known is not None}
        yield {streams: self._changed(streams, known) for streams, known in changed.items()}
        self._known |= changed

    def _revision(self, streams: Streams) -> Revision:
        known = self._known.get(streams)
        return () if known is None else known.revision

    def _changed(self, streams: Streams, known: _Known) -> ChangedFields:
        before = self._known.get(streams)
        # If fields were removed, or the checkpoint went back, none of the numbers before may stay.
        old, values = {} if before is None else before.values, known.values
        if before is not None and known.changed is not None:
            looked_at = (name for name in known.changed if name in values)
        elif before is None or old.keys() - values.keys() or _steps(known.revision) < _steps(before.revision):
            return ChangedFields(values, values, anew=True)
        else:
            looked_at = (name for name in values)
        return ChangedFields({name: values[name] for name in looked_at if old.get(name) != values[name]}, values)

    async def _read(self, streams: Streams, head: CheckpointHead) -> _Known | None:
        if head.version not in (None, CHECKPOINT_VERSION):
            checkpoint_of_fields(streams, StateOptions(), {CheckpointField.VERSION: head.version or b""})
        known, kinds = self._known.get(streams), self._select.kinds
        # Of other kinds there are new fields without new keys.
        changed = head.changed if known is not None and LISTED.issuperset(kinds) else None
        if known is not None and changed is not None and known.is_complete and not changed.adds:
            return await self._of_pipelines(streams, known, head, changed.names)
        listing = await self._names.read(streams, kinds, head.length, pipeline=self._select.pipeline)
        is_complete = listing.length == head.length
        if known is None or known.listing != listing.number:
            return await self._all(streams, listing, is_complete=is_complete)
        known = replace(known, is_complete=is_complete)
        if changed is not None or known.revision == head.revision:
            return await self._of_pipelines(streams, known, head, () if changed is None else changed.names)
        read = await self._all(streams, listing, known.names, is_complete=is_complete)
        if known.values.keys() - read.values.keys():  # a field was removed since
            return await self._anew(streams, head)
        return read

    async def _anew(self, streams: Streams, head: CheckpointHead) -> _Known:
        select = self._select
        listing = await self._names.read(streams, select.kinds, head.length, pipeline=select.pipeline, anew=True)
        return await self._all(streams, listing, is_complete=True)

    async def _of_pipelines(
        self, streams: Streams, known: _Known, head: CheckpointHead, pipelines: Iterable[str]
    ) -> _Known | None:
        if known.revision == head.revision:
            return None
        names = known.of_pipelines(pipelines)
        if not names:
            return replace(known, revision=head.revision, changed=())
        _, values = await self._values(streams, names)
        if any(value is None and name in known.values for name, value in zip(names, values, strict=True)):
            return await self._anew(streams, head)
        new = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        # Values of later commits may be among them: they are read once more with the next read.
        return replace(known, values={**known.values, **new}, revision=head.revision, changed=names)

    async def _all(
        self, streams: Streams, listing: Listing, names: Sequence[str] | None = None, *, is_complete: bool
    ) -> _Known:
        names = list(dict.fromkeys(self._select.choose(listing))) if names is None else names
        revision, values = await self._values(streams, names)
        stored = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        return _Known(names, stored, revision, listing.number, is_complete)

    async def _values(self, streams: Streams, names: Sequence[str]) -> tuple[Revision, list[bytes | None]]:
        return await (self._whole if self._select.head is None else self._heads)(streams, names)

    async def _whole(self, streams: Streams, names: Sequence[str]) -> tuple[Revision, list[bytes | None]]:
        # In one script, so that all numbers are of the same commit.
        values = await run_script(self._redis, read_heads(streams, names, WHOLE))
        return tuple(values[: len(REVISION)]), values[len(REVISION) :]

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
        names: of the fields; of a name with a line break there is no value, because no field has one.
        size: number of bytes; `WHOLE` for whole values.
    """
    lines = "\n".join(names)
    if lines.count("\n") >= len(names) > 0:
        lines = "\n".join(name.replace("\n", " ") for name in names)
    return ScriptCall(READ_HEADS, [streams.checkpoint], [size, lines, *REVISION], list)


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
