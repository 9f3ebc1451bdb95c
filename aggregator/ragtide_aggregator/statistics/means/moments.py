"""Running moments (count, mean, spread, extremes) of many keys at once, with one row of arrays per key."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..intervals.running import FIRST_GUESS
from ..tables import sums
from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from ..tables.tables import checked
from .clusters import ClusterSums
from .recent import weighted
from .sampling_weights import SampledSums
from .weighted_means import WeightedMeans, weighted_means

_SUM, _M2, _V = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of values in [0, 1]; arrays with one element per row."""

    n: NDArray[np.int64]
    """Number of values."""
    mean: Floats
    """Mean, correctly rounded; 0 without values."""
    m2: Floats
    """Sum of squared deviations from the mean."""
    v: Floats
    """Intrinsic time of `running_interval`: sum of squared deviations from the mean of the values before."""
    recent: Floats
    """Exponentially weighted mean of about the last 64 values; the plain mean of the first 32."""
    minimum: Floats
    """Smallest value; infinity without values."""
    maximum: Floats
    """Largest value; minus infinity without values."""
    clusters: ClusterSums | None = None
    """Sums over the closed clusters of the values; None if each value counts by itself."""
    weighted: WeightedMeans | None = None
    """Weighted means, where values were sampled from the traffic. For mixed keys `mean` and `m2` are weighted, too."""

    @property
    def variance(self) -> Floats:
        """Sample variance (n - 1), in [0, 1/2]; nan below two values."""
        return np.where(self.n > 1, self.m2 / np.maximum(self.n - 1, 1), np.nan)

    def at(self, places: Rows) -> "Moments":
        """Return the moments at places; without weighted means, of which `mean` and `m2` have those of mixed keys."""
        return Moments(
            self.n[places], self.mean[places], self.m2[places], self.v[places], self.recent[places],
            self.minimum[places], self.maximum[places],
            clusters=None if self.clusters is None else self.clusters.at(places),
        )  # fmt: skip


def with_weights(moments: Moments, sampled: SampledSums | None) -> Moments:
    """Return moments with weighted means, of which those of keys with different probabilities replace plain means.

    Args:
        moments: with the sums over clusters where values count in clusters.
        sampled: sums over their sampled values; None without any.
    """
    if sampled is None:
        return moments
    weighted = weighted_means(moments.n, moments.mean, moments.m2, sampled, moments.clusters)
    mixed = weighted.mixed
    return replace(
        moments,
        mean=np.where(mixed, weighted.mean, moments.mean),
        m2=np.where(mixed, weighted.spread * moments.n, moments.m2),
        weighted=weighted,
    )


