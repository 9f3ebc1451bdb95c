"""Rows of moments, each of one key in one pane of event time, of which windows and the history consist. No I/O."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..errors import reading
from ..events.batch import EventBatch, Scope
from ..statistics.intervals.pair_estimates import Powered
from ..statistics.means.clusters import ClusterTable
from ..statistics.means.moments import Moments, MomentTable
from ..statistics.means.sampling_weights import SampledSums, SamplingWeights
from ..statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters, read_pairs
from ..statistics.pairs.prediction_powered import Everything, PairTable
from ..statistics.tables.batches import Floats, Rows, distinct, grouped
from ..statistics.tables.panes import Panes
from ..statistics.tables.row_table import ADD, RowColumn, RowTable
from ..statistics.tables.windows import Window
from .rows import AddedBatch, ClosedClusters, KeyRows, StatePart, add_clusters, add_values


class _Absences(RowTable, what="absences", capacity=16):
    n = RowColumn(np.int64, merge=ADD, least=0)


class Pooled(NamedTuple):
    """The numbers of groups of panes; arrays with one element per group."""

    moments: Moments
    n_absent: Rows
    sampled: SampledSums | None
    """Sums over the values that were sampled from the traffic; None without any."""


_PLAIN: Final = _Absences.SIZE + MomentTable.SIZE
"""Bytes of a pane without clusters and sampled values."""


class PanePlaces:
    """The places of panes in tables. A pane is named by the row of its key and its number.

    Its place is used again after the pane is gone.
    """

    def __init__(self) -> None:
        self._of: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._free: list[int] = []
        self._changed: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()
        self.moved: set[int] = set()
        """Rows with panes that were opened or dropped since the last commit."""

    def _new(self) -> int:
        raise NotImplementedError

    def _clear(self, places: Rows) -> None:
        raise NotImplementedError

    def merge_pane(self, row: int, pane: int, other: Self, other_row: int, other_pane: int) -> None:
        """Add a pane of other rows to a pane."""
        raise NotImplementedError

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of a key to what `bytes_of` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        raise NotImplementedError

    def impossible_pane(self, *, everything: bool) -> tuple[int, int] | None:
        """Return row and number of a pane with a number that is impossible for any values; None without one.

        Args:
            everything: whether to check all panes, and not only the changed panes.
        """
        changed = (
            [(row, pane) for row, panes in self._of.items() for pane in panes] if everything else list(self._changed)
        )
        if not changed:
            return None
        wrong = self._impossible(self._places_of(changed))
        return changed[int(np.argmax(wrong))] if wrong.any() else None

    def _impossible(self, places: Rows) -> NDArray[np.bool_]:
        raise NotImplementedError

    def numbers(self, row: int) -> Collection[int]:
        """Return the numbers of the panes of a row."""
        return self._of[row].keys() if row in self._of else ()

    def _places(self, rows: Rows, panes: Rows) -> tuple[Rows, bool]:
        if not rows.size:
            return rows, True
        # Each pair is packed into one number, because that sorts faster than two.
        most, first = int(rows.max()) + 1, int(panes.min())
        numbers, inverse, _ = distinct((panes - first) * most + rows)
        which = numbers % most
        pairs = list(zip(which.tolist(), (numbers // most + first).tolist(), strict=True))
        self._changed.update(pairs)
        known = [self._of[row].get(pane) for row, pane in pairs]
        places = [self._open(*pair) if place is None else place for pair, place in zip(pairs, known, strict=True)]
        return np.array(places, dtype=np.intp)[inverse], distinct(which)[0].size == which.size

    def _place(self, row: int, pane: int) -> int:
        place = self._of[row].get(pane)
        return self._open(row, pane) if place is None else place

    def _open(self, row: int, pane: int) -> int:
        place = self._of[row][pane] = self._free.pop() if self._free else self._new()
        self.moved.add(row)
        self._gone.discard((row, pane))
        return place

    def _places_of(self, panes: Sequence[tuple[int, int]]) -> Rows:
        return np.array([self._of[row][pane] for row, pane in panes], dtype=np.intp)

    def drop(self, panes: Sequence[tuple[int, int]]) -> None:
        """Remove panes, each given by its row and number."""
        places = [self._of[row].pop(pane) for row, pane in panes]
        self._clear(np.array(places, dtype=np.intp))
        self._free += places
        self.moved.update(row for row, _ in panes)
        self._changed.difference_update(panes)
        self._gone.update(panes)

    def take_panes(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the panes that changed, and those that are gone, since the last call, in order."""
        changed, gone = sorted(self._changed), sorted(self._gone)
        self._changed, self._gone, self.moved = set(), set(), set()
        return changed, gone


