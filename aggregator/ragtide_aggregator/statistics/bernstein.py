"""The `empirical_bernstein` confidence sequence: bets on a constant mean, set by the values before.

Source: Waudby-Smith, Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1): Theorem 2,
and section 3.2 for the predictable plug-in bets.
"""

import struct
from math import log
from typing import Final

import numpy as np

from .batches import Floats, Grouped, Rows, grouped
from .tables import checked, doubled

VERSION: Final = 1
"""Version of the bytes of one row."""

_CAPACITY = 16


class PlugInBets:
    """The bets sqrt(2 ln(2 / alpha) / (variance t ln(1 + t))), with the variance of the values before.

    An imagined first value of 1/2 with variance 1/4 is included. Arrays have one element per row.
    """

    def __init__(self, log_level: float) -> None:
        self._log_level = log_level
        # Number of values, their sum, and their squared deviations from the means with the imagined value.
        self.state = np.zeros((3, _CAPACITY))
        self.state[2] = 0.25

    def grow(self) -> None:
        """Double the number of rows."""
        self.state = doubled(self.state, axis=1)
        self.state[2, self.state.shape[1] // 2 :] = 0.25

    def next(self, rows: Rows) -> Floats:
        """Return the bets on the next value of rows, without any limit."""
        n, _, spread = self.state[:, rows]
        t = n + 1
        return np.asarray(np.sqrt(2 * self._log_level / (spread / t * t * np.log1p(t))))

    def add(self, rows: Rows, x: Floats) -> None:
        """Add one value to each of some distinct rows."""
        n, total, spread = self.state[:, rows]
        n, total = n + 1, total + x
        self.state[:, rows] = n, total, spread + (x - (0.5 + total) / (n + 1)) ** 2


class BernsteinTable:
    """Empirical-Bernstein confidence sequences, one row each.

    The bets depend on the confidence level and on the order of the values, so the level is fixed at the start and two
    rows cannot be merged.

    Args:
        confidence: level in (0, 1).
    """

    def __init__(self, confidence: float) -> None:
        self._log_level = log(2 / (1 - confidence))
        self._used = 0
        self._bets = PlugInBets(self._log_level)
        # Sums of the bets, of bet times value, and of the costs of deviations below and above.
        self._sums = np.zeros((4, _CAPACITY))

    def __len__(self) -> int:
        return self._used

    def add_row(self, population: int | None = None) -> int:
        """Add a row and return its index; the population is ignored."""
        del population
        if self._used == self._sums.shape[1]:
            self._sums = doubled(self._sums, axis=1)
            self._bets.grow()
        self._used += 1
        return self._used - 1

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values in [0, 1] to rows, in order; a row may occur more than once.

        Raises: ValueError if a value is not in [0, 1]; nothing is added then.
        """
        checked(values)
        batch: Grouped = grouped(rows)
        x = values[batch.order][batch.rounds.order]
        for here in batch.rounds.slices():
            self._add(batch.rows[: here.stop - here.start], x[here])

    def _add(self, rows: Rows, x: Floats) -> None:
        n, total, _ = self._bets.state[:, rows]
        bet = np.minimum(self._bets.next(rows), 0.5)
        # Deviations are from the plain mean of the values before, 0 before the first value. The theorem allows any
        # prediction made in advance; the reference values use this one. For the upper end all is mirrored.
        before = total / np.maximum(n, 1)
        above = np.where(n > 0, x - before, 1 - x)
        price = -np.log1p(-bet) - bet
        self._sums[:, rows] += bet, bet * x, (x - before) ** 2 * price, above**2 * price
        self._bets.add(rows, x)

    def estimate(self, rows: Rows) -> Floats:
        """Return the means; nan without values."""
        n, total, _ = self._bets.state[:, rows]
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends, within [0, 1]."""
        bets, weighted, below, above = self._sums[:, rows]
        some = np.where(bets > 0, bets, 1.0)
        lower = (weighted - self._log_level - below) / some
        upper = (weighted + self._log_level + above) / some
        return np.where(bets > 0, np.clip(lower, 0, 1), 0.0), np.where(bets > 0, np.clip(upper, 0, 1), 1.0)

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return struct.pack("<B7d", VERSION, *self._bets.state[:, row].tolist(), *self._sums[:, row].tolist())

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != 57 or data[0] != VERSION:
            raise ValueError(f"an empirical_bernstein row has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, *parts = struct.unpack("<B7d", data)
        self._bets.state[:, row], self._sums[:, row] = parts[:3], parts[3:]


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
