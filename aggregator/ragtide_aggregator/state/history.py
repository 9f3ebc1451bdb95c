"""History: the moments of chosen keys in panes of event time, handed out when they close. No clock, no I/O.

A series begins with the first value or pair of its key, so that a metric without any has none. Absences before that are
counted in the numbers of all time only: the coverage of a range is without them.

A fine pane closes when the newest interaction of its pipeline is `lateness_ms` beyond its end; later values are in no
pane, as in windows. The closed pane is handed out once, as a record, and added to its coarse pane. That pane
closes likewise.

The same values are in recent panes, which are seconds long. A pane of seconds cannot stay open until no value comes too
late: there would be hundreds of open ones. So its values are divided by the bucket of their arrival: the minute that
holds the newest interaction of the pipeline when they come. A recent pane is therefore one stretch of event time in one
bucket; it closes with its bucket, and a late value makes one more pane of the same stretch. A reader adds these up. The
events alone decide pane and bucket, so recent panes do not depend on batches, either.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from struct import Struct
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..events.batch import EventBatch, Scope
from ..events.keys import EstimateKey, PairKey
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.panes import Panes
from ..statistics.tables.row_table import RowColumn, RowTable
from ..statistics.tables.windows import Window
from .options import BUCKET_PANES, ClosedPanes, HistoryOptions
from .pairs import PairRows
from .pane_rows import PairPanes, PanePlaces, PaneRows
from .rows import AddedBatch, ClosedClusters, ClosedPairs, KeyRows, StatePart

_NUMBER: Final = Struct("<q")
_NO_SCOPE: Final = -1
PAIRS_BEGIN: Final = "[["
"""The name of a series of pairs begins with this, because its key begins with a key."""

_SLOTS: Final = 4096
# Stretches that the number of a recent pane has room for: those that end with its bucket.

_NEVER, _NOT_YET, _REFUSED, _KEPT = 0, 1, 2, 3


def series_name(key: str, length_ms: int) -> str:
    """Return the end of the name of the list of a series' closed panes.

    Args:
        key: as `EstimateKey.encode` writes it.
        length_ms: length of the panes.
    """
    return f"{series_digest(key)}:{length_ms}"


def series_digest(key: str) -> str:
    """Return the 32 characters by which the lists of a key are named."""
    return blake2b(key.encode(), digest_size=16).hexdigest()


def record_of(pane: int, data: bytes) -> bytes:
    """Return the record of a closed pane, given its number and its bytes."""
    return _NUMBER.pack(pane) + data


def pane_of(record: bytes) -> tuple[int, bytes]:
    """Return number and bytes of the pane of a record."""
    (pane,) = _NUMBER.unpack_from(record)
    return pane, record[_NUMBER.size :]


def recent_panes(times_ms: Rows, newest_ms: Rows, options: HistoryOptions) -> Rows:
    """Return the numbers of recent panes, in the order of buckets and then of stretches.

    Args:
        times_ms: event times.
        newest_ms: newest time of the pipeline when each arrives, its own among them.
        options: lengths of panes; with recent ones.
    """
    buckets = newest_ms // options.bucket_ms
    return buckets * _SLOTS + (_SLOTS - 1) - ((buckets + 1) * BUCKET_PANES - 1 - times_ms // options.recent_ms)


def bucket_of(pane: int) -> int:
    """Return the bucket in which the values of a recent pane arrived."""
    return pane // _SLOTS


def start_of(pane: int, length_ms: int, options: HistoryOptions) -> int:
    """Return the start of a pane of some length in event time, in milliseconds."""
    if length_ms != options.recent_ms:
        return pane * length_ms
    bucket, slot = divmod(pane, _SLOTS)
    return ((bucket + 1) * BUCKET_PANES - _SLOTS + slot) * length_ms


def keeps_late(options: HistoryOptions, lateness_ms: int) -> bool:
    """Return whether recent panes have room for every value that is in time for a fine pane."""
    return lateness_ms + options.fine_ms + options.bucket_ms <= (_SLOTS - BUCKET_PANES) * options.recent_ms


class ListedPanes(NamedTuple):
    """What the checkpoint lists of a series: its open panes, and since when it has recent ones."""

    fine: Collection[int] = ()
    coarse: Collection[int] = ()
    recent: Collection[int] = ()
    recent_ms: int = 0
    """Length of the recent panes; 0 for none."""
    first_bucket: int | None = None
    """Bucket in which the series began; None if older values have no recent pane."""


def listed_panes(listed: ListedPanes) -> bytes:
    """Return the bytes with which the checkpoint lists the open panes of a series."""
    lists: list[Any] = [sorted(listed.fine), sorted(listed.coarse)]
    if listed.recent_ms:
        lists += [sorted(listed.recent), listed.recent_ms, listed.first_bucket]
    return json.dumps(lists, separators=(",", ":")).encode()


def read_listed(data: bytes) -> ListedPanes:
    """Return what `listed_panes` wrote.

    Raises: ValueError if it is something else.
    """
    return ListedPanes(*json.loads(data))


class _Standing(RowTable):
    # Of every row: whether it has a series, and the number of its pipeline.
    standing = RowColumn(np.int8, stored=False)
    scope = RowColumn(np.intp, fill=_NO_SCOPE, stored=False)


AnyPanes = TypeVar("AnyPanes", bound=PanePlaces)


class OpenSeries(Generic[AnyPanes]):
    """The open panes of series of one kind, by row, and the panes that closed since the last commit.

    Args:
        options: lengths of the panes, and how many closed ones are kept.
        panes: makes the tables of open panes.
        name: returns the name of the series of a row.
        bytes_of: returns panes as bytes.
    """

    def __init__(
        self,
        options: HistoryOptions,
        panes: Callable[[], AnyPanes],
        name: Callable[[int], str],
        bytes_of: Callable[[AnyPanes, Sequence[tuple[int, int]]], list[bytes]],
    ) -> None:
        self._options = options
        self.fine, self.coarse, self.recent = panes(), panes(), panes()
        self._name, self._bytes_of = name, bytes_of
        self.new: list[int] = []
        """Rows that have a series since the last commit."""
        self._listed: dict[int, bytes] = {}
        self._closed: dict[tuple[int, int], ClosedPanes] = {}

        self._first_buckets: dict[int, int | None] = {}

    @property
    def _all(self) -> Sequence[tuple[AnyPanes, int]]:
        options = self._options
        kinds = (self.fine, options.fine_ms), (self.coarse, options.coarse_ms), (self.recent, options.recent_ms)
        return kinds if options.recent_ms else kinds[:2]

    @property
    def count(self) -> int:
        """Number of series."""
        return len(self._first_buckets)

    def begin(self, row: int, bucket: int | None) -> None:
        """Begin a series, unless it has begun. The next commit lists it, though its first value may be in no pane.

        Args:
            bucket: in which its first value arrived, even if too late for a pane; None without recent panes.
        """
        if row not in self._first_buckets:
            self._first_buckets[row] = bucket
            self.new.append(row)

    def close(self, row: int, fine: int, coarse: int) -> None:
        """Close the panes of a row below these numbers, in their order, so that sums do not depend on the commits."""
        ratio = self._options.coarse_ms // self._options.fine_ms
        for pane in sorted(pane for pane in self.fine.numbers(row) if pane < fine):
            self._hand_out(self.fine, [(row, pane)], self._options.fine_ms)
            self.coarse.merge_pane(row, pane // ratio, self.fine, row, pane)
            self.fine.drop([(row, pane)])
        for pane in sorted(pane for pane in self.coarse.numbers(row) if pane < coarse):
            self._hand_out(self.coarse, [(row, pane)], self._options.coarse_ms)
            self.coarse.drop([(row, pane)])

    def close_recent(self, buckets: Mapping[int, int]) -> None:
        """Close recent panes, those of each row in the order of their numbers.

        Args:
            buckets: by row, the bucket before which the panes that are to be closed arrived.
        """
        over = [
            (row, pane)
            for row, bucket in buckets.items()
            for pane in sorted(pane for pane in self.recent.numbers(row) if bucket_of(pane) < bucket)
        ]
        if over:
            self._hand_out(self.recent, over, self._options.recent_ms)
            self.recent.drop(over)

    def _hand_out(self, panes: AnyPanes, over: Sequence[tuple[int, int]], length_ms: int) -> None:
        """Hand out panes, each given by its row and number; those of a row are side by side."""
        kept = self._options.kept(length_ms)
        numbered = zip(over, self._bytes_of(panes, over), strict=True)
        for row, of_row in groupby(numbered, key=lambda pane: pane[0][0]):
            closed = self._closed.get((row, length_ms))
            if closed is None:
                name = series_name(self._name(row), length_ms)
                closed = self._closed[row, length_ms] = ClosedPanes(name, kept, self._options.expire_ms)
            closed.records.extend(record_of(pane, data) for (_, pane), data in of_row)
            if len(closed.records) > 2 * kept:
                # A replay may close years of panes in one step.
                del closed.records[:-kept]

    def take_closed(self) -> list[ClosedPanes]:
        """Return the panes that closed since the last call."""
        closed, self._closed = [*self._closed.values()], {}
        return closed

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return open panes and lists of open panes to write, and names of closed panes."""
        fields: dict[str, bytes] = {}
        gone: list[str] = []
        touched, self.new = set(self.new), []
        for panes, length_ms in self._all:
            touched |= panes.moved
            changed, dropped = panes.take_panes()
            names = [self._field(length_ms, row, pane) for row, pane in changed]
            fields |= zip(names, self._bytes_of(panes, changed), strict=True)
            gone += [self._field(length_ms, row, pane) for row, pane in dropped]
        for row in sorted(touched):
            listed = listed_panes(
                ListedPanes(
                    self.fine.numbers(row), self.coarse.numbers(row), self.recent.numbers(row),
                    self._options.recent_ms, self._first_buckets.get(row),
                )
            )  # fmt: skip
            if self._listed.get(row) != listed:
                fields[CheckpointField.HISTORY_SERIES + self._name(row)] = self._listed[row] = listed
        return fields, gone

    def _field(self, length_ms: int, row: int, pane: int) -> str:
        return f"{CheckpointField.HISTORY}{length_ms}:{pane}:{self._name(row)}"

    def load_listed(self, row: int, data: bytes) -> None:
        """Take note of a series that the checkpoint lists."""
        listed = read_listed(data)
        same = listed.recent_ms == self._options.recent_ms
        self._first_buckets[row] = listed.first_bucket if same else None

    def load(self, row: int, pane: int, length_ms: int, data: bytes) -> bool:
        """Set an open pane to its bytes; return False if the settings have no panes of this length."""
        for panes, length in self._all:
            if length == length_ms:
                panes.load(row, pane, data)
                return True
        return False

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of an open pane with a number that is impossible for any values; None without one."""
        for panes, length_ms in self._all:
            pane = panes.impossible_pane(everything=everything)
            if pane is not None:
                return self._field(length_ms, *pane)
        return None


class HistoryRows(StatePart):
    """The open panes of all series, and the panes that closed since the last commit.

    The pairs of a key that has a series have series, too, under the key of the pairs.

    Args:
        options: lengths and choice.
        lateness_ms: milliseconds after its end for which a pane stays open.
        clustered: says of a row whether its values count in clusters.
    """

    kinds = (CheckpointField.HISTORY_SERIES, CheckpointField.HISTORY)

    def __init__(
        self,
        options: HistoryOptions,
        lateness_ms: int,
        rows: KeyRows,
        pairs: PairRows,
        clustered: Callable[[int], bool],
    ) -> None:
        self.options = options
        self._rows, self._pairs = rows, pairs
        self._panes = Panes((Window("fine", options.fine_ms, options.fine_ms),), lateness_ms)
        self._lateness_ms = lateness_ms
        # A reader must distinguish a pane before the first cluster of its pipeline from one with only open clusters.
        self.values = OpenSeries(options, PaneRows, rows.name, lambda panes, some: panes.bytes_of(some, clustered))
        self.pairs = OpenSeries(options, PairPanes, lambda row: pairs.keys[row].encode(), PairPanes.bytes_of)
        self._table = _Standing()
        self._pipelines: dict[str, int] = {}
        # By pipeline: its series, the first fine pane that may be open, and the newest bucket.
        self._series: list[list[int]] = []
        self._first_open: list[int] = []
        self._buckets: list[int] = []
        self.count = 0
        """Number of series of values."""
        self.refused = 0
        """Number of keys that have no series because of `series_max`."""

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        self._table.add_row()
        if key.run is None:
            scope = self._table.scope[row] = self._pipelines.setdefault(key.pipeline, len(self._series))
            if scope == len(self._series):
                self._series.append([])
                self._first_open.append(0)
                self._buckets.append(0)
        if self.options.may_have_series(key):
            self._table.standing[row] = _NOT_YET

    def has(self, row: int) -> bool:
        """Return whether a row has a series."""
        return bool(self._table.standing[row] == _KEPT)

    def _admit(self, batch: EventBatch) -> dict[int, int]:
        rows, parts = batch.rows, batch.part_of
        if batch.pairs.size:
            # A metric that its labeler cannot score has a history where a judge is asked about it.
            rows = np.concatenate([rows, self._proxies(batch.pairs)])
            parts = np.concatenate([parts, batch.pairs_of])
        waiting = np.flatnonzero(self._table.standing[rows] == _NOT_YET)
        waiting = waiting[np.argsort(parts[waiting], kind="stable")]
        begun: dict[int, int] = {}
        for row, part in zip(rows[waiting].tolist(), parts[waiting].tolist(), strict=True):
            if self._table.standing[row] != _NOT_YET:
                continue
            if self.count >= self.options.series_max:
                self._table.standing[row] = _REFUSED
                self.refused += 1
            else:
                self._keep(row)
                begun[row] = part
        return begun

    def _keep(self, row: int) -> None:
        self._table.standing[row] = _KEPT
        self._series[self._table.scope[row]].append(row)
        self.count += 1

    def take(self, added: AddedBatch) -> None:
        """Add a batch, and the clusters that it closed, to open panes, and close those whose time is over.

        Values that came too late are in no pane.
        """
        self._add(added.batch, added.closed, added.before)
        self._close(added.batch)

    def _add(self, batch: EventBatch, closed: ClosedClusters | None, before: Floats) -> None:
        begun = self._admit(batch)
        late = self._panes.late(batch.times_ms, batch.newest_ms)
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)
        for row, part in begun.items():
            self.values.begin(row, self._bucket(int(newest_ms[part])))
        fine, recent = self._numbers(batch.times_ms, newest_ms)
        some = np.flatnonzero((self._table.standing[batch.rows] == _KEPT) & ~late[batch.part_of])
        if some.size:
            self.values.fine.add_values(batch, fine, before, some)
            if recent is not None:
                self.values.recent.add_values(batch, recent, before, some)
        some = np.flatnonzero((self._table.standing[batch.absent] == _KEPT) & ~late[batch.absent_of])
        if begun and some.size:
            first = np.array([begun.get(row, 0) for row in batch.absent[some].tolist()], dtype=np.intp)
            some = some[batch.absent_of[some] >= first]
        if some.size:
            self.values.fine.add_absences(batch.absent[some], fine[batch.absent_of[some]])
            if recent is not None:
                self.values.recent.add_absences(batch.absent[some], recent[batch.absent_of[some]])
        if batch.pairs.size:
            kept = self._have_series(batch.pairs)
            self._begin_pairs(batch.pairs[kept], newest_ms[batch.pairs_of[kept]])
            paired = np.flatnonzero(kept & ~late[batch.pairs_of])
            pairs, parts, scores = batch.pairs[paired], batch.pairs_of[paired], batch.scores[:, paired]
            self.pairs.fine.add(pairs, fine[parts], scores, self._pairs.is_clustered)
            if recent is not None:
                self.pairs.recent.add(pairs, recent[parts], scores, self._pairs.is_clustered)
        if closed is None:
            return
        closed_newest_ms = newest_ms[closed.parts]
        in_time = ~self._panes.late(closed.times_ms, closed_newest_ms)
        fine, recent = self._numbers(closed.times_ms, closed_newest_ms)
        some = np.flatnonzero((self._table.standing[closed.rows] == _KEPT) & in_time)
        if some.size:
            self.values.fine.add_clusters(closed, fine, some)
            if recent is not None:
                self.values.recent.add_clusters(closed, recent, some)
        if closed.pairs is not None:
            self._add_closed_pairs(batch, closed, closed.pairs)

    def _numbers(self, times_ms: Rows, newest_ms: Rows) -> tuple[Rows, Rows | None]:
        fine = self._panes.pane(times_ms)
        return fine, recent_panes(times_ms, newest_ms, self.options) if self.options.recent_ms else None

    def _bucket(self, newest_ms: int) -> int | None:
        return newest_ms // self.options.bucket_ms if self.options.recent_ms else None

    def _begin_pairs(self, pairs: Rows, newest_ms: Rows) -> None:
        # The newest time only grows, so a batch's pairs begin at the least, in whatever order they are.
        order = np.argsort(newest_ms, kind="stable")
        rows, firsts = np.unique(pairs[order], return_index=True)
        for row, first_ms in zip(rows.tolist(), newest_ms[order][firsts].tolist(), strict=True):
            self.pairs.begin(row, self._bucket(first_ms))

    def _proxies(self, pairs: Rows) -> Rows:
        return np.array([self._pairs.proxy(row) for row in pairs.tolist()], dtype=np.intp)

    def _have_series(self, pairs: Rows) -> NDArray[np.bool_]:
        return np.asarray(self._table.standing[self._proxies(pairs)] == _KEPT)

    def _add_closed_pairs(self, batch: EventBatch, closed: ClosedClusters, pairs: ClosedPairs) -> None:
        of_clusters, clusters = self._pairs.of_clusters(closed, pairs)
        parts, times_ms = pairs.at_clusters(clusters)
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[parts]
        some = self._have_series(of_clusters.cluster_rows) & ~self._panes.late(times_ms, newest_ms)
        if some.any():
            fine, recent = self._numbers(times_ms[some], newest_ms[some])
            self.pairs.fine.add_closed(of_clusters.at(some), fine)
            if recent is not None:
                self.pairs.recent.add_closed(of_clusters.at(some), recent)

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        kept = [row for row in rows if self.has(row)]
        paired = [pair for row in kept for pair in self._pairs.of(row)]
        for values, pairs in (
            (self.values.fine, self.pairs.fine),
            (self.values.coarse, self.pairs.coarse),
            (self.values.recent, self.pairs.recent),
        ):
            values.begin_row_clusters(kept)
            pairs.begin_clusters(paired)

    def _close(self, batch: EventBatch) -> None:
        parts = np.flatnonzero(np.diff(batch.starts))
        scopes = self._table.scope[batch.rows[batch.starts[parts]]]
        # Of the batch, because the newest time of the state may be that of later parts.
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[parts]
        over, pairs_over = dict[int, int](), dict[int, int]()
        for scope in np.unique(scopes[scopes != _NO_SCOPE]).tolist():
            newest = int(newest_ms[scopes == scope].max())
            over_ms = newest - self._lateness_ms
            first_open = over_ms // self.options.fine_ms
            if first_open > self._first_open[scope]:
                self._first_open[scope] = first_open
                for row in self._series[scope]:
                    self.values.close(row, first_open, over_ms // self.options.coarse_ms)
                    for pair in self._pairs.of(row):
                        self.pairs.close(pair, first_open, over_ms // self.options.coarse_ms)
            if not self.options.recent_ms:
                continue
            bucket = newest // self.options.bucket_ms
            if bucket > self._buckets[scope]:
                self._buckets[scope] = bucket
                over |= dict.fromkeys(self._series[scope], bucket)
                pairs_over |= {pair: bucket for row in self._series[scope] for pair in self._pairs.of(row)}
        self.values.close_recent(over)
        self.pairs.close_recent(pairs_over)

    def take_closed(self) -> list[ClosedPanes]:
        """Return the panes that closed since the last call."""
        return self.values.take_closed() + self.pairs.take_closed()

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return open panes and lists of open panes to write, and names of closed panes."""
        (fields, gone), (of_pairs, gone_pairs) = self.values.take_changes(), self.pairs.take_changes()
        return fields | of_pairs, gone + gone_pairs

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set open panes to fields of one kind; a series of pairs comes after the series of its proxy scores."""
        return super().load_fields(kind, sorted(fields, key=lambda field: PAIRS_BEGIN in field[0]))

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        length, pane, key = ("", "", name) if kind == CheckpointField.HISTORY_SERIES else name.split(":", 2)
        series: OpenSeries[Any]
        if key.startswith(PAIRS_BEGIN):
            series, row = self.pairs, self._pairs.row(PairKey.decode(key))
            is_kept = self.has(self._pairs.proxy(row))
        else:
            series, row = self.values, self._rows.named(key)
            if not length and self._table.standing[row] == _NOT_YET:
                self._keep(row)
            is_kept = self.has(row)
        if is_kept and not length:
            series.load_listed(row, data)
        return is_kept and (not length or series.load(row, int(pane), int(length), data))

    def complete(self) -> None:
        """Take note that the open panes were opened before: the checkpoint lists them."""
        for series in (self.values, self.pairs):
            series.fine.moved, series.coarse.moved, series.recent.moved = set(), set(), set()

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of an open pane with a number that is impossible for any values; None without one."""
        return self.values.damaged_field(everything=everything) or self.pairs.damaged_field(everything=everything)
