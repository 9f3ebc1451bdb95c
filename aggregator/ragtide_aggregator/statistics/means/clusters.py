"""Running sums over closed clusters of dependent values, many keys at once: one row of arrays per key."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..intervals.running import FIRST_GUESS
from ..tables import sums
from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import ADD, MOST, RowColumn, RowTable, add_exactly

LARGEST_CLUSTER: Final = 1_024
"""Most values of a cluster."""

_COUNT, _N, _SIZES = 0, 1, 2
_SUM, _SQUARES, _BELOW, _ABOVE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Sums over closed clusters of n values in [0, 1] with sum Y; arrays with one element a key.

    m is the mean of the values of the clusters that closed before, 1/2 for the first.
    """

    count: NDArray[np.int64]
    """Number of clusters."""
    n: NDArray[np.int64]
    """Number of values in them."""
    sizes: NDArray[np.int64]
    """Sum of n^2."""
    mean: Floats
    """Mean of the values; 0 while there are none."""
    squares: Floats
    """Sum of (Y - n m)^2."""
    squares_below: Floats
    """Sum of n m (Y - n m)^2: weighted with the farthest that Y can be below its prediction."""
    squares_above: Floats
    """Sum of n (1 - m) (Y - n m)^2: weighted with the farthest that Y can be above it."""
    largest_below: Floats
    """Largest n m."""
    largest_above: Floats
    """Largest n (1 - m)."""
    waiting: NDArray[np.bool_] | None = field(default=None, kw_only=True)
    """Whether values count in clusters and no cluster is closed yet; None if there is no such key."""

    def at(self, places: Rows) -> "ClusterSums":
        """Return the sums at places."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return replace(self, **{name: part[places] for name, part in parts.items() if part is not None})

    @property
    def in_use(self) -> NDArray[np.bool_]:
        """Whether values of each key count in clusters, and not each by itself."""
        counted = self.count > 0
        return np.asarray(counted if self.waiting is None else counted | self.waiting)

    @property
    def mean_size(self) -> Floats:
        """Number of values in the cluster of an average value, sum of n^2 / sum of n; 1 while there are none."""
        return np.where(self.n > 0, self.sizes / np.maximum(self.n, 1), 1.0)


def closings(clusters: Sequence[Hashable]) -> list[list[int]]:
    """Return the places of each cluster's values, in the order of the clusters' last values."""
    members: dict[Hashable, list[int]] = {}
    for place, name in enumerate(clusters):
        members.setdefault(name, []).append(place)
    return sorted(members.values(), key=lambda places: places[-1])


def summed(values: Floats, clusters: Sequence[Hashable]) -> ClusterSums:
    """Return the sums over whole clusters of a list of values in [0, 1], as of one key.

    Args:
        values: shape (n,).
        clusters: the cluster of each value; a cluster of more than `LARGEST_CLUSTER` values counts in parts.
    """
    table = ClusterTable()
    row = table.add_row()
    parts = [
        places[start : start + LARGEST_CLUSTER]
        for places in closings(clusters)
        for start in range(0, len(places), LARGEST_CLUSTER)
    ]
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    totals = np.minimum(np.array([values[part].sum() for part in parts]), sizes)
    table.update(np.full(len(parts), row, dtype=np.intp), sizes, totals)
    return table.read([row])


class ClusterTable(RowTable, version=1, what="clusters"):
    """Sums over closed clusters, one row per key.

    The result does not depend on how clusters were cut into batches, to the bit. Merging adds sums. That is exact but
    for the predictions, which then are those of each part: as valid, not the same.
    """

    _counts = RowColumn(np.int64, (3,), merge=ADD)
    _sums = RowColumn(np.int64, (4, 3), merge=add_exactly(1))
    _largest = RowColumn(np.float64, (2,), merge=MOST)

    def begin(self, row: int, n: int, total: sums.Limbs, squares: sums.Limbs) -> None:
        """Set a row to the single values that came before the first cluster.

        Args:
            row: index.
            n: number of values, each in [0, 1].
            total: their exact sum (`MomentTable.exact`).
            squares: the exact sum of their squared distances from the mean before them. Each distance is weighted with
                1, the most that its prediction or the rest of the range can be.
        """
        self._counts[:, row] = n
        self._sums[_SUM, :, row] = total
        for place in (_SQUARES, _BELOW, _ABOVE):
            self._sums[place, :, row] = squares
        self._largest[:, row] = float(n > 0)

    def values(self, rows: Rows) -> NDArray[np.int64]:
        """Return the number of values in the closed clusters of rows."""
        return np.asarray(self._counts[_N, rows])

    @property
    def used(self) -> int:
        """Number of rows with a closed cluster."""
        return int(np.count_nonzero(self._counts[_COUNT, : len(self)]))

    def count(self, row: int) -> int:
        """Return the number of clusters of a row."""
        return int(self._counts[_COUNT, row])

    def read(self, rows: Rows | list[int]) -> ClusterSums:
        """Return the sums of rows."""
        index = np.asarray(rows, dtype=np.intp)
        count, n, sizes = self._counts[:, index]
        totals = [sums.totals(part, index) for part in self._sums]
        return ClusterSums(
            count, n, sizes, totals[_SUM] / np.maximum(n, 1), *totals[_SQUARES:], *self._largest[:, index]
        )

    def pooled(self, rows: Rows, starts: Rows) -> ClusterSums:
        """Return the sums of rows taken together, group by group.

        Args:
            rows: rows of all groups, the rows of one group side by side.
            starts: where each group starts in `rows`, rising; every group has at least one row.
        """
        count, n, sizes = np.add.reduceat(self._counts[:, rows], starts, axis=1)
        carried = [sums.carried(np.add.reduceat(part[:, rows], starts, axis=1)) for part in self._sums]
        totals = [sums.as_floats(part) for part in carried]
        largest = np.maximum.reduceat(self._largest[:, rows], starts, axis=1)
        return ClusterSums(count, n, sizes, totals[_SUM] / np.maximum(n, 1), *totals[_SQUARES:], *largest)

    def update(self, rows: Rows, sizes: NDArray[np.int64], totals: Floats) -> None:
        """Add closed clusters to rows, in order; a row may occur repeatedly.

        Args:
            rows: row of each cluster, shape (n,).
            sizes: number of its values, 1 to `LARGEST_CLUSTER`, same shape.
            totals: sum of its values, each in [0, 1], same shape.

        Raises: ValueError if a size or a sum is out of range; nothing is added then.
        """
        if not np.all((sizes >= 1) & (sizes <= LARGEST_CLUSTER)):
            raise ValueError(f"sizes holds a size that is not in [1, {LARGEST_CLUSTER}]: close clusters earlier")
        if not np.all((totals >= 0) & (totals <= sizes)):
            raise ValueError("totals holds a sum that its number of values cannot have: scale by the metric's range")
        most = sums.MOST_VALUES // LARGEST_CLUSTER
        for start in range(0, rows.size, most):
            part = slice(start, start + most)
            self._update(rows[part], sizes[part], totals[part])

    def _update(self, rows: Rows, sizes: NDArray[np.int64], totals: Floats) -> None:
        batch = grouped(rows)
        n, y = sizes[batch.order], totals[batch.order]
        as_limbs = sums.limbs(y)
        seen = batch.before(n, self._counts[_N, batch.rows])
        total = sums.before(self._sums[_SUM], batch, as_limbs)
        # Rounding may leave the mean of ones above 1.
        guess = np.where(seen > 0, np.minimum(total / np.maximum(seen, 1), 1.0), FIRST_GUESS)
        below, above = n * guess, n * (1 - guess)
        squares = (y - below) ** 2
        sums.add(self._sums[_SUM], batch, as_limbs)
        for place, values in ((_SQUARES, squares), (_BELOW, below * squares), (_ABOVE, above * squares)):
            sums.add(self._sums[place], batch, sums.limbs(values))
        added = np.stack([batch.counts, batch.sums(n), batch.sums(n * n)])
        self._counts[:, batch.rows] += added
        largest = np.maximum.reduceat(np.stack([below, above]), batch.starts, axis=1)
        self._largest[:, batch.rows] = np.maximum(self._largest[:, batch.rows], largest)

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which rows hold a number that is not finite, or numbers that no clusters add up to; same shape."""
        count, n, sizes = self._counts[:, rows]
        parts = self._sums[:, :, rows]
        below, above = self._largest[:, rows]
        wrong = (count < 0) | (n < count) | (sizes < n) | (parts < 0).any(axis=(0, 1))
        wrong |= (parts[:, 1:] >= sums.UNIT).any(axis=(0, 1)) | (sums.totals(self._sums[_SUM], rows) > n)
        wrong |= ~((below >= 0) & (below <= LARGEST_CLUSTER) & (above >= 0) & (above <= LARGEST_CLUSTER))
        return np.asarray(wrong | ((count == 0) & ((n != 0) | (parts != 0).any(axis=(0, 1)))))
