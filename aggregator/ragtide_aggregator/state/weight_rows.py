"""Sums over the values of a state that were sampled from the traffic, by row. No clock, no I/O."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..events.batch import EventBatch
from ..events.keys import UNBOUNDED, EstimateKey
from ..statistics.means.sampling_weights import SamplingWeights
from ..statistics.tables.batches import Rows
from ..statistics.tables.tables import doubled
from .closed_clusters import ClosedClusters, SampledClusters


class WeightRows:
    """Sums over sampled values, and the rows whose values have weights.

    Attributes:
        sums: of the rows that have a sampled value.
    """

    def __init__(self) -> None:
        self.sums = SamplingWeights()
        self._countable = np.zeros(64, dtype=bool)

    def add_row(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        if row == self._countable.size:
            self._countable = doubled(self._countable)
        # Time and cost of labeling are about the interactions that were labeled, and not about the traffic.
        self._countable[row] = key.metric not in UNBOUNDED

    def countable(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether its values have weights."""
        return self._countable[rows]

    def take_clusters(self, closed: ClosedClusters) -> None:
        """Add the closed clusters that have a sampled value."""
        if closed.sampled is not None:
            add_clusters(self.sums, closed.sampled, closed, closed.rows[closed.sampled.places])

    def begin_clusters(self, rows: Iterable[int]) -> None:
        """Take note that values of rows belong to clusters from now on: all values so far are single ones."""
        for row in rows:
            self.sums.begin_clusters(row)

    def mixed(self, row: int, n: int) -> bool:
        """Return whether n values of a row were kept with different probabilities."""
        found = self.sums.read(np.array([row], dtype=np.intp))
        return found is not None and bool(found.mixed([n])[0])


def add_values(sums: SamplingWeights, batch: EventBatch, rows: Rows, places: Rows | slice | None = None) -> None:
    """Add the sampled values of a batch to rows of sums.

    Args:
        sums: to add to.
        batch: events.
        rows: row of each value.
        places: of the values that `rows` has, in the batch; all unless given.
    """
    if batch.probability is None:
        return
    probability, values = batch.probability, batch.values
    if places is not None:
        probability, values = probability[places], values[places]
    sampled = np.flatnonzero(probability < 1)
    if sampled.size:
        sums.update(rows[sampled], values[sampled], probability[sampled])


def add_clusters(sums: SamplingWeights, sampled: SampledClusters, closed: ClosedClusters, rows: Rows) -> None:
    """Add some of the closed clusters with a sampled value to rows of sums, given the row of each."""
    if rows.size:
        at = sampled.places
        sums.update_clusters(rows, sampled.weights, sampled.weighted, closed.sizes[at], closed.totals[at])
