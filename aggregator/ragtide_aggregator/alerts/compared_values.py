"""The values of a batch that rules compare with all earlier ones: of all rules at once. No clock, no I/O.

What is learned does not depend on where a batch ends: compared values are added one stretch after the other, as far as
detectors took them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..statistics.drift.ranks import EarlierTable
from ..statistics.tables.batches import Floats, Rows, grouped
from .rule_values import WAITS, Inputs, RuleValues


class _ComparedBatch(NamedTuple):
    """Values that detectors have compared, and that are not added yet; shape (n,)."""

    rows: Rows
    """Rows of the table."""
    positions: Rows
    """In the batch, rising for each row."""
    means: Floats
    sizes: Rows

    def at_places(self, places: NDArray[np.bool_]) -> "_ComparedBatch":
        return _ComparedBatch(self.rows[places], self.positions[places], self.means[places], self.sizes[places])

    def followed_by(self, later: "_ComparedBatch") -> "_ComparedBatch":
        return _ComparedBatch(
            np.concatenate([self.rows, later.rows]),
            np.concatenate([self.positions, later.positions]),
            np.concatenate([self.means, later.means]),
            np.concatenate([self.sizes, later.sizes]),
        )


class ComparedValues:
    """The values before each value, of all baselines `earlier` of a partition.

    Attributes:
        table: the values, a row for each baseline.
    """

    def __init__(self) -> None:
        self.table = EarlierTable()
        self._compared: _ComparedBatch | None = None

    def inputs(
        self, rows: Rows, falls: NDArray[np.bool_], batch: RuleValues, value_of: Rows, detectors: Rows
    ) -> Inputs:
        """Return the ranks of values among all earlier ones of their rows.

        Args:
            rows: row of the table of each detector, shape (k,).
            falls: whether each detector looks for a fall, shape (k,).
            batch: values, or closed clusters.
            value_of: positions in it; those of a detector rise, shape (n,).
            detectors: number of the detector that takes each, below k, shape (n,).
        """
        means = batch.values[value_of]
        sizes = np.ones(value_of.size, dtype=np.intp) if batch.sizes is None else batch.sizes[value_of]
        # Detectors of one baseline take the same values.
        _, first = np.unique(rows, return_index=True)
        once = np.isin(detectors, first)
        self._begin(_ComparedBatch(rows[detectors], value_of, means, sizes).at_places(once))
        by_detector = grouped(detectors)
        ranked = self.table.ranked(rows, falls, by_detector, means[by_detector.order])
        ranks, limits = np.empty((2, value_of.size))
        ranks[by_detector.order] = ranked.ranks
        limits[by_detector.order] = np.where((ranked.limits <= 0) | (ranked.limits >= 1), WAITS, ranked.limits)
        return Inputs(ranks, limits, ranks - means)

    def _begin(self, compared: _ComparedBatch) -> None:
        before = self._compared
        if before is not None:
            # Values that detectors take again are not added twice.
            begin = np.full(len(self.table), np.iinfo(np.intp).max)
            np.minimum.at(begin, compared.rows, compared.positions)
            again = np.isin(before.rows, compared.rows)
            self._add(before.at_places(again & (before.positions < begin[before.rows])))
            compared = before.at_places(~again).followed_by(compared)
        self._compared = compared

    def settle(self) -> None:
        """Add the values that detectors have compared."""
        compared, self._compared = self._compared, None
        if compared is not None:
            self._add(compared)

    def settle_row(self, row: int, end: int) -> None:
        """Add the values of a row that detectors have compared, up to a position of the batch; forget its others."""
        if self._compared is not None:
            mine = self._compared.rows == row
            self._add(self._compared.at_places(mine & (self._compared.positions < end)))
            self._compared = self._compared.at_places(~mine)

    def _add(self, compared: _ComparedBatch) -> None:
        self.table.add(compared.rows, compared.means, compared.sizes)
