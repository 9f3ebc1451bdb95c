"""Reads the estimates of whole pipelines several times a second, for screens that stay open."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import Estimate

from ..errors import DamagedFieldError
from ..estimates.estimates import estimates
from ..estimates.view import IntervalMethod
from ..estimates.whole_means import WholeMean, whole_means
from ..service.checkpoint import FIELDS_AT_ONCE, damaged, load_checkpoint
from ..service.commit import CHECKPOINT_VERSION
from ..state.merging import merged
from ..state.options import NO_WINDOWS
from ..state.state import AggregatorState, StateOptions
from ..statistics.strategies import AUTO
from .states import REVISION, Revision

_One = TypeVar("_One", Estimate, WholeMean)

LISTED_S: Final = 10.0
"""Seconds after which the names of the fields are listed again, even if their number is the same."""
SOON_S: Final = 1.0
"""Seconds after which they are listed again if their number changed."""
LISTING_PART: Final = 20
"""Listing takes at most this part of the time: the checkpoint may have a million fields."""

_Known = tuple[list[int], list[_One]]
"""Numbers, and the numbers of the loads that they are of."""


@dataclass(slots=True)
class _OverviewPart:
    """The newest known rows of a partition."""

    state: AggregatorState
    names: list[str] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict)
    revision: Revision = ()
    load: int = 0
    """Number of the load that brought these rows."""
    length: int = -1
    """Number of all fields of the checkpoint when the names were listed."""
    listed_at: float = 0.0
    """Monotonic seconds."""
    listing_s: float = 0.0
    """Seconds that the listing took."""


class Overview:
    """The estimates of whole live pipelines over all time, without quantiles and design effects.

    Only the fields of these keys are read, and only fields that changed are decoded, in a thread. So a read costs the
    same however many segment values, runs and windows there are. A new pipeline or metric is there a second after its
    first commit; in a checkpoint of a million fields it may take some seconds.

    Args:
        redis: client.
        partitions: keys of the partitions.
        options: of a state that is only read.
        confidence: level of the intervals.
        split: whether pipelines are split over partitions, so that several states are merged into one.
        segment: segment value of which the estimates are; None for whole pipelines.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        redis: Redis,
        partitions: Sequence[Streams],
        options: StateOptions,
        *,
        confidence: float,
        split: bool,
        segment: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._redis = redis
        self._partitions = partitions
        self._options = replace(options, panes=NO_WINDOWS, quantiles=False)
        self._method = IntervalMethod(AUTO, confidence)
        self._split = split
        self._segment = segment
        self._clock = clock
        self._reading = asyncio.Lock()
        self._parts: dict[Streams, _OverviewPart] = {}
        self._loads = 0
        self._estimates: _Known[Estimate] = ([], [])
        self._means: _Known[WholeMean] = ([], [])

    async def read(self) -> list[Estimate]:
        """Return the estimates at the last commits.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            loads, states = await self._states()
            if self._estimates[0] != loads:
                self._estimates = loads, await asyncio.to_thread(self._estimated, states)
            return self._estimates[1]

    async def means(self) -> list[WholeMean]:
        """Return the means at the last commits: the same numbers in less time.

        Raises:
            CheckpointError: a checkpoint cannot be read.
        """
        async with self._reading:
            loads, states = await self._states()
            if self._means[0] != loads:
                self._means = loads, await asyncio.to_thread(self._measured, states)
            return self._means[1]

    async def _states(self) -> tuple[list[int], list[AggregatorState]]:
        await self._read_changed()
        parts = [self._parts[streams] for streams in self._partitions]
        return [part.load for part in parts], [part.state for part in parts]

    def _estimated(self, states: Sequence[AggregatorState]) -> list[Estimate]:
        level = self._method.confidence
        found = (estimates(state, confidence=level, windows=False) for state in self._merged(states))
        return [one for of_state in found for one in of_state]

    def _measured(self, states: Sequence[AggregatorState]) -> list[WholeMean]:
        return [one for state in self._merged(states) for one in whole_means(state, self._method, self._segment)]

    def _merged(self, states: Sequence[AggregatorState]) -> Sequence[AggregatorState]:
        return [merged(states, self._options)] if self._split and len(states) > 1 else states

    async def _read_changed(self) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            for streams in self._partitions:
                pipe.hmget(streams.checkpoint, CheckpointField.VERSION, *REVISION)
                pipe.hlen(streams.checkpoint)
            replies: list[Any] = await pipe.execute()
        for streams, (version, *revision), length in zip(self._partitions, replies[::2], replies[1::2], strict=True):
            part = self._parts.get(streams)
            is_due = part is None or self._is_due(part, length)
            if part is not None and part.revision == tuple(revision) and not (is_due and part.length != length):
                continue
            if version is not None and version != CHECKPOINT_VERSION:
                # An older release wrote it: its fields are upgraded, or the error is told.
                part = _OverviewPart((await load_checkpoint(self._redis, streams, self._options)).state, length=length)
                self._parts[streams] = self._loaded(part, revision)
                continue
            if part is not None and _steps(revision) < _steps(part.revision):
                part = None  # the checkpoint went back: no number of the state before may stay
            if part is None or is_due:
                part = await self._listed(streams, part, length)
            if not await self._load(streams, part):
                await self._load(streams, await self._listed(streams, None, length))

    async def _listed(self, streams: Streams, part: _OverviewPart | None, length: int) -> _OverviewPart:
        """Return the part with the names of the fields; a new part if fields are gone: no number of them may stay."""
        began = self._clock()
        names = await self._names(streams, frozenset() if part is None else frozenset(part.names))
        if part is None or set(part.names) - set(names):
            part = self._parts[streams] = _OverviewPart(AggregatorState(self._options))
        part.names, part.length = names, length
        part.listed_at, part.listing_s = began, self._clock() - began
        return part

    def _is_due(self, part: _OverviewPart, length: int) -> bool:
        """Return whether the names of the fields are to be listed again."""
        pause_s = SOON_S if part.length != length else LISTED_S
        return self._clock() - part.listed_at >= max(pause_s, LISTING_PART * part.listing_s)

    async def _names(self, streams: Streams, known: Collection[str]) -> list[str]:
        found: set[bytes] = set()
        for pattern in patterns(self._segment):
            async for name, _ in self._redis.hscan_iter(streams.checkpoint, match=pattern, count=FIELDS_AT_ONCE):
                found.add(name)
        names = (one.decode(errors="replace") for one in found)
        return sorted(name for name in names if name in known or _is_wanted(name, self._segment))

    async def _load(self, streams: Streams, part: _OverviewPart) -> bool:
        """Load the fields that changed; return False, and change nothing, if a known field is gone."""
        # In one transaction, so that all numbers are of the same commit.
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(streams.checkpoint, *REVISION)
            for start in range(0, len(part.names), FIELDS_AT_ONCE):
                pipe.hmget(streams.checkpoint, part.names[start : start + FIELDS_AT_ONCE])
            revision, *replies = cast("list[list[bytes | None]]", await pipe.execute())
        data = [one for reply in replies for one in reply]
        if any(value is None and name in part.values for name, value in zip(part.names, data, strict=True)):
            return False
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
        self._loaded(part, revision)
        return True

    def _loaded(self, part: _OverviewPart, revision: Sequence[bytes | None]) -> _OverviewPart:
        self._loads += 1
        part.revision, part.load = tuple(revision), self._loads
        return part


def patterns(segment: str | None) -> list[str]:
    """Return the patterns of the fields of a segment value of live pipelines; None for whole pipelines."""
    # A key is a JSON list that begins with pipeline, run and segment: in these fields the run is null.
    text = re.sub(r"([\\\[\]*?])", r"\\\1", json.dumps(segment, ensure_ascii=False))
    kinds = (CheckpointField.ESTIMATE, CheckpointField.CLUSTERS)
    return [
        *(f'{kind}\\["*",null,{text},*' for kind in kinds),
        f"{CheckpointField.CLUSTER_SCOPE}*",
        f"{CheckpointField.DECLARED}*",
    ]


def _is_wanted(name: str, wanted: str | None) -> bool:
    """Return whether a field is of a live pipeline or a segment value; a name may look like the end of a key."""
    kind, _, key = name.partition(":")
    if not key.startswith("[") or f"{kind}:" == CheckpointField.CLUSTER_SCOPE:
        return True
    try:
        _, run, segment, *_ = json.loads(key)
    except ValueError:
        return True  # its load tells which field is damaged
    return run is None and segment == wanted


def _steps(revision: Sequence[bytes | None]) -> int:
    return int((revision and revision[0]) or 0)
