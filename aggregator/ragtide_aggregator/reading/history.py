"""Reads the history of pipelines: means with intervals over time, pooled from the panes that the aggregator keeps.

1. The keys with a history are the fields `series:KEY` of the checkpoints; each lists the open panes of its key.
2. One transaction reads this field again, the open panes, and the lists of closed panes. If the field has changed since
   step 1, it is repeated. So no value is missing and none counts twice.
"""

import asyncio
import json
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar, cast

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_schemas import from_milliseconds, to_milliseconds, utc_now

from ..checkpoint.change_log import Revision
from ..errors import reading
from ..estimates.over_time import (
    COARSE,
    FINE,
    RECENT,
    History,
    HistoryPoint,
    Joining,
    SeriesPanes,
    TimeRange,
    histories,
    powered_numbers,
    wanted_lengths,
)
from ..estimates.view import IntervalMethod
from ..events.keys import EstimateKey, PairKey
from ..state.history import PAIRS_BEGIN, ListedPanes, bucket_of, pane_of, read_listed, series_name
from ..state.options import HistoryOptions
from .checkpoint_heads import read_heads_of
from .field_names import FieldNames
from .range_numbers import RangeNumbers, range_name

MOST_TRIES: Final = 100
"""Reads of the panes of a key before one counts during which panes closed; a replay may close some in every commit."""

FIRSTS_AT_ONCE: Final = 200
"""Keys whose first panes are read in one round trip."""

Series = TypeVar("Series", EstimateKey, PairKey)

KEYS_AT_ONCE: Final = 500
"""Keys whose panes are read in one transaction."""

COARSE_FROM: Final = 12
"""Number of coarse panes from which on the mean of a range is read from coarse panes."""

PANES_KEPT: Final = 200_000
"""Closed panes that a reader keeps, those read last: about 30 MB."""


@dataclass(frozen=True, slots=True)
class _SeriesListing:
    """The keys with a history in one partition."""

    listing: int
    """Number of the listing of their fields."""
    keys: Sequence[EstimateKey]
    pairs: Sequence[PairKey]
    by_pipeline: Mapping[str, Sequence[EstimateKey]]
    is_complete: bool
    """Whether no field was added since the listing."""


@dataclass(frozen=True, slots=True)
class _ClosedList:
    """The closed panes of a series from a pane on, and the listing of its open panes when they were read."""

    listed: bytes | None
    first: int
    panes: list[tuple[int, bytes]]

    def holds(self, listed: bytes | None, first: int) -> bool:
        """Return whether it has all closed panes from a pane on: none closes while the open panes stay the same."""
        return self.listed == listed and self.first <= first


