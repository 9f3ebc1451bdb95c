"""Running intervals that predict each value from covariates: features known before it, such as the question's length.

**Prediction.** A value x with features z is predicted as mean(x) + b (z - mean(z)), cut to [0, 1]: means of the values
before it, and slopes b = (Z + RIDGE)^-1 c of a ridge regression, with Z the centered squares and products of the
features and c those of features and values, all of the past. Slopes are fitted anew when a row's number of values
reaches 16, 20, 25, 31, ... (a quarter more each time). They are 0 as long as predictions with slopes missed by more,
in sum of squares, than plain means.

**Interval.** Theorem 4 of Howard et al. holds for any prediction in [0, 1] that is made before its value: with V the
sum of (x - prediction)^2, the mean of x stays within u(V) / n of the mean of E[x | past], at every n but for alpha.
"Past" may be any growing knowledge, so it may hold the features of the value itself. The interval then holds for

    the average, over the questions that were asked so far, of the expected score of such a question (given z).

Its width falls by the factor sqrt(1 - R^2), where R^2 is the part of the variance that the features explain.

**The price.** That target is not the one of the plain interval, which is the average of the expected score of a
question that was not seen yet. The two differ by the luck of which questions were asked: the part that the features
explain. The narrower interval does not cover the plain target. An interval that does gains nothing from covariates of
the same items alone: the luck of the draw is in the data and stays. So the adjusted interval may answer "how good
were the answers to these questions", and may not replace the plain one where the question is "how good is the
pipeline". Comparisons under random assignment have no such price: see `assignment.py`. Estimates from a labeled part of
all items have none either: the prediction from covariates is then a cheap score of `PairTable`.

State is exact sums, so the result does not depend on how values were cut into batches, to the bit. States merge: sums
add up, and the slopes are fitted to all; the merged intrinsic time is that of each part predicting its own values.

Sources: Howard, Ramdas, McAuliffe, Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence sequences",
Annals of Statistics 49(2), Theorem 4; Lindon, Ham, Tingley, Bojinov (2022), "Anytime-valid linear models and regression
adjusted causal inference in randomized experiments", arXiv:2210.08589; Hoerl, Kennard (1970), "Ridge regression",
Technometrics 12: 55-67.
"""

from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ..intervals.running import FIRST_GUESS, running_interval
from ..tables import sums
from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import ADD, RowColumn, RowTable, add_exactly
from ..tables.tables import checked

MOST_FEATURES: Final = 8
"""Most features of one table."""

RIDGE: Final = 1.0
"""Ridge penalty, added to the centered squares of each feature in [0, 1]: the weight of a few uninformative values."""

_ERRORS: Final = 3
_PLAIN, _FITTED, _USED = -3, -2, -1
"""Sums of squared errors: of plain means, with the slopes fitted last, and of the predictions that were made."""