class PaneRows(PanePlaces):
    """The panes of keys: moments, sums over clusters and over sampled values, and number of absences."""

    def __init__(self) -> None:
        super().__init__()
        self._moments = MomentTable(bounded=False)
        self._clusters = ClusterTable()
        self._weights = SamplingWeights()
        self._absences = _Absences()

    def _clear(self, places: Rows) -> None:
        for table in (self._moments, self._clusters, self._weights, self._absences):
            table.clear_rows(places)

    def _impossible(self, places: Rows) -> NDArray[np.bool_]:
        wrong = self._moments.impossible(places) | self._absences.impossible(places)
        return np.asarray(wrong | self._clusters.impossible(places) | self._weights.impossible(places))

    def add_values(self, batch: EventBatch, panes: Rows, before: Floats, some: Rows | None = None) -> Rows:
        """Add values of a batch to their panes, and return their rows.

        Args:
            batch: events.
            panes: number of the pane of each part.
            before: for each value the mean of its key before it, which predicts the first value of a pane.
            some: places of the values to add; all unless given.
        """
        parts = batch.part_of
        if some is None:
            rows = batch.rows
            places, one_each = self._places(rows, panes[parts])
            by_row = batch.grouped
            # If every row has only one pane, values sorted by row are also sorted by pane.
            by_pane = replace(by_row, rows=places[by_row.order[by_row.starts]]) if one_each else grouped(places)
            self._moments.update(places, batch.values, before, by_pane)
        else:
            rows, parts = batch.rows[some], parts[some]
            places, _ = self._places(rows, panes[parts])
            self._moments.update(places, batch.values[some], before[some])
        add_values(self._weights, batch, places, some)
        return rows

    def begin_row_clusters(self, rows: Sequence[int]) -> None:
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
            place_of = np.full(closed.rows.size, -1, dtype=np.intp)
            place_of[some] = places
            kept = place_of[closed.sampled.places] >= 0
            add_clusters(self._weights, closed.sampled.at(kept), closed, place_of[closed.sampled.places][kept])
        return rows

    def add_absences(self, rows: Rows, panes: Rows) -> None:
        """Count absences, each given by the row of its key and its pane."""
        places, _ = self._places(rows, panes)
        np.add.at(self._absences.n, places, 1)

    def _new(self) -> int:
        place = self._moments.add_row()
        self._clusters.add_row()
        self._absences.add_row()
        return place

    def merge_pane(self, row: int, pane: int, other: Self, other_row: int, other_pane: int) -> None:
        """Add a pane of other rows to a pane."""
        place, other_place = self._place(row, pane), other._of[other_row][other_pane]
        self._moments.merge(place, other._moments, other_place)
        self._clusters.merge(place, other._clusters, other_place)
        self._weights.merge(place, other._weights, other_place)
        self._absences.merge(place, other._absences, other_place)
        self._changed.add((row, pane))

    def absent(self, groups: Sequence[Sequence[tuple[int, int]]]) -> Rows:
        """Return the number of absences in groups of panes, each given by its row and number."""
        return np.array([self._absences.n[self._places_of(panes)].sum() for panes in groups], dtype=np.int64)

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
            np.add.reduceat(self._absences.n[index], begins),
            self._weights.pooled(index, begins),
        )

    def bytes_of(
        self, panes: Sequence[tuple[int, int]], clustered: Callable[[int], bool] = lambda _row: False
    ) -> list[bytes]:
        """Return panes as bytes, exactly.

        Args:
            panes: each given by its row and number.
            clustered: says of a row whether its values are in clusters even while none of these is closed.
        """
        places = self._places_of(panes)
        plain = zip(self._absences.bytes_of(places), self._moments.bytes_of(places), strict=True)
        fields = [absences + moments for absences, moments in plain]
        of_clusters = {row: clustered(row) for row in dict.fromkeys(row for row, _ in panes)}
        in_clusters = np.array([of_clusters[row] for row, _ in panes], dtype=bool)
        has_clusters = (self._clusters.values(places) > 0) | in_clusters
        some = np.flatnonzero(has_clusters)
        for number, clusters in zip(some.tolist(), self._clusters.bytes_of(places[some]), strict=True):
            fields[number] += clusters
        if self._weights:
            fields = [data + self._weights.to_bytes(place) for data, place in zip(fields, places.tolist(), strict=True)]
        return fields

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of a key to what `bytes_of` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        place = self._place(row, pane)
        self._absences.load(place, data[: _Absences.SIZE])
        self._moments.load(place, data[_Absences.SIZE : _PLAIN])
        rest = data[_PLAIN:]
        if _has_clusters(data):
            self._clusters.load(place, rest[: ClusterTable.SIZE])
            rest = rest[ClusterTable.SIZE :]
        self._weights.load(place, rest)

    def load_panes(self, panes: Sequence[tuple[int, int, bytes]], *, clustered: bool = False) -> None:
        """Set panes, each given by row, number and what `bytes_of` returned; much faster than one by one.

        Args:
            panes: each another one, and with `clustered` each in a row of its own.
            clustered: whether the values of panes without numbers of clusters came before the first cluster.

        Raises: ValueError if the bytes were written by another version.
        """
        plain = []
        for row, pane, data in panes:
            if len(data) == _PLAIN:
                plain.append((self._place(row, pane), data))
            else:
                self.load(row, pane, data)
        if plain:
            places = np.array([place for place, _ in plain], dtype=np.intp)
            self._absences.load_rows(places, b"".join(data[: _Absences.SIZE] for _, data in plain))
            self._moments.load_rows(places, b"".join(data[_Absences.SIZE :] for _, data in plain))
        if clustered:
            self.begin_row_clusters([row for row, _, data in panes if not _has_clusters(data)])


