"""Panes: the moments of every key in short stretches of event time, from which windows are built. No clock, no I/O."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..events.keys import EstimateKey
from ..statistics.means.moments import Moments
from ..statistics.means.sampling_weights import SampledSums
from ..statistics.tables.batches import Floats, Rows, distinct
from ..statistics.tables.windows import Panes, Window
from .closed_clusters import ClosedClusters
from .pane_rows import PaneRows
from .rows import KeyRows


class Covered(NamedTuple):
    """The numbers of some keys in one window; arrays with one element per key."""

    moments: Moments
    n_absent: Rows
    n_processed: Rows
    sampled: SampledSums | None
    """Sums over the values that were sampled from the traffic; None without any."""


class PaneTable(PaneRows):
    """The panes of all keys.

    A pane of a key is a row of moments, with the number of absences. Rows of panes that no window needs any more are
    used again. Values are also counted in panes of processing time, which are separate: when old interactions are
    scored, they are far from the panes of event time.
    """

    def __init__(self, panes: Panes) -> None:
        super().__init__()
        self._panes = panes
        self._processed: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._processed_changed: set[int] = set()

    def take(self, batch: EventBatch, late: NDArray[np.bool_], before: Floats) -> None:
        """Add a batch to its panes; values that came too late are in no pane.

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

    def take_clusters(self, closed: ClosedClusters, batch: EventBatch) -> None:
        """Add closed clusters to the panes of their last interactions; what is closed too late is in none."""
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
            of = self._processed[row]
            of[pane] = of.get(pane, 0) + count
            oldest = max(of) - self._panes.kept
            if min(of) <= oldest:
                self._processed[row] = {one: number for one, number in of.items() if one > oldest}
            self._processed_changed.add(row)

    def _drop_old(self, rows: Rows) -> None:
        # Only after all values of a batch are added, because a pane may begin and end within one batch.
        for row in distinct(rows)[0].tolist():
            of = self._of[row]
            oldest = max(of) - self._panes.kept
            if min(of) <= oldest:
                for pane in [one for one in of if one <= oldest]:
                    self.drop(row, pane)

    def merge(self, row: int, other: "PaneTable", other_row: int) -> None:
        """Add the panes of the same key in another table."""
        self.merge_row(row, other, other_row)
        for pane, count in other._processed[other_row].items():
            self._processed[row][pane] = self._processed[row].get(pane, 0) + count

    def covered(self, rows: Iterable[int], start_ms: int, end_ms: int) -> Covered:
        """Return the numbers of each key in a stretch of event time."""
        first, last = start_ms // self._panes.pane_ms, end_ms // self._panes.pane_ms
        groups = []
        processed = []
        for row in rows:
            processed.append(sum(count for pane, count in self._processed[row].items() if first <= pane < last))
            groups.append([(row, pane) for pane in sorted(self._of[row]) if first <= pane < last])
        found = self.pooled(groups)
        return Covered(found.moments, found.n_absent, np.array(processed, dtype=np.intp), found.sampled)

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

    def impossible(self, keys: Sequence[EstimateKey], *, everything: bool) -> str | None:
        """Return the name of a pane with a number that is impossible for any values; None without one.

        Args:
            keys: key of every row, for the names of panes.
            everything: whether to check all panes, and not only the changed panes.
        """
        found = self.impossible_pane(everything=everything)
        return None if found is None else self._name(keys[found[0]].encode(), found[1])

    def take_changes(self, rows: KeyRows) -> tuple[dict[str, bytes], list[str]]:
        """Return panes to write and names of panes to remove, since the last call.

        Args:
            rows: of the state, for the names of panes.
        """
        changed, gone = self.take_panes()
        written = {self._name(rows.name(row), pane): self.to_bytes(row, pane) for row, pane in changed}
        return written, [self._name(rows.name(row), pane) for row, pane in gone]

    def _name(self, key: str, pane: int) -> str:
        return f"{self._panes.pane_ms}:{pane}:{key}"

    def take_processed(self, rows: KeyRows) -> dict[str, bytes]:
        """Return the changed counts by processing time since the last call, by name."""
        changed, self._processed_changed = self._processed_changed, set()
        return {
            f"{self._panes.pane_ms}:{rows.name(row)}": json.dumps(sorted(self._processed[row].items())).encode()
            for row in sorted(changed)
        }

    def load_processed(self, row: int, data: bytes) -> None:
        """Set the counts by processing time of a key to what `take_processed` wrote."""
        self._processed[row] = dict(json.loads(data))
