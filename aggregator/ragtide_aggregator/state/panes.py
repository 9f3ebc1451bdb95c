"""Panes: the moments of every key in short stretches of event time, from which windows are built. No clock, no I/O."""

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..events.keys import EstimateKey
from ..statistics.batches import Floats, Rows, distinct, grouped
from ..statistics.clusters import ClusterTable
from ..statistics.moments import Moments, MomentTable
from ..statistics.sampling_weights import SampledSums, SamplingWeights
from ..statistics.tables import doubled
from ..statistics.windows import Panes, Window
from .closed_clusters import ClosedClusters
from .rows import KeyRows
from .weight_rows import add_clusters, add_values

_COUNT: Final = struct.Struct("<q")


class Covered(NamedTuple):
    """The numbers of some keys in one window; arrays with one element per key."""

    moments: Moments
    n_absent: Rows
    n_processed: Rows
    sampled: SampledSums | None
    """Sums over the values that were sampled from the traffic; None without any."""


class PaneTable:
    """The panes of all keys.

    A pane of a key is a row of moments, with the number of absences. Rows of panes that no window needs any more are
    used again. Values are also counted in panes of processing time, which are separate: when old interactions are
    scored, they are far from the panes of event time.
    """

    def __init__(self, panes: Panes) -> None:
        self._panes = panes
        self._moments = MomentTable(bounded=False)
        self._clusters = ClusterTable()
        self._weights = SamplingWeights()
        self._n_absent = np.zeros(16, dtype=np.int64)
        self._processed: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()
        self._processed_changed: set[int] = set()

    def take(self, batch: EventBatch, late: NDArray[np.bool_], before: Floats) -> None:
        """Add a batch to its panes; values that came too late are in no pane.

        Args:
            batch: events.
            late: whether each part came too late.
            before: for each value the mean of its key before it, which predicts the first value of a pane.
        """
        of = batch.part_of
        pane, processed = self._panes.pane(batch.times_ms), self._panes.pane(batch.processed_ms)
        self._count_processed(batch.rows, processed[of])
        if late.any():
            in_time = np.flatnonzero(~late[of])
            rows, of, values, before = batch.rows[in_time], of[in_time], batch.values[in_time], before[in_time]
            places, _ = self._places(rows, pane[of])
            self._moments.update(places, values, before)
            add_values(self._weights, batch, places, in_time)
        else:
            rows = batch.rows
            places, one_each = self._places(rows, pane[of])
            by_row = batch.grouped
            # If every row has only one pane, values sorted by row are also sorted by pane.
            by_pane = replace(by_row, rows=places[by_row.order[by_row.starts]]) if one_each else grouped(places)
            self._moments.update(places, batch.values, before, by_pane)
            add_values(self._weights, batch, places)
        self._drop_old(rows)
        absent_in_time = ~late[batch.absent_of]
        self._count_absent(batch.absent[absent_in_time], pane[batch.absent_of][absent_in_time])

    def begin_clusters(self, rows: Sequence[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        for row in rows:
            for pane, place in self._of[row].items():
                self._clusters.begin(place, *self._moments.exact(place))
                self._weights.begin_clusters(place)
                self._changed.add((row, pane))

    def take_clusters(self, closed: ClosedClusters, batch: EventBatch) -> None:
        """Add closed clusters to the panes of their last interactions; what is closed too late is in none."""
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[closed.parts]
        in_time = np.flatnonzero(~self._panes.late(closed.times_ms, newest_ms))
        if not in_time.size:
            return
        rows = closed.rows[in_time]
        places, _ = self._places(rows, self._panes.pane(closed.times_ms[in_time]))
        self._clusters.update(places, closed.sizes[in_time], closed.totals[in_time])
        if closed.sampled is not None:
            of = np.full(closed.rows.size, -1, dtype=np.intp)
            of[in_time] = places
            kept = of[closed.sampled.places] >= 0
            add_clusters(self._weights, closed.sampled.at(kept), closed, of[closed.sampled.places][kept])
        self._drop_old(rows)

    def _count_absent(self, rows: Rows, panes: Rows) -> None:
        places, _ = self._places(rows, panes)
        np.add.at(self._n_absent, places, 1)
        self._drop_old(rows)

    def _count_processed(self, rows: Rows, panes: Rows) -> None:
        if not rows.size:
            return
        most, first = int(rows.max()) + 1, int(panes.min())
        numbers, _, counts = distinct((panes - first) * most + rows)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            row, pane = number % most, number // most + first
            of = self._processed[row]
            of[pane] = of.get(pane, 0) + count
            oldest = max(of) - self._panes.kept
            if min(of) <= oldest:
                self._processed[row] = {one: number for one, number in of.items() if one > oldest}
            self._processed_changed.add(row)

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

    def _drop_old(self, rows: Rows) -> None:
        # Only after all values of a batch are added, because a pane may begin and end within one batch.
        for row in distinct(rows)[0].tolist():
            of = self._of[row]
            oldest = max(of) - self._panes.kept
            if min(of) <= oldest:
                for pane in [one for one in of if one <= oldest]:
                    self._drop(row, pane)

    def _new(self) -> int:
        place = self._moments.add_row()
        self._clusters.add_row()
        if place == self._n_absent.size:
            self._n_absent = doubled(self._n_absent)
        return place

    def _drop(self, row: int, pane: int) -> None:
        place = self._of[row].pop(pane)
        self._moments.clear(place)
        self._clusters.clear(place)
        self._weights.clear(place)
        self._n_absent[place] = 0
        self._free.append(place)
        self._changed.discard((row, pane))
        self._gone.add((row, pane))

    def merge(self, row: int, other: "PaneTable", other_row: int) -> None:
        """Add the panes of the same key in another table."""
        for pane, other_place in other._of[other_row].items():
            place = self._place(row, pane)
            self._moments.merge(place, other._moments, other_place)
            self._clusters.merge(place, other._clusters, other_place)
            self._weights.merge(place, other._weights, other_place)
            self._n_absent[place] += other._n_absent[other_place]
        for pane, count in other._processed[other_row].items():
            self._processed[row][pane] = self._processed[row].get(pane, 0) + count

    def covered(self, rows: Iterable[int], start_ms: int, end_ms: int) -> Covered:
        """Return the numbers of each key in a stretch of event time."""
        first, last = start_ms // self._panes.pane_ms, end_ms // self._panes.pane_ms
        nothing = self._free[-1] if self._free else self._new()
        if not self._free:
            self._free.append(nothing)
        places: list[int] = []
        starts = []
        processed = []
        for row in rows:
            starts.append(len(places))
            processed.append(sum(count for pane, count in self._processed[row].items() if first <= pane < last))
            found = [place for pane, place in sorted(self._of[row].items()) if first <= pane < last]
            places += found or [nothing]
        index, groups = np.array(places, dtype=np.intp), np.array(starts, dtype=np.intp)
        if not index.size:
            return Covered(self._moments.read(index), index, index, None)
        return Covered(
            replace(self._moments.pooled(index, groups), clusters=self._clusters.pooled(index, groups)),
            np.add.reduceat(self._n_absent[index], groups),
            np.array(processed, dtype=np.intp),
            self._weights.pooled(index, groups),
        )

    def before(self, rows: Sequence[int], time_ms: int) -> Moments:
        """Return the moments of rows in the panes before the pane that holds a time.

        Only panes count that are kept for the first row: rows without new values hold older ones.
        """
        first = max(self._of[rows[0]], default=0) - self._panes.kept + 1
        end_ms = time_ms // self._panes.pane_ms * self._panes.pane_ms
        return self.covered(rows, min(first * self._panes.pane_ms, end_ms), end_ms).moments

    def windows(self) -> tuple[Window, ...]:
        """Return the windows of the panes."""
        return self._panes.windows

    def impossible(self, keys: Sequence[EstimateKey], *, everything: bool) -> str | None:
        """Return the name of a pane with a number that is impossible for any values; None without one.

        Args:
            keys: key of every row, for the names of panes.
            everything: whether to check all panes, and not only the changed panes.
        """
        changed = [(row, pane) for row, of in self._of.items() for pane in of] if everything else list(self._changed)
        places = np.array([self._of[row][pane] for row, pane in changed], dtype=np.intp)
        wrong = self._moments.impossible(places) | (self._n_absent[places] < 0) | self._clusters.impossible(places)
        wrong |= self._weights.impossible(places)
        if not wrong.any():
            return None
        row, pane = changed[int(np.argmax(wrong))]
        return self._name(keys[row].encode(), pane)

    def take_changes(self, rows: KeyRows) -> tuple[dict[str, bytes], list[str]]:
        """Return panes to write and names of panes to remove, since the last call.

        Args:
            rows: of the state, for the names of panes.
        """
        written = {}
        for row, pane in sorted(self._changed):
            place = self._of[row][pane]
            data = _COUNT.pack(int(self._n_absent[place])) + self._moments.to_bytes(place)
            if self._clusters.count(place):
                data += self._clusters.to_bytes(place)
            data += self._weights.to_bytes(place)
            written[self._name(rows.name(row), pane)] = data
        gone = [self._name(rows.name(row), pane) for row, pane in sorted(self._gone)]
        self._changed, self._gone = set(), set()
        return written, gone

    def _name(self, key: str, pane: int) -> str:
        return f"{self._panes.pane_ms}:{pane}:{key}"

    def take_processed(self, rows: KeyRows) -> dict[str, bytes]:
        """Return the changed counts by processing time since the last call, by name."""
        changed, self._processed_changed = self._processed_changed, set()
        return {
            f"{self._panes.pane_ms}:{rows.name(row)}": json.dumps(sorted(self._processed[row].items())).encode()
            for row in sorted(changed)
        }

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of a key to what `take_changes` wrote.

        Raises: ValueError if the bytes were written by another version.
        """
        place = self._place(row, pane)
        (self._n_absent[place],) = _COUNT.unpack_from(data)
        end = _COUNT.size + MomentTable.ROW_SIZE
        self._moments.load(place, data[_COUNT.size : end])
        rest = data[end:]
        if len(rest) not in (0, SamplingWeights.SIZE):
            self._clusters.load(place, rest[: ClusterTable.SIZE])
            rest = rest[ClusterTable.SIZE :]
        self._weights.load(place, rest)

    def load_processed(self, row: int, data: bytes) -> None:
        """Set the counts by processing time of a key to what `take_processed` wrote."""
        self._processed[row] = dict(json.loads(data))