class HistoryReader:
    """Reads the history of a deployment.

    Args:
        redis: client.
        options: which panes are kept; None if there is no history.
        names: lists the fields.
    """

    def __init__(self, redis: Redis, options: HistoryOptions | None, names: FieldNames) -> None:
        self._redis = redis
        self._options = options
        self._names = names
        self._listed: dict[Streams, _SeriesListing] = {}
        # By name of the series and length of the panes, those read last at the end.
        self._closed: OrderedDict[tuple[Streams, str, int], _ClosedList] = OrderedDict()
        self._n_closed = 0
        self._numbers = RangeNumbers()
        self._revisions: dict[Streams, Revision] = {}

    @property
    def shortest_pane_ms(self) -> int:
        """Length of the shortest panes that are kept, in milliseconds; 0 without a history."""
        return 0 if self._options is None else self._options.recent_ms or self._options.fine_ms

    async def series(self, partitions: Sequence[Streams], pipeline: str | None = None) -> list[EstimateKey]:
        """Return the keys that have a history, of a pipeline or of all, in order."""
        if self._options is None:
            return []
        listings = await self._look(partitions)
        of_pipeline = (
            listed.keys if pipeline is None else listed.by_pipeline.get(pipeline, ()) for listed in listings.values()
        )
        return sorted({key for keys in of_pipeline for key in keys}, key=lambda key: key.encode())

    async def _list(self, streams: Streams, length: int) -> _SeriesListing:
        """Return the keys with a history: those of all pipelines, because listing walks through the checkpoint."""
        prefix = CheckpointField.HISTORY_SERIES
        listing = await self._names.read(streams, (prefix,), length)
        known, is_complete = self._listed.get(streams), listing.length == length
        if known is not None and known.listing == listing.number:
            self._listed[streams] = known = replace(known, is_complete=is_complete)
            return known
        keys: list[EstimateKey] = []
        pairs: list[PairKey] = []
        by_pipeline: defaultdict[str, list[EstimateKey]] = defaultdict(list)
        for name in listing.of(prefix):
            with reading(name):
                key = name.removeprefix(prefix)
                if key.startswith(PAIRS_BEGIN):
                    pairs.append(PairKey.decode(key))
                else:
                    keys.append(EstimateKey.decode(key))
                    by_pipeline[keys[-1].pipeline].append(keys[-1])
        known = self._listed[streams] = _SeriesListing(listing.number, keys, pairs, dict(by_pipeline), is_complete)
        return known

    async def first_values(self, partitions: Sequence[Streams], name: str) -> dict[str, dict[str, datetime]]:
        """Return the start of the first kept pane of each value of a segment, by pipeline and value.

        Raises:
            DamagedFieldError: a checkpoint names a key that cannot be read.
        """
        options = self._options
        if options is None:
            return {}
        by_pipeline: dict[str, dict[str, datetime]] = {}
        for streams, listing in (await self._look(partitions)).items():
            keys = [key for key in listing.keys if (key.segment or "").startswith(f"{name}=")]
            for start in range(0, len(keys), FIRSTS_AT_ONCE):
                for key, first_ms in await self._firsts(streams, keys[start : start + FIRSTS_AT_ONCE], options):
                    starts, value = (
                        by_pipeline.setdefault(key.pipeline, {}),
                        (key.segment or "").removeprefix(f"{name}="),
                    )
                    first = from_milliseconds(first_ms)
                    starts[value] = min(starts.get(value, first), first)
        return by_pipeline

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
        firsts = []
        for place, (key, name) in enumerate(zip(keys, names, strict=True)):
            listed, length, *closed = replies[4 * place : 4 * place + 4]
            starts: tuple[list[int], list[int]] = ([], [])
            opened = _listed(listed, name)
            for which, length_ms, open_panes in (
                (FINE, options.fine_ms, opened.fine),
                (COARSE, options.coarse_ms, opened.coarse),
            ):
                starts[which].extend(pane_of(member)[0] * length_ms for member in closed[which])
                starts[which].extend(pane * length_ms for pane in open_panes)
            fine_ms, coarse_ms = (min(of_length, default=None) for of_length in starts)
            # A full list of fine panes has lost its first ones. The coarse panes reach further back.
            whole = length < options.fine_kept
            first_ms = fine_ms if coarse_ms is None or (whole and fine_ms is not None) else coarse_ms
            if first_ms is not None:
                firsts.append((key, first_ms))
        return firsts

    async def read(
        self,
        partitions: Sequence[Streams],
        wanted: Sequence[Mapping[str, Any]],
        start: datetime,
        end: datetime,
        *,
        points_max: int,
        method: IntervalMethod,
        joining: Joining | None = None,
        whole: bool = False,
    ) -> list[History]:
        """Return the histories of the keys with wanted fields, in the order of the keys.

        The number of round trips does not depend on the number of pipelines.

        Args:
            partitions: that hold the pipelines.
            wanted: fields of `EstimateKey`, among them the pipeline, of some keys each.
            start: of the range.
            end: of the range, exclusive.
            points_max: most points of a history.
            joining: how neighbouring points are joined; None leaves them apart.
            whole: whether one point (`points_max=1`) leaves out the pane that holds the start, unless it begins there.

        Raises:
            DamagedFieldError: a pane cannot be read.
            ValueError: the range is empty, or `points_max` or the least number of values is below 1.
        """
        if start >= end:
            raise ValueError(f"start is {start.isoformat()}, not before end = {end.isoformat()}: give an earlier start")
        if points_max < 1:
            raise ValueError(f"points_max is {points_max}: give at least 1")
        if joining is not None and joining.least_n < 1:
            raise ValueError(f"least_n is {joining.least_n}: give at least 1")
        options = self._options
        if options is None:
            return []
        span = TimeRange(to_milliseconds(start), to_milliseconds(end), points_max, joining=joining, whole=whole)
        listings = await self._look(partitions) if wanted else {}
        wanted_keys = {streams: _matching(listing, wanted) for streams, listing in listings.items()}
        return await self._histories(wanted_keys, span, options, method)

    async def numbers(
        self,
        partitions: Sequence[Streams],
        keys: Collection[EstimateKey | PairKey],
        start: datetime,
        end: datetime,
        *,
        method: IntervalMethod,
        exact: bool = False,
        whole: bool = False,
        recent: bool = True,
    ) -> dict[EstimateKey | PairKey, HistoryPoint]:
        """Return the mean of each key in a range: one point over the panes that hold a part of it.

        The mean of a key of pairs is prediction-powered.

        A long range is read from coarse panes. A key without a history, or without a value in the range, is left out.

        Args:
            partitions: that hold the pipelines of the keys.
            start: of the range.
            end: of the range, exclusive.
            exact: whether a long range is read from fine panes too, while they are kept.
            whole: whether the pane that holds the start is left out, unless it begins there: the point has no value
                from before the start.
            recent: whether such a point may be of recent panes: not if its start is only known to a fine pane.

        Raises:
            DamagedFieldError: a pane cannot be read.
        """
        options = self._options
        if options is None or not keys:
            return {}
        start_ms, end_ms = to_milliseconds(start), to_milliseconds(end)
        # A range that reaches until now ends later, for the sake of clocks that are ahead.
        past_ms = min(end_ms, to_milliseconds(utc_now())) - start_ms
        coarse = not exact and past_ms >= COARSE_FROM * options.coarse_ms
        span = TimeRange(start_ms, end_ms, 1, coarse=coarse, whole=whole, recent=recent)
        listings = await self._look(partitions)
        name, number = (*partitions, method, range_name(span, options)), self._numbers.number
        known = self._numbers.of(name)
        points = {key: known[key] for key in keys if key in known}
        kept = {
            streams: [key for key in listing.keys if key in keys and key not in points]
            for streams, listing in listings.items()
        }
        of_keys = await self._histories(kept, span, options, method)
        read: dict[EstimateKey | PairKey, HistoryPoint] = {
            history.key: history.points[0] for history in of_keys if history.points
        }
        paired = {
            streams: [key for key in listing.pairs if key in keys and key not in points]
            for streams, listing in listings.items()
        }
        read.update((await self._powered(paired, span, options, method)).items())
        some = (key for of_partition in (kept, paired) for of_one in of_partition.values() for key in of_one)
        self._numbers.keep(name, some, read, since=number)
        return {key: point for key, point in points.items() if point is not None} | read

    async def _look(self, partitions: Sequence[Streams]) -> dict[Streams, _SeriesListing]:
        """Return the keys with a history; the means of pipelines that changed since the last look are dropped."""
        since = {streams: self._revisions.get(streams, ()) for streams in partitions}
        heads = await read_heads_of(self._redis, since)
        listings = {}
        for streams, head in heads.items():
            known, changed = self._listed.get(streams), head.changed
            if known is None or not known.is_complete or changed is None or changed.adds:
                known = await self._list(streams, head.length)
            listings[streams] = known
        for streams, head in heads.items():
            changed = head.changed
            if head.revision != self._revisions.get(streams):  # no other look has come as far meanwhile
                self._numbers.drop(None if changed is None else changed.names)
                self._revisions[streams] = head.revision
        return listings

    async def _powered(
        self,
        wanted: Mapping[Streams, Sequence[PairKey]],
        span: TimeRange,
        options: HistoryOptions,
        method: IntervalMethod,
    ) -> dict[PairKey, HistoryPoint]:
        of_proxies: defaultdict[PairKey, list[SeriesPanes]] = defaultdict(list)
        of_pairs: defaultdict[PairKey, list[SeriesPanes]] = defaultdict(list)
        for streams, keys in wanted.items():
            proxies = await self._read_panes(streams, [key.proxy for key in keys], options, span)
            pairs = await self._read_panes(streams, keys, options, span)
            for key in keys:
                of_proxies[key].append(proxies[key.proxy])
                of_pairs[key].append(pairs[key])
        series = [(key, of_proxies[key], of_pairs[key]) for key in of_pairs]
        if not series:
            return {}
        return await asyncio.to_thread(powered_numbers, series, span, options=options, method=method)

    async def _histories(
        self,
        wanted: Mapping[Streams, Sequence[EstimateKey]],
        span: TimeRange,
        options: HistoryOptions,
        method: IntervalMethod,
    ) -> list[History]:
        parts = await asyncio.gather(
            *(self._read_panes(streams, keys, options, span) for streams, keys in wanted.items())
        )
        by_key: dict[EstimateKey, list[SeriesPanes]] = {}
        for part in parts:
            for key, panes in part.items():
                by_key.setdefault(key, []).append(panes)
        ordered = sorted(by_key.items(), key=lambda item: item[0].encode())
        if not ordered:
            return []
        return await asyncio.to_thread(histories, ordered, span, options=options, method=method)

    async def _read_panes(
        self, streams: Streams, keys: Sequence[Series], options: HistoryOptions, span: TimeRange
    ) -> dict[Series, SeriesPanes]:
        by_series: dict[Series, SeriesPanes] = {}
        for first in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[first : first + KEYS_AT_ONCE]
            fields = [CheckpointField.HISTORY_SERIES + key.encode() for key in some]
            replies = cast("list[bytes | None]", await self._redis.hmget(streams.checkpoint, fields))
            listed = dict(zip(some, replies, strict=True))
            for _ in range(MOST_TRIES):
                read = await self._read_together(streams, listed, options, span)
                by_series |= {key: panes for key, (_now, panes) in read.items()}
                # Panes closed or opened in between: a new open pane would be missing.
                listed = {key: now for key, (now, _panes) in read.items() if now != listed[key]}
                if not listed:
                    break
        return by_series

    async def _read_together(
        self,
        streams: Streams,
        listed: Mapping[Series, bytes | None],
        options: HistoryOptions,
        span: TimeRange,
    ) -> dict[Series, tuple[bytes | None, SeriesPanes]]:
        encoded = {key: key.encode() for key in listed}
        names = {key: _names(listed[key], encoded[key], options) for key in listed}
        lengths = {key: wanted_lengths(span, options, _first_ms(listed[key], encoded[key], options)) for key in listed}
        fields: list[str] = []
        for key in listed:
            scores_key = key.proxy if isinstance(key, PairKey) else key
            scope = json.dumps((scores_key.pipeline, scores_key.run), ensure_ascii=False, separators=(",", ":"))
            fields += [CheckpointField.HISTORY_SERIES + encoded[key], CheckpointField.CLUSTER_SCOPE + scope]
            fields += [name for *_, name in names[key]]
        closed = {
            (key, length): self._closed.get((streams, encoded[key], length))
            for key in listed
            for length in lengths[key]
        }
        due = [
            (key, length)
            for (key, length), known in closed.items()
            if known is None or not known.holds(listed[key], _first_pane(span, length, options))
        ]
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hmget(streams.checkpoint, fields)
            for key, length in due:
                pipe.lrange(streams.history(series_name(encoded[key], length)), -_most_panes(span, length, options), -1)
            values, *lists = await pipe.execute()
        for (key, length), records in zip(due, lists, strict=True):
            panes, first = [pane_of(record) for record in records], _first_pane(span, length, options)
            is_recent = length == options.recent_ms
            if not is_recent and len(records) == _most_panes(span, length, options) and panes[0][0] > first:
                # The newest panes are later than now: the panes since the start are more than this time has.
                whole_list = await self._redis.lrange(streams.history(series_name(encoded[key], length)), 0, -1)
                panes = [pane_of(cast("bytes", record)) for record in whole_list]
            closed[key, length] = _ClosedList(listed[key], first, panes)
        read: dict[Series, tuple[bytes | None, SeriesPanes]] = {}
        place = 0
        for key in listed:
            now, clustered, *data_of = values[place : place + 2 + len(names[key])]
            place += 2 + len(names[key])
            opened: tuple[list[tuple[int, bytes]], ...] = ([], [], [])
            for (which, pane, _), data in zip(names[key], data_of, strict=True):
                if data is not None:
                    opened[which].append((pane, data))
            lists_of = {length: cast("_ClosedList", closed[key, length]) for length in lengths[key]}
            if now == listed[key]:
                for length, known in lists_of.items():
                    self._keep_closed((streams, encoded[key], length), known)
            of_key = tuple(
                lists_of[length].panes if length in lists_of else []
                for length in (options.fine_ms, options.coarse_ms, options.recent_ms)
            )
            recent_from_ms = None
            if options.recent_ms in lists_of:
                first_bucket = _listed(listed[key], encoded[key]).first_bucket
                recent_from_ms = _recent_from_ms(of_key[RECENT], opened[RECENT], first_bucket, options)
            read[key] = now, SeriesPanes(clustered is not None, of_key, opened, recent_from_ms)
        return read

    def _keep_closed(self, name: tuple[Streams, str, int], known: "_ClosedList") -> None:
        old = self._closed.pop(name, None)
        self._closed[name] = known
        self._n_closed += len(known.panes) - (0 if old is None else len(old.panes))
        while self._n_closed > PANES_KEPT and len(self._closed) > 1:
            _, oldest = self._closed.popitem(last=False)
            self._n_closed -= len(oldest.panes)


