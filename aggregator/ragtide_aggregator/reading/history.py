"""Reads the history of pipelines: means with intervals over time, pooled from the panes that the aggregator keeps.

1. The keys with a history are the fields `series:KEY` of the checkpoints; each lists the open panes of its key.
2. One transaction reads this field again, the open panes, and the lists of closed panes. If the field has changed since
   step 1, it is repeated. So no value is missing and none counts twice.
"""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import from_milliseconds, to_milliseconds

from ..checkpoint.loading import FIELDS_AT_ONCE
from ..errors import reading
from ..estimates.over_time import COARSE, FINE, History, SeriesPanes, TimeRange, grid_of, over_time
from ..estimates.view import IntervalMethod
from ..events.keys import EstimateKey
from ..state.history import pane_of, series_name
from ..state.options import HistoryOptions

MOST_TRIES: Final = 100
"""Reads of the panes of a key before one counts during which panes closed; a replay may close some in every commit."""

FIRSTS_AT_ONCE: Final = 200
"""Keys whose first panes are read in one round trip."""

LISTED_S: Final = 10.0
"""Seconds for which the list of the keys of a pipeline that have a history is used again."""


@dataclass(slots=True)
class _Listing:
    """The keys of a pipeline with a history in one partition, and when they were listed."""

    at_s: float
    keys: list[EstimateKey] = field(default_factory=list)


