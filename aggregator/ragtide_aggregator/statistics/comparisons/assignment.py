"""The difference of two pipelines among which a coin divides the traffic, made narrower by covariates.

**Estimate.** Item i goes to pipeline a with a known probability p, otherwise to b, and gets the score x. Let f_a and
f_b be predictions of its score by either pipeline, made before it is scored (`CovariateTable`, one row a pipeline).
Take

    d_i = f_a - f_b + r_i,   r_i = (x - f_a) / p if the item went to a, -(x - f_b) / (1 - p) if it went to b.

For any predictions, E[d_i | past, features] = E[score by a - score by b | past, features]: the random assignment
cancels them. So the mean of d is an unbiased estimate of the average difference over the items so far, and good
predictions only make it less noisy. That is the augmented inverse-probability estimate.

**Interval.** |r_i| <= c = 1 / (smallest share). Theorem 4 of Howard et al., with f_a - f_b as prediction of d_i and V =
sum r_i^2 / c^2, gives: the mean of d stays within c u(V) / n of the average difference, at every n but for alpha.

**Against two intervals.** The difference of two running intervals needs each at half of alpha, and adds their widths.
This interval has one width. At p = 1/2 that alone makes it narrower by about the factor sqrt(2), before any covariate.

Assumes: each item's coin is independent of everything before, of its features and of its scores, with the stated
probability. A session that stays with its pipeline is one item: give its mean. Whether a score is missing must not
depend on the pipeline.

Sources: Robins, Rotnitzky, Zhao (1994), Journal of the American Statistical Association 89: 846-866; Ham, Bojinov,
Lindon, Tingley (2022), "Design-based confidence sequences", arXiv:2210.08639; Howard et al. (2021), Theorem 4.
"""

import numpy as np
from numpy.typing import NDArray

from ..intervals.intervals import Interval
from ..intervals.running import boundary
from ..tables import sums
from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from ..tables.tables import check_confidence, checked
from .covariates import CovariateTable


class AssignmentTable(RowTable, version=2, what="assignments", capacity=16):
    """Differences of the mean scores of pipelines a and b to which items were assigned by a coin; one row a comparison.

    The result does not depend on how items were cut into batches, to the bit. State is one pair of rows of a
    `CovariateTable` and two exact sums.

    Args:
        features: number of features known before the score, 0 to MOST_FEATURES.
        least_share: the smallest probability with which an item goes to either pipeline, in (0, 1/2].

    Raises: ValueError for an argument out of its range.

    >>> table = AssignmentTable(features=0, least_share=0.5)
    >>> rows, to_a = np.repeat(table.add_row(), 2000), np.arange(2000) % 3 % 2 == 0
    >>> table.update(rows, to_a, np.full(2000, 0.5), np.where(to_a, 0.8, 0.6), np.zeros((2000, 0)))
    >>> shift = table.read(np.array([0]), confidence=0.95)
    >>> bool(shift.lower[0] < 0.2 < shift.upper[0] and shift.lower[0] > 0.15)
    True
    """

    _bounds = RowColumn(np.float64)
    _counts = RowColumn(np.int64)
    # Sums of d_i + c + 1, which is never negative, and of r_i squared.
    _sums = RowColumn(np.int64, (3, 2))

    def __init__(self, features: int, *, least_share: float = 0.5) -> None:
        if not 0 < least_share <= 0.5:
            raise ValueError(f"least_share is {least_share}: give the smaller of the two shares, such as 0.1")
        self._bound = 1 / least_share
        super().__init__()
        self._predictions = CovariateTable(features)

    def add_row(self) -> int:
        """Add a row without items and return its index."""
        self._predictions.add_row()
        self._predictions.add_row()
        row = super().add_row()
        self._bounds[row] = self._bound
        return row

    def update(self, rows: Rows, to_a: NDArray[np.bool_], shares: Floats, values: Floats, features: Floats) -> None:
        """Add items to rows, in order.

        Args:
            rows: row of each item, shape (n,); a row may occur repeatedly.
            to_a: whether the item went to pipeline a, shape (n,).
            shares: the probability with which it did, shape (n,).
            values: its score in [0, 1], shape (n,).
            features: known before the score, in [0, 1], shape (n, features).

        Raises: ValueError if a number is out of range or not finite; nothing is added then.
        """
        least = 1 / self._bound
        if not np.all((shares >= least - 1e-12) & (shares <= 1 - least + 1e-12)):
            raise ValueError(f"shares holds one outside {least:g} to {1 - least:g}: give a smaller least_share")
        checked(values)
        f_a = self._predictions.update(2 * rows, values, features, to_a)
        f_b = self._predictions.update(2 * rows + 1, values, features, ~to_a)
        rests = np.where(to_a, (values - f_a) / shares, (f_b - values) / (1 - shares))
        rests = np.clip(rests, -self._bound, self._bound)
        added = np.stack([f_a - f_b + rests + (self._bound + 1), rests**2])
        for start in range(0, values.size, sums.MOST_VALUES):
            part = slice(start, start + sums.MOST_VALUES)
            batch = grouped(rows[part])
            gained = batch.sums(sums.limbs(added[:, part][:, batch.order]))
            self._sums[:, :, batch.rows] = sums.carried(self._sums[:, :, batch.rows] + gained)
            self._counts[batch.rows] += batch.counts

    def read(self, rows: Rows, *, confidence: float) -> Interval[Floats, Floats]:
        """Return the average difference over the items so far, with an interval valid at every look.

        It is nan, with the whole range, while there is no item.

        Raises: ValueError unless 0 < confidence < 1.
        """
        check_confidence(confidence)
        n = self._counts[rows]
        shifted, squares = sums.as_floats(self._sums[:, :, rows])
        some, at_least_one = n > 0, np.maximum(n, 1)
        estimate = np.where(some, shifted / at_least_one - (self._bound + 1), np.nan)
        times = squares / self._bound**2
        width = self._bound * boundary(times, alpha_side=(1 - confidence) / 2) / at_least_one
        lower = np.where(some, np.clip(estimate - width, -1, 1), -1.0)
        return Interval(estimate, lower, np.where(some, np.clip(estimate + width, -1, 1), 1.0))

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        of_pipelines = (self._predictions.to_bytes(2 * row + number) for number in range(2))
        return super().to_bytes(row) + b"".join(of_pipelines)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version, or with other features or another least share.
        """
        at, bound = self.size, self._bounds[row]
        super().load(row, data[:at])
        if self._bounds[row] != bound:
            raise ValueError(f"an assignment has the least share {1 / self._bounds[row]:g} instead of {1 / bound:g}")
        for number in range(2):
            end = at + self._predictions.size
            self._predictions.load(2 * row + number, data[at:end])
            at = end
        if at != len(data):
            raise ValueError(f"an assignment has {len(data)} bytes instead of {at}: it has other features")