def _has_clusters(data: bytes) -> bool:
    return len(data) - _PLAIN not in (0, SamplingWeights.SIZE)


class PairPanes(PanePlaces):
    """The panes of pairs of a reference and a proxy score, named by the row of the pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs, self.closed = PairTable(), ClusteredPairs()
        # Places whose pairs count in clusters.
        self._clustered: set[int] = set()

    def _new(self) -> int:
        self.closed.add_row()
        return self.pairs.add_row()

    def _clear(self, places: Rows) -> None:
        self._clustered.difference_update(places.tolist())
        self.pairs.clear_rows(places)
        self.closed.clear_rows(places)

    def _impossible(self, places: Rows) -> NDArray[np.bool_]:
        return np.asarray(self.pairs.impossible(places) | self.closed.impossible(places))

    def add(self, rows: Rows, panes: Rows, scores: Floats, clustered: Callable[[int], bool]) -> None:
        """Add pairs, in order.

        Args:
            panes: number of the pane of each.
            scores: reference score, proxy score and probability of each; shape (3, n).
            clustered: says of a row whether its pairs count in clusters.
        """
        places, _ = self._places(rows, panes)
        self._clustered.update(
            place for row, place in zip(rows.tolist(), places.tolist(), strict=True) if clustered(row)
        )
        self.pairs.update(places, *scores)

    def add_closed(self, closed: PairsOfClusters, panes: Rows) -> None:
        """Add the pairs of closed clusters, given the number of the pane of each cluster."""
        cluster_places, _ = self._places(closed.cluster_rows, panes)
        self._clustered.update(cluster_places.tolist())
        self.closed.update(replace(closed, rows=cluster_places[closed.of], cluster_rows=cluster_places))

    def begin_clusters(self, rows: Collection[int]) -> None:
        """Take note that pairs of rows belong to clusters from now on: all pairs so far are single ones."""
        for row in rows:
            for pane, place in self._of[row].items():
                self.closed.begin(place, self.pairs, place)
                self._clustered.add(place)
                self._changed.add((row, pane))

    def merge_pane(self, row: int, pane: int, other: Self, other_row: int, other_pane: int) -> None:
        """Add a pane of other rows to a pane."""
        place, other_place = self._place(row, pane), other._of[other_row][other_pane]
        self.pairs.merge(place, other.pairs, other_place)
        self.closed.merge(place, other.closed, other_place)
        if other_place in other._clustered:
            self._clustered.add(place)
        self._changed.add((row, pane))

    def bytes_of(self, panes: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return panes as bytes, exactly."""
        return [
            self.pairs.to_bytes(place) + (self.closed.to_bytes(place) if place in self._clustered else b"")
            for place in self._places_of(panes).tolist()
        ]

    def load(self, row: int, pane: int, data: bytes) -> None:
        """Set a pane of pairs to what `bytes_of` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        place = self._place(row, pane)
        size = PairTable.bytes_in(data)
        self.pairs.load(place, data[:size])
        if len(data) > size:
            self.closed.load(place, data[size:])
            self._clustered.add(place)

    def pooled(self, panes: Sequence[tuple[int, int]], everything: Everything, *, confidence: float) -> Powered:
        """Return the prediction-powered estimate of some panes of one row.

        Args:
            panes: each given by row and number; at least one.
            everything: about all items in them; one element.
            confidence: level of the interval.
        """
        pairs, closed = PairTable(), ClusteredPairs()
        row = closed.add_row()
        pairs.add_row()
        places = self._places_of(panes).tolist()
        for place in places:
            pairs.merge(row, self.pairs, place)
            closed.merge(row, self.closed, place)
        clustered = any(place in self._clustered for place in places)
        return read_pairs(pairs, closed if clustered else None, np.array([row]), everything, confidence=confidence)


class Covered(NamedTuple):
    """The numbers of some keys in one window; arrays with one element per key."""

    moments: Moments
    n_absent: Rows
    n_processed: Rows
    sampled: SampledSums | None
    """Sums over the values that were sampled from the traffic; None without any."""


class PaneTable(StatePart, PaneRows):
    """The panes of all keys.

    A pane of a key is a row of moments, with the number of absences. Rows of panes that no window needs any more are
    used again. Values are also counted in panes of processing time, which are separate: when old interactions are
    scored, they are far from the panes of event time.
    """

    kinds = (CheckpointField.PANE, CheckpointField.PROCESSED)

    def __init__(self, panes: Panes, rows: KeyRows) -> None:
        super().__init__()
        self._panes, self._rows = panes, rows
        self._processed: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._processed_changed: set[int] = set()

    def add_batch(self, batch: EventBatch, late: NDArray[np.bool_], before: Floats) -> None:
        """Add a batch, or some of its parts, to panes; values that came too late are in no pane.

        Args:
            batch: events.
            late: whether each part came too late.
            before: for each value the mean of its key before it, which predicts the first value of a pane.
        """
        pane, processed = self._panes.pane(batch.times_ms), self._panes.pane(batch.processed_ms)
        self._count_processed(batch.rows, processed[batch.part_of])
        in_time = np.flatnonzero(~late[batch.part_of]) if late.any() else None
        self._drop_old(self.add_values(batch, pane, before, in_time))
        present = ~late[batch.absent_of]
        absent = batch.absent[present]
        self.add_absences(absent, pane[batch.absent_of][present])
        self._drop_old(absent)

    def take(self, added: AddedBatch) -> None:
        """Add closed clusters to the panes of their last interactions; what is closed too late is in none."""
        batch, closed = added.batch, added.closed
        if closed is None:
            return
        newest_ms = np.maximum(batch.newest_ms, batch.times_ms)[closed.parts]
        in_time = np.flatnonzero(~self._panes.late(closed.times_ms, newest_ms))
        if in_time.size:
            self._drop_old(self.add_clusters(closed, self._panes.pane(closed.times_ms), in_time))

    def _count_processed(self, rows: Rows, panes: Rows) -> None:
        if not rows.size:
            return
        most, first = int(rows.max()) + 1, int(panes.min())
        numbers, _, counts = distinct((panes - first) * most + rows)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            row, pane = number % most, number // most + first
            processed = self._processed[row]
            processed[pane] = processed.get(pane, 0) + count
            oldest = max(processed) - self._panes.kept
            if min(processed) <= oldest:
                self._processed[row] = {pane: number for pane, number in processed.items() if pane > oldest}
            self._processed_changed.add(row)

    def _drop_old(self, rows: Rows) -> None:
        # Only after all values of a batch are added, because a pane may begin and end within one batch.
        old: list[tuple[int, int]] = []
        for row in distinct(rows)[0].tolist():
            panes = self._of[row]
            oldest = max(panes) - self._panes.kept
            if min(panes) <= oldest:
                old += [(row, pane) for pane in panes if pane <= oldest]
        if old:
            self.drop(old)

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the panes of another state."""
        for theirs, row in enumerate(rows):
            for pane in [*other.numbers(theirs)]:
                self.merge_pane(row, pane, other, theirs, pane)
            for pane, count in other._processed[theirs].items():
                self._processed[row][pane] = self._processed[row].get(pane, 0) + count

    def covered(self, rows: Iterable[int], start_ms: int, end_ms: int) -> Covered:
        """Return the numbers of each key in a stretch of event time."""
        first, last = start_ms // self._panes.pane_ms, end_ms // self._panes.pane_ms
        groups = []
        processed = []
        for row in rows:
            processed.append(sum(count for pane, count in self._processed[row].items() if first <= pane < last))
            groups.append([(row, pane) for pane in sorted(self._of[row]) if first <= pane < last])
        pooled = self.pooled(groups)
        return Covered(pooled.moments, pooled.n_absent, np.array(processed, dtype=np.intp), pooled.sampled)

    def before(self, rows: Sequence[int], time_ms: int) -> Moments:
        """Return the moments of rows in the panes before the pane that holds a time.

        Only panes count that are kept for the first row: rows without new values hold older ones.
        """
        first = max(self._of[rows[0]], default=0) - self._panes.kept + 1
        end_ms = time_ms // self._panes.pane_ms * self._panes.pane_ms
        return self.covered(rows, min(first * self._panes.pane_ms, end_ms), end_ms).moments

    def first_ms(self, row: int) -> int | None:
        """Return the start of the oldest pane that is kept of a row; None without one."""
        return min(self._of[row]) * self._panes.pane_ms if self._of[row] else None

    def windows(self) -> tuple[Window, ...]:
        """Return the windows of the panes."""
        return self._panes.windows

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        self.begin_row_clusters(rows)

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a pane with a number that is impossible for any values; None without one."""
        pane = self.impossible_pane(everything=everything)
        return None if pane is None else self._name(*pane)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return panes and counts by processing time to write, and names of panes to remove."""
        changed, gone = self.take_panes()
        names = [self._name(row, pane) for row, pane in changed]
        fields = dict(zip(names, self.bytes_of(changed), strict=True))
        for row in sorted(self._processed_changed):
            name = f"{CheckpointField.PROCESSED}{self._panes.pane_ms}:{self._rows.name(row)}"
            # The text of lists of whole numbers is JSON, and much faster.
            fields[name] = str(sorted(map(list, self._processed[row].items()))).encode()
        self._processed_changed = set()
        return fields, [self._name(row, pane) for row, pane in gone]

    def _name(self, row: int, pane: int) -> str:
        return f"{CheckpointField.PANE}{self._panes.pane_ms}:{pane}:{self._rows.name(row)}"

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set panes, or counts by processing time: panes all at once, because a state may have many."""
        if kind != CheckpointField.PANE:
            return super().load_fields(kind, fields)
        panes, gone = [], list[str]()
        for name, data in fields:
            with reading(kind + name):
                length, pane, key = name.split(":", 2)
                if int(length) == self._panes.pane_ms:
                    panes.append((self._rows.named(key), int(pane), data))
                else:
                    gone.append(kind + name)
        try:
            self.load_panes(panes)
        except ValueError:
            # One of them is damaged: the error names it.
            return super().load_fields(kind, fields)
        return gone

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        length, _, rest = name.partition(":")
        if int(length) != self._panes.pane_ms:
            return False
        if kind == CheckpointField.PROCESSED:
            self._processed[self._rows.named(rest)] = dict(json.loads(data))
            return True
        pane, _, key = rest.partition(":")
        self.load(self._rows.named(key), int(pane), data)
        return True
