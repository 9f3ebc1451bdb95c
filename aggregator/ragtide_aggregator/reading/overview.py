"""Reads the estimates of whole pipelines several times a second, for screens that stay open."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import Estimate

from ..errors import DamagedFieldError
from ..estimates.estimates import estimates
from ..service.checkpoint import FIELDS_AT_ONCE, damaged, load_checkpoint
from ..service.commit import CHECKPOINT_VERSION
from ..state.merging import merged
from ..state.options import NO_WINDOWS
from ..state.state import AggregatorState, StateOptions
from .states import REVISION, Revision

LISTED_S: Final = 10.0
"""Seconds after which the names of the fields are listed again, even if their number is the same."""

# A key is a JSON list that begins with pipeline, run and segment: in these fields run and segment are null.
_PATTERNS: Final = (
    *(f'{kind}\\["*",null,null,*' for kind in (CheckpointField.ESTIMATE, CheckpointField.DEPENDENCE)),
    f'{CheckpointField.CLUSTERS}\\["*",null,null,*',
    f"{CheckpointField.CLUSTER_SCOPE}*",
    f"{CheckpointField.DECLARED}*",
)


@dataclass(slots=True)
class _OverviewPart:
    """The newest known rows of a partition."""

    state: AggregatorState
    names: list[str] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict)
    revision: Revision = ()
    length: int = -1
    """Number of all fields of the checkpoint when the names were listed."""
    listed_at: float = 0.0


class Overview:
    """The estimates of whole live pipelines over all time, without quantiles.

    Only the fields of these keys are read, and only fields that changed are decoded, in a thread. So a read costs the
    same however many segment values, runs and windows there are. A new pipeline or metric is there at the next read
    after its first commit.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state that is only read.
        split: whether pipelines are split over partitions, so that several states are merged into one.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        split: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = redis
        self._partitions = partitions
        self._options = replace(options, panes=NO_WINDOWS, quantiles=False)
        self._split = split
        self._clock = clock
        self._reading = asyncio.Lock()
        self._parts: dict[Streams, _OverviewPart] = {}
        self._found: dict[float, tuple[list[Revision], list[Estimate]]] = {}

    async def read(self, confidence: float) -> list[Estimate]:
        """Return the estimates at the last commits, with intervals of this level.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            await self._read_changed()
            parts = [self._parts[streams] for streams in self._partitions]
            revisions = [part.revision for part in parts]
            known = self._found.get(confidence)
            if known is None or known[0] != revisions:
                states = [part.state for part in parts]
                known = revisions, await asyncio.to_thread(self._estimates, states, confidence)
                self._found[confidence] = known
        return known[1]

    def _estimates(self, states: Sequence[AggregatorState], confidence: float) -> list[Estimate]:
        if self._split and len(states) > 1:
            states = [merged(states, self._options)]
        return [one for state in states for one in estimates(state, confidence=confidence, windows=False)]

    async def _read_changed(self) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in self._partitions:
                pipe.hmget(streams.checkpoint, CheckpointField.VERSION, *REVISION)
                pipe.hlen(streams.checkpoint)
            replies: list[Any] = await pipe.execute()
        for streams, (version, *revision), length in zip(self._partitions, replies[::2], replies[1::2], strict=True):
            part = self._parts.get(streams)
            if part is not None and part.revision == tuple(revision):
                continue
            if version is not None and version != CHECKPOINT_VERSION:
                # An older release wrote it: its fields are upgraded, or the error is told.
                self._parts[streams] = _OverviewPart((await load_checkpoint(self._redis, streams, self._options)).state)
                self._parts[streams].revision = tuple(revision)
                continue
            if part is None or part.length != length or self._clock() - part.listed_at > LISTED_S:
                names = await self._names(streams)
                if part is None or set(part.names) - set(names) or _steps(revision) < _steps(part.revision):
                    # Keys are gone, or the checkpoint went back: no number of the state before may stay.
                    part = self._parts[streams] = _OverviewPart(AggregatorState(self._options))
                part.names, part.length, part.listed_at = names, length, self._clock()
            await self._load(streams, part)

    async def _names(self, streams: Streams) -> list[str]:
        found: set[bytes] = set()
        for pattern in _PATTERNS:
            async for name, _ in self._redis.hscan_iter(streams.checkpoint, match=pattern, count=FIELDS_AT_ONCE):
                found.add(name)
        return sorted(name for one in found if _is_whole(name := one.decode(errors="replace")))

    async def _load(self, streams: Streams, part: _OverviewPart) -> None:
        # In one transaction, so that all numbers are of the same commit.
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(streams.checkpoint, *REVISION)
            for start in range(0, len(part.names), FIELDS_AT_ONCE):
                pipe.hmget(streams.checkpoint, part.names[start : start + FIELDS_AT_ONCE])
            revision, *replies = cast("list[list[bytes | None]]", await pipe.execute())
        data = [one for reply in replies for one in reply]
        changed = {
            name: value
            for name, value in zip(part.names, data, strict=True)
            if value is not None and part.values.get(name) != value
        }
        try:
            await asyncio.to_thread(part.state.set_fields, changed)
        except DamagedFieldError as error:
            del self._parts[streams]
            raise damaged(streams, error) from None
        part.values |= changed
        part.revision = tuple(revision)


def _is_whole(name: str) -> bool:
    """Return whether a field is of a whole live pipeline; a name of a pipeline may look like the end of a key."""
    kind, _, key = name.partition(":")
    if not key.startswith("[") or f"{kind}:" == CheckpointField.CLUSTER_SCOPE:
        return True
    try:
        _, run, segment, *_ = json.loads(key)
    except ValueError:
        return True  # its load tells which field is damaged
    return run is None and segment is None


def _steps(revision: Sequence[bytes | None]) -> int:
    return int((revision and revision[0]) or 0)
