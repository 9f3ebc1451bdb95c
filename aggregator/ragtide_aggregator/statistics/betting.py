"""The `betting` confidence sequence: all means on a grid against which no bettor has won much.

For each possible mean m two bettors, one on higher and one on lower values, multiply their capital by
1 + l (x - m) and 1 - l (x - m). The interval contains every m at which half of the larger capital is below 1 / alpha.
In a finite population without replacement, the mean of the values still to come is
(N m - sum so far) / (N - number so far). Bets are against that mean, and the interval closes when all values are seen.

Source: Waudby-Smith, Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B 86(1): Theorem 3
(hedged capital), section 4.2, and section 5 (without replacement).
"""

import struct
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .batches import Floats, Rows, grouped
from .bernstein import PlugInBets
from .tables import checked, doubled

STEPS: Final = 1000
"""Steps of the grid of means; an end is exact to one step."""

LARGEST_SHARE: Final = 0.5
"""Largest share of its capital that a bettor may lose on one value."""

VERSION: Final = 1
"""Version of the bytes of one row."""

_HEAD = struct.Struct("<B4dI")
_CAPACITY = 4


class BettingTable:
    """Betting confidence sequences, one row each: the tightest at small n, with 16 KB per row for 1,000 steps.

    The bets depend on the confidence level and on the order of the values, so the level is fixed at the start and two
    rows cannot be merged.

    Args:
        confidence: level in (0, 1).
        steps: steps of the grid of means.
        grid: means to test instead, rising, such as the mean of a hypothesis.
    """

    def __init__(self, confidence: float, *, steps: int = STEPS, grid: Floats | None = None) -> None:
        self._log_level = log(2 / (1 - confidence))
        self._used = 0
        self._means = np.arange(steps + 1) / steps if grid is None else grid
        self._step = 1 / steps
        self._bets = PlugInBets(self._log_level)
        self._population = np.full(self._bets.state.shape[1], np.nan)
        # Logarithms of the capital of the bettors on higher and on lower values.
        self._capital = np.zeros((2, _CAPACITY, self._means.size))

    def __len__(self) -> int:
        return self._used

    def add_row(self, population: int | None = None) -> int:
        """Add a row for at most `population` values, and return its index."""
        if self._used == self._capital.shape[1]:
            self._capital = doubled(self._capital, axis=1)
        if self._used == self._population.size:
            self._population = doubled(self._population, np.nan)
            self._bets.grow()
        self._population[self._used] = np.nan if population is None else population
        self._used += 1
        return self._used - 1

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values in [0, 1] to rows, in order; a row may occur more than once.

        Raises: ValueError if a value is not in [0, 1], or a row would exceed its population; nothing is added.
        """
        checked(values)
        batch = grouped(rows)
        if np.any(self._bets.state[0, batch.rows] + batch.counts > self._population[batch.rows]):
            raise ValueError("there are more values than the population has: give the number of all values")
        x = values[batch.order][batch.rounds.order]
        for here in batch.rounds.slices():
            self._add(batch.rows[: here.stop - here.start], x[here])

    def _add(self, rows: Rows, x: Floats) -> None:
        bet = self._bets.next(rows)[:, None]
        m = self._left(rows)
        possible = (m >= 0) & (m <= 1)
        # Plus 0, because -0.0 (left by a sum of tiny values) would bet minus infinity.
        m = np.clip(m, 0.0, 1.0) + 0.0
        off = x[:, None] - m
        with np.errstate(divide="ignore", over="ignore"):
            higher = np.log1p(np.minimum(bet, LARGEST_SHARE / m) * off)
            lower = np.log1p(-np.minimum(bet, LARGEST_SHARE / (1 - m)) * off)
        self._capital[0, rows] += np.where(possible, higher, np.inf)
        self._capital[1, rows] += np.where(possible, lower, np.inf)
        self._bets.add(rows, x)

    def _left(self, rows: Rows) -> Floats:
        """Return the mean of the values still to come, for each row and each mean of all values."""
        n, total, _ = self._bets.state[:, rows]
        population = self._population[rows]
        finite = np.isfinite(population)[:, None]
        left = population[:, None] * self._means - total[:, None]
        return np.where(finite, left / (population - n)[:, None], self._means)

    def estimate(self, rows: Rows) -> Floats:
        """Return the means; nan without values."""
        n, total, _ = self._bets.state[:, rows]
        return np.where(n > 0, total / np.maximum(n, 1), np.nan)

    def kept(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row and each mean of the grid whether it is not ruled out; shape (rows, means)."""
        return np.asarray(np.maximum(self._capital[0, rows], self._capital[1, rows]) <= self._log_level)

    def interval(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends, within [0, 1] and within the means that the values still to come allow."""
        n, total, _ = self._bets.state[:, rows]
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

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        capital = self._capital[:, row]
        head = _HEAD.pack(VERSION, self._population[row], *self._bets.state[:, row].tolist(), capital.shape[1])
        return head + capital.astype("<f8").tobytes()

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version, or for a grid of another size.
        """
        size = self._means.size
        if len(data) != _HEAD.size + 16 * size or data[0] != VERSION:
            raise ValueError(f"a betting row has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, self._population[row], *state, _ = _HEAD.unpack_from(data)
        self._bets.state[:, row] = state
        self._capital[:, row] = np.frombuffer(data, "<f8", 2 * size, _HEAD.size).reshape(2, size)
