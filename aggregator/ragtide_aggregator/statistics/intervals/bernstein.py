"""The `empirical_bernstein` confidence sequence: bets on a constant mean, set by the values before.

Source: Waudby-Smith, Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1): Theorem 2,
and section 3.2 for the predictable plug-in bets.
"""

from math import log

import numpy as np

from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from ..tables.tables import checked


class PlugInBets(RowTable, capacity=16):
    """The bets sqrt(2 ln(2 / alpha) / (variance t ln(1 + t))), with the variance of the values before.

    An imagined first value of 1/2 with variance 1/4 is included. Arrays have one element per row.

    Args:
        confidence: level in (0, 1).
    """

    # Number of values, their sum, and their squared deviations from the means with the imagined value.
    _seen = RowColumn(np.float64, (3,), fill=(0.0, 0.0, 0.25))

    def __init__(self, confidence: float) -> None:
        super().__init__()
        self._log_level = log(2 / (1 - confidence))

    def _next_bets(self, rows: Rows) -> Floats:
        n, _, spread = self._seen[:, rows]
        t = n + 1
        return np.asarray(np.sqrt(2 * self._log_level / (spread / t * t * np.log1p(t))))

    def _see(self, rows: Rows, x: Floats) -> None:
        n, total, spread = self._seen[:, rows]
        n, total = n + 1, total + x
        self._seen[:, rows] = n, total, spread + (x - (0.5 + total) / (n + 1)) ** 2

    def estimate(self, rows: Rows) -> Floats:
        """Return the means; nan without values."""
        n, total, _ = self._seen[:, rows]
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)


class BernsteinTable(PlugInBets, version=1, what="empirical_bernstein"):
    """Empirical-Bernstein confidence sequences, one row each.

    The bets depend on the confidence level and on the order of the values, so the level is fixed at the start and two
    rows cannot be merged.

    Args:
        confidence: level in (0, 1).
    """

    # Sums of the bets, of bet times value, and of the costs of deviations below and above.
    _sums = RowColumn(np.float64, (4,))

    def add_row(self, population: int | None = None) -> int:
        """Add a row and return its index; the population is ignored."""
        del population
        return super().add_row()

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values in [0, 1] to rows, in order; a row may occur more than once.

        Raises: ValueError if a value is not in [0, 1]; nothing is added then.
        """
        checked(values)
        batch: Grouped = grouped(rows)
        x = values[batch.order][batch.rounds.order]
        for here in batch.rounds.slices():
            rows, value = batch.rows[: here.stop - here.start], x[here]
            n, total, _ = self._seen[:, rows]
            bet = np.minimum(self._next_bets(rows), 0.5)
            # Deviations are from the plain mean of the values before, 0 before the first value. The theorem allows any
            # prediction made in advance; the reference values use this one. For the upper end all is mirrored.
            before = total / np.maximum(n, 1)
            above = np.where(n > 0, value - before, 1 - value)
            price = -np.log1p(-bet) - bet
            self._sums[:, rows] += bet, bet * value, (value - before) ** 2 * price, above**2 * price
            self._see(rows, value)

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends, within [0, 1]."""
        bets, weighted, below, above = self._sums[:, rows]
        some = np.where(bets > 0, bets, 1.0)
        lower = (weighted - self._log_level - below) / some
        upper = (weighted + self._log_level + above) / some
        return np.where(bets > 0, np.clip(lower, 0, 1), 0.0), np.where(bets > 0, np.clip(upper, 0, 1), 1.0)


def bernstein_path(x: Floats, confidence: float) -> Floats:
    """Return lower and upper end after each value in [0, 1], shape (n, 2), as a table would give them one by one."""
    log_level = log(2 / (1 - confidence))
    t = np.arange(1, x.size + 1)
    total = np.cumsum(x)
    spread = np.concatenate([[0.25], 0.25 + np.cumsum((x - (0.5 + total) / (t + 1)) ** 2)])[:-1]
    bet = np.minimum(np.sqrt(2 * log_level / (spread / t * t * np.log1p(t))), 0.5)
    before = np.concatenate([[0.0], (total / t)[:-1]])
    above = np.concatenate([[1.0], (total / t)[:-1]])
    price = -np.log1p(-bet) - bet
    weighted, bets = np.cumsum(bet * x), np.cumsum(bet)
    lower = (weighted - log_level - np.cumsum((x - before) ** 2 * price)) / bets
    upper = (weighted + log_level + np.cumsum((above - x) ** 2 * price)) / bets
    return np.asarray(np.clip(np.stack([lower, upper], axis=1), 0.0, 1.0))
