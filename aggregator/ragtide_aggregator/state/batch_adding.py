"""Adds a batch to the numbers of a state, up to one part after the other: for alerts, which need them then."""

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..statistics.means.moments import MomentTable
from ..statistics.tables.batches import Floats
from .closed_clusters import ClosedClusters
from .cluster_rows import ClusterRows
from .dependence_rows import DependenceRows
from .panes import PaneTable
from .weight_rows import WeightRows, add_values


class BatchAdding:
    """A batch of which a part is added; the numbers are those of adding it at once, to the bit.

    Args:
        batch: events.
        late: whether each part came too late for its pane.
        closed: clusters that the batch closes.
        moments: of every row, and so the next.
        weights: of sampled values.
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
        moments: MomentTable,
        weights: WeightRows,
        dependence: DependenceRows | None,
        panes: PaneTable | None,
        clusters: ClusterRows | None,
    ) -> None:
        self.batch = batch
        self.values = 0
        """Number of values that the moments have."""
        self._late = late
        self._closed, self._clusters_added = closed, 0
        self._moments, self._dependence, self._panes, self._clusters = moments, dependence, panes, clusters
        self._weights = weights
        # For each value the mean of its key before it, which predicts the first value of a pane.
        self._before = np.empty(batch.values.shape)
        self._parts = 0

    @property
    def before(self) -> Floats:
        """For each value that is added the mean of its key before it."""
        return self._before

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
        self._before[added] = self._moments.update(rows, values, batch=by_row)
        add_values(self._weights.sums, self.batch, rows, added)
        self.values = end

    def panes_until(self, part: int) -> None:
        """Add the parts up to a part, inclusive, to the panes; the moments must have their values."""
        stop = part + 1
        if self._panes is None or stop <= self._parts:
            return
        start, end = (int(one) for one in np.searchsorted(self.batch.part_of, (self._parts, stop)))
        whole = stop - self._parts == self.batch.places.size
        some = self.batch if whole else self.batch.between(self._parts, stop)
        self._panes.take(some, self._late[self._parts : stop], self._before[start:end])
        self._parts = stop

    def rest(self) -> None:
        """Add the rest of the batch."""
        last = self.batch.places.size - 1
        self.until(last)
        self.panes_until(last)
