"""Adds a batch to the numbers of a state, up to one part after the other: for alerts, which need them then."""

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..statistics.tables.batches import Floats
from .closed_clusters import ClosedClusters, add_values
from .cluster_rows import ClusterRows
from .measured_rows import DependenceRows
from .pane_rows import PaneTable
from .rows import KeyRows


class BatchAdding:
    """A batch of which a part is added; the numbers are those of adding it at once, to the bit.

    Args:
        batch: events.
        late: whether each part came too late for its pane.
        closed: clusters that the batch closes.
        rows: with the moments and the weights of sampled values.
        dependence: of neighbouring values, None if it is not measured.
        panes: None without windows.
        clusters: None without clusters.
    """

    def __init__(
        self,
        batch: EventBatch,
        late: NDArray[np.bool_],
        *,
        closed: ClosedClusters | None,
        rows: KeyRows,
        dependence: DependenceRows | None,
        panes: PaneTable | None,
        clusters: ClusterRows | None,
    ) -> None:
        self.batch = batch
        self.values = 0
        """Number of values that the moments have."""
        self._late = late
        self._closed, self._clusters_added = closed, 0
        self._rows, self._dependence, self._panes, self._clusters = rows, dependence, panes, clusters
        self.before: Floats = np.empty(batch.values.shape)
        """For each value that is added the mean of its key before it, which predicts the first value of a pane."""
        self._parts = 0

    def until(self, part: int) -> None:
        """Add the values and the closed clusters up to a part, inclusive, to the moments and the sums."""
        if self._closed is not None and self._clusters is not None:
            closed = int(np.searchsorted(self._closed.parts, part, side="right"))
            if closed > self._clusters_added:
                self._clusters.add(self._closed, slice(self._clusters_added, closed))
                self._clusters_added = closed
        end = int(np.searchsorted(self.batch.part_of, part, side="right"))
        if end <= self.values:
            return
        added = slice(self.values, end)
        rows, values = self.batch.rows[added], self.batch.values[added]
        if self._dependence is not None:
            self._dependence.update(rows, values)
        by_row = self.batch.grouped if end - self.values == self.batch.values.size else None
        self.before[added] = self._rows.moments.update(rows, values, batch=by_row)
        add_values(self._rows.weights, self.batch, rows, added)
        self.values = end

    def panes_until(self, part: int) -> None:
        """Add the parts up to a part, inclusive, to the panes; the moments must have their values."""
        stop = part + 1
        if self._panes is None or stop <= self._parts:
            return
        start, end = np.searchsorted(self.batch.part_of, (self._parts, stop)).tolist()
        whole = stop - self._parts == self.batch.places.size
        some = self.batch if whole else self.batch.between(self._parts, stop)
        self._panes.add_batch(some, self._late[self._parts : stop], self.before[start:end])
        self._parts = stop

    def rest(self) -> None:
        """Add the rest of the batch."""
        last = self.batch.places.size - 1
        self.until(last)
        self.panes_until(last)