class MomentTable(RowTable, version=2, what="moments"):
    """Count, mean, spread, intrinsic time, recent mean and extremes of values in [0, 1], one row per key.

    The result does not depend on how the values were cut into batches, to the bit; count, mean and extremes do not
    depend on the order of the values either. Merging adds counts, sums, squared deviations and intrinsic times. Counts
    and sums are exact; squared deviations are rounded with each value, so their last bits depend on order and merges
    (`set_squares` sets them from an exact sum). The merged intrinsic time predicts each value from its own part: it is
    valid, too.

    Args:
        bounded: whether values above 1 are refused; values below 0 are always refused.

    Source: Welford (1962), Technometrics 4: 419-420; Chan, Golub, LeVeque (1983), American Statistician 37: 242-247.
    """

    _counts = RowColumn(np.int64)
    # Sum, sum of squared deviations and intrinsic time, each exact.
    _sums = RowColumn(np.int64, (3, 3))
    _recent = RowColumn(np.float64)
    _minimum = RowColumn(np.float64, fill=np.inf)
    _maximum = RowColumn(np.float64, fill=-np.inf)

    def __init__(self, *, bounded: bool = True) -> None:
        super().__init__()
        self._highest = 1.0 if bounded else np.inf

    def n(self, row: int) -> int:
        """Return the number of values of a row."""
        return int(self._counts[row])

    def counts(self, rows: Rows) -> NDArray[np.int64]:
        """Return the numbers of values of rows."""
        return self._counts[rows]

    def exact(self, row: int) -> tuple[int, sums.Limbs, sums.Limbs]:
        """Return number, sum and intrinsic time of a row's values, as exact sums of shape (3,)."""
        return int(self._counts[row]), self._sums[_SUM, :, row].copy(), self._sums[_V, :, row].copy()

    def recent(self, row: int) -> float:
        """Return the recent mean of a row."""
        return float(self._recent[row])

    def read(self, rows: Rows | list[int]) -> Moments:
        """Return the moments of rows."""
        index = np.asarray(rows, dtype=np.intp)
        n = self._counts[index]
        return Moments(
            n=n,
            mean=sums.totals(self._sums[_SUM], index) / np.maximum(n, 1),
            m2=sums.totals(self._sums[_M2], index),
            v=sums.totals(self._sums[_V], index),
            recent=self._recent[index],
            minimum=self._minimum[index],
            maximum=self._maximum[index],
        )

    def pooled(self, rows: Rows, starts: Rows) -> Moments:
        """Return the moments of rows taken together, group by group.

        Args:
            rows: rows of all groups, the rows of one group side by side.
            starts: index in `rows` of the first row of each group, rising; every group has at least one row.

        The recent mean of a group is the mean of the rows' recent means, weighted with their counts.
        """
        parts = self.read(rows)
        counts = np.add.reduceat(parts.n, starts)
        sizes = np.diff(np.append(starts, rows.size))
        total, m2, v = (
            sums.as_floats(sums.carried(np.add.reduceat(part[:, rows], starts, axis=1))) for part in self._sums
        )
        mean = total / np.maximum(counts, 1)
        apart = parts.n * (parts.mean - np.repeat(mean, sizes)) ** 2
        return Moments(
            n=counts,
            mean=mean,
            m2=m2 + np.add.reduceat(apart, starts),
            v=v,
            recent=np.add.reduceat(parts.n * parts.recent, starts) / np.maximum(counts, 1),
            minimum=np.minimum.reduceat(parts.minimum, starts),
            maximum=np.maximum.reduceat(parts.maximum, starts),
        )

    def merge(self, row: int, other: "MomentTable", other_row: int) -> None:
        """Add the values of a row of another table, or of this one, to a row."""
        a, b = self.read([row]), other.read([other_row])
        n = a.n + b.n
        if not b.n[0]:
            return
        apart = sums.limbs((b.mean - a.mean) ** 2 * (a.n * (b.n / n)))
        gained = other._sums[:, :, other_row].copy()
        gained[_M2] += apart[:, 0]
        for number in (_SUM, _M2, _V):
            self._sums[number, :, row] = sums.carried(self._sums[number, :, row] + gained[number])
        self._counts[row] = n[0]
        self._recent[row] = ((a.n * a.recent + b.n * b.recent) / n)[0]
        self._minimum[row] = min(a.minimum[0], b.minimum[0])
        self._maximum[row] = max(a.maximum[0], b.maximum[0])

    def set_squares(self, row: int, squares: sums.Limbs) -> None:
        """Set the squared deviations of a row to those that follow from the exact sum of its squares, shape (3,)."""
        n, spread = int(self._counts[row]), self._minimum[row] < self._maximum[row]
        total, square = (sums.whole(part) for part in (self._sums[_SUM, :, row], squares))
        # The sums are whole numbers of 2^-80; one rounding at the end.
        m2 = Fraction(square * n * sums.WHOLE - total * total, n * sums.WHOLE**2) if n and spread else 0
        self._sums[_M2, :, row] = sums.limbs(np.array(max(float(m2), 0.0)))

    def update(self, rows: Rows, values: Floats, guesses: Floats | None = None, batch: Grouped | None = None) -> Floats:
        """Add values to rows, in order; return for each value the mean of its row before it.

        Args:
            rows: row of each value, shape (n,); a row may occur more than once.
            values: in [0, 1], or 0 or more if not bounded, same shape.
            guesses: predictions of the first value of a row, for its intrinsic time, same shape; 1/2 unless given. A
                prediction is returned as the mean before the first value.
            batch: the values by row, if they are grouped already.

        Raises: ValueError if a value is out of range or not finite; nothing is added then.
        """
        checked(values, self._highest)
        guesses = np.full(values.shape, FIRST_GUESS) if guesses is None else guesses
        before = np.empty(values.shape)
        if not values.size:
            return before
        if values.size <= sums.MOST_VALUES:
            return self._update(grouped(rows) if batch is None else batch, values, guesses)
        for start in range(0, values.size, sums.MOST_VALUES):
            part = slice(start, start + sums.MOST_VALUES)
            before[part] = self._update(grouped(rows[part]), values[part], guesses[part])
        return before

    def _update(self, batch: Grouped, values: Floats, guesses: Floats) -> Floats:
        x, before = values[batch.order], guesses[batch.order]
        n = batch.spread(self._counts[batch.rows]) + batch.occurrence
        for piece, some in batch.pieces():
            before[some] = self._add(piece, x[some], n[some], before[some])
        self._counts[batch.rows] += batch.counts
        self._minimum[batch.rows] = np.minimum(self._minimum[batch.rows], np.minimum.reduceat(x, batch.starts))
        self._maximum[batch.rows] = np.maximum(self._maximum[batch.rows], np.maximum.reduceat(x, batch.starts))
        self._recent[batch.rows] = weighted(batch, x, n, self._recent[batch.rows])
        in_order = np.empty_like(before)
        in_order[batch.order] = before
        return in_order

    def _add(self, batch: Grouped, x: Floats, n: Rows, guesses: Floats) -> Floats:
        as_limbs = sums.limbs(x)
        total = sums.before(self._sums[_SUM], batch, as_limbs)
        before = np.where(n > 0, total / np.maximum(n, 1), guesses)
        off = (x - before) ** 2
        sums.add(self._sums[_SUM], batch, as_limbs)
        sums.add(self._sums[_M2], batch, sums.limbs(off * (n / (n + 1))))
        sums.add(self._sums[_V], batch, sums.limbs(off))
        return before

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a number is not finite, or impossible for any values; same shape."""
        n = self._counts[rows]
        sums_of = self._sums[:, :, rows]
        lowest, highest, recent = self._minimum[rows], self._maximum[rows], self._recent[rows]
        # An overflow makes the units of a sum negative.
        wrong = (n < 0) | (sums_of < 0).any(axis=(0, 1)) | (sums_of[:, 1:] >= sums.UNIT).any(axis=(0, 1))
        some = n > 0
        wrong |= ~some & ((sums_of != 0).any(axis=(0, 1)) | (recent != 0) | ~np.isinf(lowest) | ~np.isinf(highest))
        mean = sums.totals(self._sums[_SUM], rows) / np.maximum(n, 1)
        # The mean is cut at 2^-80 and rounded, so it may be slightly outside.
        room = 1e-9 * (1 + np.where(some, np.abs(highest), 0.0))
        inside = (lowest >= 0) & (lowest - room <= mean) & (mean <= highest + room) & (highest <= self._highest)
        inside &= np.isfinite(highest) & (lowest - room <= recent) & (recent <= highest + room)
        return np.asarray(wrong | (some & ~inside))