def _refits() -> NDArray[np.int64]:
    numbers = [16]
    while numbers[-1] < 2**60:
        numbers.append(numbers[-1] + numbers[-1] // 4)
    return np.array(numbers)


REFITS: Final = _refits()
"""Numbers of values at which a row's slopes are fitted."""


class CovariateTable(RowTable, version=2, what="covariates", capacity=16):
    """Means of values in [0, 1], their predictions from features in [0, 1], and intrinsic times; one row per key.

    Args:
        features: number of features, 0 to MOST_FEATURES. Without, each value is predicted by the mean before it.

    Raises: ValueError for another number of features.

    >>> table = CovariateTable(features=1)
    >>> rows, asked = np.repeat(table.add_row(), 400), np.tile([0.0, 1.0], 200)
    >>> predictions = table.update(rows, 0.2 + 0.6 * asked, asked[:, None])
    >>> predictions[:2].round(2).tolist(), predictions[-2:].round(2).tolist()
    ([0.5, 0.2], [0.2, 0.8])
    """

    _counts = RowColumn(np.int64, merge=ADD)
    # Value, features, products of features, products with the value, errors.
    _sums = RowColumn(np.int64, (3, "_width"), merge=add_exactly(0))
    # Slopes fitted last, and those in use: the same, or 0.
    _slopes = RowColumn(np.float64, (2, "features"))

    def __init__(self, features: int) -> None:
        if not 0 <= features <= MOST_FEATURES:
            raise ValueError(f"features is {features}: give at most {MOST_FEATURES} numbers a value")
        self.features = features
        self._pairs = np.triu_indices(features)
        self._width = 1 + 2 * features + self._pairs[0].size + _ERRORS
        super().__init__()

    def counts(self, rows: Rows) -> NDArray[np.int64]:
        """Return the numbers of values of rows."""
        return self._counts[rows]

    def means(self, rows: Rows) -> Floats:
        """Return the means of the values of rows, correctly rounded; 0 without values."""
        return np.asarray(sums.totals(self._sums[:, 0], rows) / np.maximum(self._counts[rows], 1))

    def slopes(self, rows: Rows) -> Floats:
        """Return the slopes in use, shape (rows, features); 0 while they do not help."""
        return np.asarray(self._slopes[1][:, rows].T)

    def times(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return intrinsic times of rows: of predictions by plain means, and of those that were made.

        1 - second / first estimates R^2, the part of the variance that the features explain.
        """
        return sums.totals(self._sums[:, _PLAIN], rows), sums.totals(self._sums[:, _USED], rows)

    def intervals(self, rows: Rows, *, confidence: float) -> tuple[Floats, Floats]:
        """Return ends for the average expected score of the questions asked so far, valid at every look.

        Raises: ValueError unless 0 < confidence < 1 and every row has a value.
        """
        return running_interval(self.means(rows), self._counts[rows], self.times(rows)[1], confidence=confidence)

    def update(self, rows: Rows, values: Floats, features: Floats, seen: NDArray[np.bool_] | None = None) -> Floats:
        """Add values to rows, in order; return the prediction of each, made before it.

        Args:
            rows: row of each value, shape (n,); a row may occur repeatedly.
            values: in [0, 1], shape (n,).
            features: known before the value, in [0, 1], shape (n, features).
            seen: which values there are, shape (n,); the others are predicted only. All unless given.

        Raises: ValueError if a value or a feature is out of range or not finite; nothing is added then.
        """
        if features.shape != (values.size, self.features):
            raise ValueError(f"features has shape {features.shape}: give {self.features} numbers for each value")
        known = np.ones(values.shape, dtype=bool) if seen is None else seen
        values = np.where(known, values, 0.0)
        checked(values)
        checked(features)
        predictions = np.empty(values.shape)
        adds = known.astype(np.int64)
        for start in range(0, values.size, sums.MOST_VALUES):
            left = np.arange(start, min(start + sums.MOST_VALUES, values.size))
            while left.size:
                here = left[self._before_refit(rows[left], adds[left])]
                batch = grouped(rows[here])
                place = here[batch.order]
                predictions[place] = self._add(batch, values[place], features[place].T, adds[place])
                self._refit(batch.rows[np.isin(self._counts[batch.rows], REFITS)])
                left = np.setdiff1d(left, here, assume_unique=True)
        return predictions

    def _before_refit(self, rows: Rows, adds: NDArray[np.int64]) -> NDArray[np.bool_]:
        batch = grouped(rows)
        counts = self._counts[batch.rows]
        n = batch.before(adds[batch.order], counts)
        before = np.empty(rows.shape, dtype=bool)
        before[batch.order] = n < batch.spread(REFITS[np.searchsorted(REFITS, counts, side="right")])
        return before

    def _add(self, batch: Grouped, x: Floats, z: Floats, known: NDArray[np.int64]) -> Floats:
        rows, d = batch.rows, self.features
        first, second = self._pairs
        held = z * known
        moving = sums.limbs(np.concatenate([x[None], held]))
        n = batch.before(known, self._counts[rows])
        before = sums.as_floats(sums.carried(batch.before(moving, self._sums[:, : 1 + d, rows]))) / np.maximum(n, 1)
        plain = np.where(n > 0, before[0], FIRST_GUESS)
        predicted = np.stack([plain, plain])
        # Feature by feature, so that no sum depends on how many values stand side by side.
        for number in range(d):
            predicted += batch.spread(self._slopes[:, number][:, rows]) * (z[number] - before[1 + number])
        predicted = np.clip(predicted, 0, 1)
        errors = (x - np.stack([plain, *predicted])) ** 2 * known
        rest = sums.limbs(np.concatenate([held[first] * held[second], held * x, errors]))
        gained = batch.sums(np.concatenate([moving, rest], axis=1))
        self._sums[:, :, rows] = sums.carried(self._sums[:, :, rows] + gained)
        self._counts[rows] += batch.sums(known)
        return np.asarray(predicted[1])

    def _refit(self, rows: Rows) -> None:
        if not rows.size:
            return
        d, n = self.features, self._counts[rows].astype(np.float64)
        totals = sums.as_floats(self._sums[:, :, rows])
        x, z, products = totals[0], totals[1 : 1 + d], totals[1 + d : -_ERRORS - d]
        squares = np.empty((d, d, rows.size))
        for number, (i, j) in enumerate(zip(*self._pairs, strict=True)):
            squares[i, j] = squares[j, i] = products[number] - z[i] * z[j] / n + RIDGE * (i == j)
        fitted = solved(squares, totals[-_ERRORS - d : -_ERRORS] - z * x / n)
        self._slopes[0][:, rows] = fitted
        self._slopes[1][:, rows] = np.where(totals[_FITTED] < totals[_PLAIN], fitted, 0.0)

    def merge(self, row: int, other: Self, other_row: int) -> None:
        """Add the values of a row of another table of the same features, or of this one, to a row."""
        super().merge(row, other, other_row)
        if self._counts[row] >= REFITS[0]:
            self._refit(np.array([row]))


def solved(squares: Floats, products: Floats) -> Floats:
    """Return the solutions of symmetric positive definite equations, by elimination, elementwise over rows.

    Args:
        squares: shape (d, d, rows).
        products: right sides, shape (d, rows).
    """
    a, b = squares.copy(), products.copy()
    d = len(b)
    for pivot in range(d):
        for below in range(pivot + 1, d):
            share = a[below, pivot] / a[pivot, pivot]
            for column in range(pivot + 1, d):
                a[below, column] -= share * a[pivot, column]
            b[below] -= share * b[pivot]
    for pivot in reversed(range(d)):
        for column in range(pivot + 1, d):
            b[pivot] -= a[pivot, column] * b[column]
        b[pivot] /= a[pivot, pivot]
    return b
