"""History: the moments of chosen keys in panes of event time, handed out when they close. No clock, no I/O.

A fine pane closes when the newest interaction of its pipeline is `lateness_ms` beyond its end; later values are in no
pane, as in windows. The closed pane is handed out once, as a record, and added to its coarse pane. That pane
closes likewise.
"""

import json
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField

from ..events.batch import EventBatch, Scope
from ..events.keys import EstimateKey
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.row_table import RowColumn, RowTable
from ..statistics.tables.windows import Panes, Window
from .options import ClosedPanes, HistoryOptions
from .pane_rows import PaneRows
from .rows import AddedBatch, ClosedClusters, KeyRows, StatePart

_NUMBER: Final = Struct("<q")
_NO_SCOPE: Final = -1
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


def open_panes(fine: Collection[int], coarse: Collection[int]) -> bytes:
    """Return the numbers of the open panes of a series, as the checkpoint lists them."""
    return json.dumps([sorted(fine), sorted(coarse)], separators=(",", ":")).encode()


class _Standing(RowTable):
    # Of every row: whether it has a series, and the number of its pipeline.
    standing = RowColumn(np.int8, stored=False)
    scope = RowColumn(np.intp, fill=_NO_SCOPE, stored=False)


class HistoryRows(StatePart):
    """The open panes of all series, and the panes that closed since the last commit.

    Args:
        options: lengths and choice.
        lateness_ms: milliseconds after its end for which a pane stays open.
        rows: of the state.
        clustered: says of a row whether its values count in clusters.
    """

    kinds = (CheckpointField.HISTORY_SERIES, CheckpointField.HISTORY)

    def __init__(
        self, options: HistoryOptions, lateness_ms: int, rows: KeyRows, clustered: Callable[[int], bool]
    ) -> None:
        self.options = options
        self._rows = rows
        self._panes = Panes((Window("fine", options.fine_ms, options.fine_ms),), lateness_ms)
        self._lateness_ms = lateness_ms
        # A reader must distinguish a pane before the first cluster of its pipeline from one with only open clusters.
        self._clustered = clustered
        self.fine, self.coarse = PaneRows(), PaneRows()
        self._table = _Standing()
        self._pipelines: dict[str, int] = {}
        # By pipeline: its series, and the first fine pane that may be open.
        self._series: list[list[int]] = []
        self._first_open: list[int] = []
        self.count = 0
        """Number of series."""
        self.refused = 0
        """Number of keys that have no series because of `series_max`."""
        self._new: list[int] = []
        self._listed: dict[int, bytes] = {}
        self._closed: dict[tuple[int, int], ClosedPanes] = {}

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        self._table.add_row()
        if key.run is None:
            scope = self._table.scope[row] = self._pipelines.setdefault(key.pipeline, len(self._series))
            if scope == len(self._series):
                self._series.append([])
                self._first_open.append(0)
        if self.options.may_have_series(key):
            self._table.standing[row] = _NOT_YET

    def has(self, row: int) -> bool:
        """Return whether a row has a series."""
        return bool(self._table.standing[row] == _KEPT)

    def _admit(self, rows: Rows) -> None:
        """Give series to rows with their first value, in the order of the values, up to `series_max`."""
        for row in dict.fromkeys(rows[self._table.standing[rows] == _NOT_YET].tolist()):
            if self.count >= self.options.series_max:
                self._table.standing[row] = _REFUSED
                self.refused += 1
            else:
                self._keep(row)
                self._new.append(row)

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
        self._admit(batch.rows)
        late = self._panes.late(batch.times_ms, batch.newest_ms)
        some = np.flatnonzero((self._table.standing[batch.rows] == _KEPT) & ~late[batch.part_of])
        if some.size:
            self.fine.add_values(batch, self._panes.pane(batch.times_ms), before, some)
        if closed is None:
            return
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[closed.parts]
        in_time = ~self._panes.late(closed.times_ms, newest_ms)
        some = np.flatnonzero((self._table.standing[closed.rows] == _KEPT) & in_time)
        if some.size:
            self.fine.add_clusters(closed, self._panes.pane(closed.times_ms), some)

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        kept = [row for row in rows if self.has(row)]
        self.fine.begin_row_clusters(kept)
        self.coarse.begin_row_clusters(kept)

    def _close(self, batch: EventBatch) -> None:
        parts = np.flatnonzero(np.diff(batch.starts))
        scopes = self._table.scope[batch.rows[batch.starts[parts]]]
        # Of the batch, because the newest time of the state may be that of later parts.
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[parts]
        for scope in np.unique(scopes[scopes != _NO_SCOPE]).tolist():
            over_ms = int(newest_ms[scopes == scope].max()) - self._lateness_ms
            first_open = over_ms // self.options.fine_ms
            if first_open > self._first_open[scope]:
                self._first_open[scope] = first_open
                for series in self._series[scope]:
                    self._close_series(series, first_open, over_ms // self.options.coarse_ms)

    def _close_series(self, row: int, fine: int, coarse: int) -> None:
        """Close the panes of a row below these numbers, in their order, so that sums do not depend on the commits."""
        options = self.options
        ratio = options.coarse_ms // options.fine_ms
        for pane in sorted(pane for pane in self.fine.numbers(row) if pane < fine):
            self._hand_out(self.fine, row, pane, options.fine_ms)
            self.coarse.merge_pane(row, pane // ratio, self.fine, row, pane)
            self.fine.drop(row, pane)
        for pane in sorted(pane for pane in self.coarse.numbers(row) if pane < coarse):
            self._hand_out(self.coarse, row, pane, options.coarse_ms)
            self.coarse.drop(row, pane)

    def _hand_out(self, panes: PaneRows, row: int, pane: int, length_ms: int) -> None:
        kept = self.options.kept(length_ms)
        closed = self._closed.get((row, length_ms))
        if closed is None:
            name = series_name(self._rows.name(row), length_ms)
            closed = self._closed[row, length_ms] = ClosedPanes(name, kept, self.options.expire_ms)
        (data,) = panes.bytes_of([(row, pane)], clustered=self._clustered)
        closed.records.append(record_of(pane, data))
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
        touched, self._new = set(self._new), []
        for panes, length_ms in ((self.fine, self.options.fine_ms), (self.coarse, self.options.coarse_ms)):
            changed, dropped = panes.take_panes()
            touched.update(row for row, _ in (*changed, *dropped))
            names = [self._name(length_ms, row, pane) for row, pane in changed]
            fields |= zip(names, panes.bytes_of(changed, clustered=self._clustered), strict=True)
            gone += [self._name(length_ms, row, pane) for row, pane in dropped]
        for row in sorted(touched):
            listed = open_panes(self.fine.numbers(row), self.coarse.numbers(row))
            if self._listed.get(row) != listed:
                fields[CheckpointField.HISTORY_SERIES + self._rows.name(row)] = self._listed[row] = listed
        return fields, gone

    def _name(self, length_ms: int, row: int, pane: int) -> str:
        return f"{CheckpointField.HISTORY}{length_ms}:{pane}:{self._rows.name(row)}"

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        if kind == CheckpointField.HISTORY_SERIES:
            row = self._rows.named(name)
            if self._table.standing[row] == _NOT_YET:
                self._keep(row)
            return self.has(row)
        length, pane, key = name.split(":", 2)
        row, length_ms = self._rows.named(key), int(length)
        if not self.has(row) or length_ms not in (self.options.fine_ms, self.options.coarse_ms):
            return False
        (self.fine if length_ms == self.options.fine_ms else self.coarse).load(row, int(pane), data)
        return True

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of an open pane with a number that is impossible for any values; None without one."""
        for panes, length_ms in ((self.fine, self.options.fine_ms), (self.coarse, self.options.coarse_ms)):
            found = panes.impossible_pane(everything=everything)
            if found is not None:
                return self._name(length_ms, *found)
        return None