def _matching(listing: _SeriesListing, wanted: Sequence[Mapping[str, Any]]) -> list[EstimateKey]:
    keys: dict[EstimateKey, None] = {}
    for fields in wanted:
        for key in listing.by_pipeline.get(fields["pipeline"], ()):
            if all(getattr(key, name) == value for name, value in fields.items()):
                keys[key] = None
    return list(keys)


def _most_panes(span: TimeRange, length_ms: int, options: HistoryOptions) -> int:
    if length_ms == options.recent_ms:
        return options.recent_kept
    return max((to_milliseconds(utc_now()) - span.start_ms) // length_ms, 0) + 3


def _first_pane(span: TimeRange, length_ms: int, options: HistoryOptions) -> int:
    return 0 if length_ms == options.recent_ms else span.start_ms // length_ms


def _listed(listed: bytes | None, key: str) -> ListedPanes:
    with reading(CheckpointField.HISTORY_SERIES + key):
        return ListedPanes() if listed is None else read_listed(listed)


def _first_ms(listed: bytes | None, key: str, options: HistoryOptions) -> int | None:
    lists = _listed(listed, key)
    if lists.first_bucket is None or lists.recent_ms != options.recent_ms:
        return None
    return lists.first_bucket * options.bucket_ms


def _recent_from_ms(
    closed: Sequence[tuple[int, bytes]],
    opened: Sequence[tuple[int, bytes]],
    first_bucket: int | None,
    options: HistoryOptions,
) -> int | None:
    """Return the time from which the recent panes of a series hold all of its values; None without such a time.

    The newest interaction is never before the value that arrives, so a value from after the end of a bucket has arrived
    in a later one. Of the first bucket whose panes are kept, some panes may be gone.

    Args:
        closed: recent panes in the order of their buckets, of which the oldest may be gone.
        opened: recent panes.
        first_bucket: bucket in which the series began, if its older values have recent panes, too.
        options: lengths of panes.
    """
    first = min((bucket_of(pane) for pane, _ in (*closed[:1], *opened)), default=None)
    if first is None:
        return None
    if first == first_bucket and len(closed) < options.recent_kept:
        return 0
    return (first + 1) * options.bucket_ms


def _names(listed: bytes | None, key: str, options: HistoryOptions) -> list[tuple[int, int, str]]:
    lists = _listed(listed, key)
    kinds = [(FINE, options.fine_ms, lists.fine), (COARSE, options.coarse_ms, lists.coarse)]
    if lists.recent_ms == options.recent_ms:
        kinds.append((RECENT, options.recent_ms, lists.recent))
    return [
        (place, pane, f"{CheckpointField.HISTORY}{length}:{pane}:{key}")
        for place, length, panes in kinds
        for pane in panes
    ]