class HistoryReader:
    """Reads the history of a deployment.

    Args:
        redis: client.
        options: which panes are kept; None if there is no history.
    """

    def __init__(self, redis: Redis, options: HistoryOptions | None) -> None:
        self._redis = redis
        self._options = options
        self._listed: dict[tuple[Streams, str | None], _Listing] = {}

    async def series(self, partitions: Sequence[Streams], pipeline: str | None = None) -> list[EstimateKey]:
        """Return the keys that have a history, of a pipeline or of all, in order."""
        if self._options is None:
            return []
        found = await asyncio.gather(*(self._list(streams, pipeline) for streams in partitions))
        return sorted({key for keys in found for key in keys}, key=lambda key: key.encode())

    async def _list(self, streams: Streams, pipeline: str | None) -> list[EstimateKey]:
        prefix = CheckpointField.HISTORY_SERIES
        begin = "" if pipeline is None else json.dumps([pipeline], ensure_ascii=False)[:-1] + ","
        pattern = prefix + re.sub(r"([\\\[\]*?])", r"\\\1", begin) + "*"
        keys = []
        async for name, _ in self._redis.hscan_iter(streams.checkpoint, match=pattern, count=FIELDS_AT_ONCE):
            text = name.decode(errors="replace")
            with reading(text):
                keys.append(EstimateKey.decode(text.removeprefix(prefix)))
        self._listed[streams, pipeline] = _Listing(time.monotonic(), keys)
        return keys

    async def first_values(self, partitions: Sequence[Streams], name: str) -> dict[str, dict[str, datetime]]:
        """Return the start of the first kept pane of each value of a segment, by pipeline and value.

        Args:
            partitions: to read.
            name: of the segment.

        Raises:
            DamagedFieldError: a checkpoint names a key that cannot be read.
        """
        options = self._options
        if options is None:
            return {}
        found: dict[str, dict[str, datetime]] = {}
        for streams in partitions:
            keys = [key for key in await self._list(streams, None) if (key.segment or "").startswith(f"{name}=")]
            for start in range(0, len(keys), FIRSTS_AT_ONCE):
                for key, first_ms in await self._firsts(streams, keys[start : start + FIRSTS_AT_ONCE], options):
                    of, value = found.setdefault(key.pipeline, {}), (key.segment or "").removeprefix(f"{name}=")
                    first = from_milliseconds(first_ms)
                    of[value] = min(of.get(value, first), first)
        return found

    async def _firsts(
        self, streams: Streams, keys: Sequence[EstimateKey], options: HistoryOptions
    ) -> list[tuple[EstimateKey, int]]:
        names = [key.encode() for key in keys]
        async with self._redis.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.hget(streams.checkpoint, CheckpointField.HISTORY_SERIES + name)
                fine, coarse = (series_name(name, length) for length in (options.fine_ms, options.coarse_ms))
                pipe.llen(streams.history(fine))
                pipe.lrange(streams.history(fine), 0, 0)
                pipe.lrange(streams.history(coarse), 0, 0)
            replies = await pipe.execute()
        found = []
        for place, (key, name) in enumerate(zip(keys, names, strict=True)):
            listed, length, *closed = replies[4 * place : 4 * place + 4]
            starts: tuple[list[int], list[int]] = ([], [])
            for which, length_ms in ((FINE, options.fine_ms), (COARSE, options.coarse_ms)):
                starts[which].extend(pane_of(member)[0] * length_ms for member in closed[which])
                starts[which].extend(pane * length_ms for of, pane, _ in _names(listed, name, options) if of == which)
            fine_ms, coarse_ms = (min(of, default=None) for of in starts)
            # A full list of fine panes has lost its first ones. The coarse panes reach further back.
            whole = length < options.fine_kept
            first_ms = fine_ms if coarse_ms is None or (whole and fine_ms is not None) else coarse_ms
            if first_ms is not None:
                found.append((key, first_ms))
        return found

    async def read(
        self,
        partitions: Sequence[Streams],
        wanted: Mapping[str, Any],
        start: datetime,
        end: datetime,
        *,
        points_max: int,
        method: IntervalMethod,
    ) -> list[History]:
        """Return the histories of the keys with the wanted fields, in the order of the keys.

        Args:
            partitions: that hold the pipeline.
            wanted: fields of `EstimateKey`, among them the pipeline.
            start: of the range.
            end: of the range, exclusive.
            points_max: most points of a history.
            method: of the intervals.

        Raises:
            DamagedFieldError: a pane cannot be read.
            ValueError: the range is empty, or `points_max` is below 1.
        """
        if start >= end:
            raise ValueError(f"start is {start.isoformat()}, not before end = {end.isoformat()}: give an earlier start")
        if points_max < 1:
            raise ValueError(f"points_max is {points_max}: give at least 1")
        options = self._options
        if options is None:
            return []
        by_key: dict[EstimateKey, list[Streams]] = {}
        for streams in partitions:
            for key in await self._matching(streams, wanted):
                by_key.setdefault(key, []).append(streams)
        span = TimeRange(to_milliseconds(start), to_milliseconds(end), points_max)
        found = []
        for key in sorted(by_key, key=lambda estimate_key: estimate_key.encode()):
            lists = await asyncio.gather(*(self._read_panes(streams, key, options, span) for streams in by_key[key]))
            found.append(await asyncio.to_thread(over_time, key, lists, span, options=options, method=method))
        return found

    async def _matching(self, streams: Streams, wanted: Mapping[str, Any]) -> list[EstimateKey]:
        pipeline = wanted["pipeline"]
        listing = self._listed.get((streams, pipeline))
        if listing is not None and time.monotonic() - listing.at_s < LISTED_S:
            found = _choose(listing.keys, wanted)
            if found:
                return found
        return _choose(await self._list(streams, pipeline), wanted)

    async def _read_panes(
        self, streams: Streams, key: EstimateKey, options: HistoryOptions, span: TimeRange
    ) -> SeriesPanes:
        name = key.encode()
        # Closed fine panes are in their coarse panes, too.
        fine_wanted = grid_of(span, options, coarse=False).pane_ms < options.coarse_ms
        lengths = (options.fine_ms, options.coarse_ms) if fine_wanted else (options.coarse_ms,)
        scope = json.dumps((key.pipeline, key.run), ensure_ascii=False, separators=(",", ":"))
        series = CheckpointField.HISTORY_SERIES + name
        listed = cast("bytes | None", await self._redis.hget(streams.checkpoint, series))
        for _ in range(MOST_TRIES):
            names = _names(listed, name, options)
            async with self._redis.pipeline(transaction=True) as pipe:
                fields = [series, CheckpointField.CLUSTER_SCOPE + scope, *(field for *_, field in names)]
                pipe.hmget(streams.checkpoint, fields)
                for length in lengths:
                    pipe.lrange(streams.history(series_name(name, length)), 0, -1)
                (now, clustered, *panes), *closed = await pipe.execute()
            if now == listed:
                break
            # Panes closed or opened in between: a new open pane would be missing.
            listed = now
        opened: tuple[list[tuple[int, bytes]], ...] = ([], [])
        for (place, pane, _), data in zip(names, panes, strict=True):
            if data is not None:
                opened[place].append((pane, data))
        *fine, coarse = ([pane_of(record) for record in records] for records in closed)
        return SeriesPanes(clustered is not None, (fine[0] if fine else [], coarse), (opened[FINE], opened[COARSE]))


def _names(listed: bytes | None, key: str, options: HistoryOptions) -> list[tuple[int, int, str]]:
    """Return place, number and field of each open pane of a key, given the field that lists them."""
    with reading(CheckpointField.HISTORY_SERIES + key):
        numbers = json.loads(listed) if listed is not None else [[], []]
        return [
            (place, pane, f"{CheckpointField.HISTORY}{length}:{pane}:{key}")
            for place, length in ((FINE, options.fine_ms), (COARSE, options.coarse_ms))
            for pane in numbers[place]
        ]


def _choose(keys: Sequence[EstimateKey], wanted: Mapping[str, Any]) -> list[EstimateKey]:
    return [key for key in keys if all(getattr(key, name) == value for name, value in wanted.items())]
