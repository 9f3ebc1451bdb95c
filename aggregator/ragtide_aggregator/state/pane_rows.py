"""Rows of moments, each of one key in one pane of event time; windows and the history consist of them. No I/O."""

import struct
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..statistics.means.clusters import ClusterTable
from ..statistics.means.moments import Moments, MomentTable
from ..statistics.means.sampling_weights import SampledSums, SamplingWeights
from ..statistics.tables.batches import Floats, Rows, distinct, grouped
from ..statistics.tables.tables import doubled
from .closed_clusters import ClosedClusters
from .weight_rows import add_clusters, add_values

_COUNT: Final = struct.Struct("<q")
_PLAIN: Final = np.dtype([("absent", "<i8"), ("moments", f"V{MomentTable.SIZE}")])
"""A pane without clusters and sampled values."""


class Pooled(NamedTuple):
    """The numbers of groups of panes; arrays with one element per group."""

    moments: Moments
    n_absent: Rows
    sampled: SampledSums | None
    """Sums over the values that were sampled from the traffic; None without any."""


class PaneRows:
    """The panes of keys: moments, sums over clusters and over sampled values, and number of absences.

    A pane is named by the row of its key and its number. Its place in the tables is used again after the pane is gone.
    """

    def __init__(self) -> None:
        self._moments = MomentTable(bounded=False)
        self._clusters = ClusterTable()
        self._weights = SamplingWeights()
        self._n_absent = np.zeros(16, dtype=np.int64)
        self._of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()

    def numbers(self, row: int) -> Collection[int]:
        """Return the numbers of the panes of a row."""
        return self._of[row].keys() if row in self._of else ()

    def add_values(self, batch: EventBatch, panes: Rows, before: Floats, some: Rows | None = None) -> Rows:
        """Add values of a batch to their panes, and return their rows.

        Args:
            batch: events.
            panes: number of the pane of each part.
            before: for each value the mean of its key before it, which predicts the first value of a pane.
            some: places of the values to add; all unless given.
        """
        of = batch.part_of
        if some is None:
            rows = batch.rows
            places, one_each = self._places(rows, panes[of])
            by_row = batch.grouped
            # If every row has only one pane, values sorted by row are also sorted by pane.
            by_pane = replace(by_row, rows=places[by_row.order[by_row.starts]]) if one_each else grouped(places)
            self._moments.update(places, batch.values, before, by_pane)
        else:
            rows, of = batch.rows[some], of[some]
            places, _ = self._places(rows, panes[of])
            self._moments.update(places, batch.values[some], before[some])
        add_values(self._weights, batch, places, some)
        return rows

    def begin_clusters(self, rows: Sequence[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        for row in rows:
            for pane, place in self._of[row].items():
                self._clusters.begin(place, *self._moments.exact(place))
                self._weights.begin_clusters(place)
                self._changed.add((row, pane))

    def add_clusters(self, closed: ClosedClusters, panes: Rows, some: Rows) -> Rows:
        """Add closed clusters to their panes, and return their rows.

        Args:
            closed: clusters.
            panes: number of the pane of each.
            some: places of those to add; at least one.
        """
        rows = closed.rows[some]
        places, _ = self._places(rows, panes[some])
        self._clusters.update(places, closed.sizes[some], closed.totals[some])
        if closed.sampled is not None:
            of = np.full(closed.rows.size, -1, dtype=np.intp)
            of[some] = places
            kept = of[closed.sampled.places] >= 0
            add_clusters(self._weights, closed.sampled.at(kept), closed, of[closed.sampled.places][kept])
        return rows

    def add_absences(self, rows: Rows, panes: Rows) -> None:
        """Count absences, each given by the row of its key and its pane."""
        places, _ = self._places(rows, panes)
        np.add.at(self._n_absent, places, 1)

    def _places(self, rows: Rows, panes: Rows) -> tuple[Rows, bool]:
        """Return the place of each value's pane, and whether every row has only one pane."""
        if not rows.size:
            return rows, True
        # Each pair is packed into one number, because that sorts faster than two.
        most, first = int(rows.max()) + 1, int(panes.min())
        numbers, inverse, _ = distinct((panes - first) * most + rows)
        pairs = [(number % most, number // most + first) for number in numbers.tolist()]
        self._changed.update(pairs)
        places = np.array([self._place(row, pane) for row, pane in pairs], dtype=np.intp)
        return places[inverse], len({row for row, _ in pairs}) == len(pairs)

    def _place(self, row: int, pane: int) -> int:
        of = self._of[row]
        place = of.get(pane)
        if place is not None:
            return place
        place = self._free.pop() if self._free else self._new()
        of[pane] = place
        self._gone.discard((row, pane))
        return place

    def _new(self) -> int:
        place = self._moments.add_row()
        self._clusters.add_row()
        if place == self._n_absent.size:
            self._n_absent = doubled(self._n_absent)
        return place

    def drop(self, row: int, pane: int) -> None:
        """Remove a pane."""
        place = self._of[row].pop(pane)
        self._moments.clear(place)
        self._clusters.clear(place)
        self._weights.clear(place)
        self._n_absent[place] = 0
        self._free.append(place)
        self._changed.discard((row, pane))
        self._gone.add((row, pane))

    def merge_pane(self, row: int, pane: int, other: "PaneRows", other_row: int, other_pane: int) -> None:
        """Add a pane of other rows to a pane."""
        place, other_place = self._place(row, pane), other._of[other_row][other_pane]
        self._moments.merge(place, other._moments, other_place)
        self._clusters.merge(place, other._clusters, other_place)
        self._weights.merge(place, other._weights, other_place)
        self._n_absent[place] += other._n_absent[other_place]
        self._changed.add((row, pane))

    def merge_row(self, row: int, other: "PaneRows", other_row: int) -> None:
        """Add all panes of the same key in other rows."""
        for pane in [*other.numbers(other_row)]:
            self.merge_pane(row, pane, other, other_row, pane)

    def pooled(self, groups: Sequence[Sequence[tuple[int, int]]]) -> Pooled:
        """Return the numbers of groups of panes, each given by its row and number; a group may be empty."""
        nothing = self._free[-1] if self._free else self._new()
        if not self._free:
            self._free.append(nothing)
        places: list[int] = []
        starts = []
        for panes in groups:
            starts.append(len(places))
            places += [self._of[row][pane] for row, pane in panes] or [nothing]
        index, begins = np.array(places, dtype=np.intp), np.array(starts, dtype=np.intp)
        if not index.size:
            return Pooled(self._moments.read(index), index, None)
        return Pooled(
            replace(self._moments.pooled(index, begins), clusters=self._clusters.pooled(index, begins)),
            np.add.reduceat(self._n_absent[index], begins),
            self._weights.pooled(index, begins),
        )

    def impossible_pane(self, *, everything: bool) -> tuple[int, int] | None:
        """Return row and number of a pane with a number that is impossible for any values; None without one.

        Args:
            everything: whether to check all panes, and not only the changed panes.
        """
        changed = [(row, pane) for row, of in self._of.items() for pane in of] if everything else list(self._changed)
        places = np.array([self._of[row][pane] for row, pane in changed], dtype=np.intp)
        wrong: NDArray[np.bool_] = self._moments.impossible(places) | (self._n_absent[places] < 0)
        wrong |= self._clusters.impossible(places) | self._weights.impossible(places)
        return changed[int(np.argmax(wrong))] if wrong.any() else None

    def take_panes(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the panes that changed, and those that are gone, since the last call, in order."""
        changed, gone = sorted(self._changed), sorted(self._gone)
        self._changed, self._gone = set(), set()
        return changed, gone

    def to_bytes(self, row: int, pane: int, *, clustered: bool = False) -> bytes:
        """Return a pane as bytes, exactly.

        Args:
            row: of the key.
            pane: number.
            clustered: whether to tell that its values are in clusters even while none of these is closed.
        """
        place = self._of[row][pane]
        data = _COUNT.pack(int(self._n_absent[place])) + self._moments.to_bytes(place)
        if clustered or self._clusters.count(place):
            data += self._clusters.to_bytes(place)
        return data + self._weights.to_bytes(place)

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of a key to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        place = self._place(row, pane)
        (self._n_absent[place],) = _COUNT.unpack_from(data)
        end = _COUNT.size + MomentTable.SIZE
        self._moments.load(place, data[_COUNT.size : end])
        rest = data[end:]
        if _tells_clusters(data):
            self._clusters.load(place, rest[: ClusterTable.SIZE])
            rest = rest[ClusterTable.SIZE :]
        self._weights.load(place, rest)

    def load_panes(self, panes: Sequence[tuple[int, int, bytes]], *, clustered: bool = False) -> None:
        """Set panes, each given by row, number and what `to_bytes` returned; much faster than one by one.

        Args:
            panes: each in a row of its own.
            clustered: whether the values of panes that tell nothing of clusters came before the first cluster.

        Raises: ValueError if the bytes were written by another version.
        """
        plain = []
        for row, pane, data in panes:
            if len(data) == _PLAIN.itemsize:
                plain.append((self._place(row, pane), data))
            else:
                self.load(row, pane, data)
        if plain:
            places = np.array([place for place, _ in plain], dtype=np.intp)
            found = np.frombuffer(b"".join(data for _, data in plain), dtype=_PLAIN)
            self._n_absent[places] = found["absent"]
            self._moments.load_rows(places, found["moments"].tobytes())
        if clustered:
            self.begin_clusters([row for row, _, data in panes if not _tells_clusters(data)])


def _tells_clusters(data: bytes) -> bool:
    return len(data) - _PLAIN.itemsize not in (0, SamplingWeights.SIZE)
