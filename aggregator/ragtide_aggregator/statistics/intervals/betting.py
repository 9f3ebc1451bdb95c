"""The `betting` confidence sequence: all means on a grid against which no bettor has won much.

For each possible mean m two bettors, one on higher and one on lower values, multiply their capital by
1 + l (x - m) and 1 - l (x - m). The interval contains every m at which half of the larger capital is below 1 / alpha.
In a finite population without replacement, the mean of the values still to come is
(N m - sum so far) / (N - number so far). Bets are against that mean, and the interval closes when all values are seen.

Source: Waudby-Smith, Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1): Theorem 3
(hedged capital), section 4.2, and section 5 (without replacement).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import RowColumn
from ..tables.tables import checked
from .bernstein import PlugInBets

STEPS: Final = 1000
"""Steps of the grid of means; an end is exact to one step."""

LARGEST_SHARE: Final = 0.5
"""Largest share of its capital that a bettor may lose on one value."""


class BettingTable(PlugInBets, version=2, what="betting", capacity=4):
    """Betting confidence sequences, one row each: the tightest at small n, with 16 KB per row for 1,000 steps.

    The bets depend on the confidence level and on the order of the values, so the level is fixed at the start and two
    rows cannot be merged.

    Args:
        confidence: level in (0, 1).
        steps: steps of the grid of means.
        grid: means to test instead, rising, such as the mean of a hypothesis.
    """

    _population = RowColumn(np.float64, fill=np.nan)
    # Logarithms of the capital of the bettors on higher and on lower values.
    _capital = RowColumn(np.float64, (2, "_grid"), axis=0)

    def __init__(self, confidence: float, *, steps: int = STEPS, grid: Floats | None = None) -> None:
        self._means = np.arange(steps + 1) / steps if grid is None else grid
        self._grid, self._step = self._means.size, 1 / steps
        super().__init__(confidence)

    def add_row(self, population: int | None = None) -> int:
        """Add a row for at most `population` values, and return its index."""
        row = super().add_row()
        self._population[row] = np.nan if population is None else population
        return row

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values in [0, 1] to rows, in order; a row may occur more than once.

        Raises: ValueError if a value is not in [0, 1], or a row would exceed its population; nothing is added.
        """
        checked(values)
        batch = grouped(rows)
        if np.any(self._seen[0, batch.rows] + batch.counts > self._population[batch.rows]):
            raise ValueError("there are more values than the population has: give the number of all values")
        x = values[batch.order][batch.rounds.order]
        for here in batch.rounds.slices():
            self._add(batch.rows[: here.stop - here.start], x[here])

    def _add(self, rows: Rows, x: Floats) -> None:
        bet = self._next_bets(rows)[:, None]
        n, total, _ = self._seen[:, rows]
        population = self._population[rows]
        finite = np.isfinite(population)[:, None]
        left = population[:, None] * self._means - total[:, None]
        m = np.where(finite, left / (population - n)[:, None], self._means)
        possible = (m >= 0) & (m <= 1)
        # Plus 0, because -0.0 (left by a sum of tiny values) would bet minus infinity.
        m = np.clip(m, 0.0, 1.0) + 0.0
        off = x[:, None] - m
        with np.errstate(divide="ignore", over="ignore"):
            higher = np.log1p(np.minimum(bet, LARGEST_SHARE / m) * off)
            lower = np.log1p(-np.minimum(bet, LARGEST_SHARE / (1 - m)) * off)
        self._capital[rows, 0] += np.where(possible, higher, np.inf)
        self._capital[rows, 1] += np.where(possible, lower, np.inf)
        self._see(rows, x)

    def kept(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row and each mean of the grid whether it is not ruled out; shape (rows, means)."""
        return np.asarray(np.maximum(self._capital[rows, 0], self._capital[rows, 1]) <= self._log_level)

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends, within [0, 1] and within the means that the values still to come allow."""
        n, total, _ = self._seen[:, rows]
        population = self._population[rows]
        kept = self.kept(rows)
        some = np.any(kept, axis=1)
        # A step further out, because the end is between the last kept mean and the next.
        lower = np.where(some, self._means[np.argmax(kept, axis=1)] - self._step, 0.0)
        upper = np.where(some, self._means[::-1][np.argmax(kept[:, ::-1], axis=1)] + self._step, 1.0)
        finite = np.isfinite(population)
        least = np.where(finite, total / population, 0.0)
        most = np.where(finite, (total + population - n) / population, 1.0)
        # The range that is left may be narrower than a step of the grid.
        return np.clip(lower, least, most), np.clip(upper, least, most)
