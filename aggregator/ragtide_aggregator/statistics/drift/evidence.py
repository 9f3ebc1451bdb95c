"""The recurrence of e-detectors over a batch: stakes of values, and evidence value by value. No state."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Grouped, Rounds

BETS: Final = 12
"""Bets in the grid, geometric between two shares of the largest possible bet, 1 / (1 - limit)."""

SMALLEST_BET, LARGEST_BET = 0.02, 0.8

STAKE_CORRELATION: Final = 0.15
"""Correlation of two values of a cluster that stakes suit: large clusters count for less than their size."""

_GRID = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)


def stakes_of(sizes: NDArray[np.int64]) -> Floats:
    """Return the stakes of closed clusters, shape (clusters, bets) or (bets,): shares of the largest bet."""
    if np.all(sizes == 1):
        return _GRID
    effective = sizes / (1 + (sizes - 1) * STAKE_CORRELATION)
    return np.minimum(effective[:, None] * _GRID, LARGEST_BET)


def walk(rounds: Rounds, adds: Floats, least: Floats, pays: Floats, path: Floats) -> None:
    """Fill a path, whose first rows are the state, round by round.

    Each row is the larger of `least` and the one before with `adds`, times `pays`.
    """
    k, width = least.shape
    before, lowest, work = path[:k].reshape(-1), least.reshape(-1), np.empty(least.size)
    for start, end, rows in rounds.stretches():
        # A round is one flat array, which is the fastest for as few numbers as it has.
        flat = (-1, rows * width)
        size = rows * width
        before, lowest, work = before[:size], lowest[:size], work[:size]
        steps = adds[start:end].reshape(flat), pays[start:end].reshape(flat), path[k + start : k + end].reshape(flat)
        for add, pay, here in zip(*steps, strict=True):
            np.add(before, add, out=work)
            np.maximum(work, lowest, out=work)
            np.multiply(work, pay, out=here)
            before = here


def running_sums(batch: Grouped, state: Floats, added: Floats) -> Floats:
    """Return the sums of each row after each value, added one after the other; in the batch's order.

    Args:
        batch: values by row.
        state: sums before it, shape (rows, quantities).
        added: in the batch's order, shape (values, quantities).
    """
    running = added.copy()
    running[batch.starts] = state + added[batch.starts]
    if batch.rows.size < batch.counts[0]:
        for start, count in zip(batch.starts.tolist(), batch.counts.tolist(), strict=True):
            mine = running[start : start + count]
            np.add.accumulate(mine, axis=0, out=mine)
        return running
    for number in range(1, int(batch.counts[0])):
        # The rows with the most values come first.
        here = batch.starts[: int(np.searchsorted(-batch.counts, -number, side="left"))] + number
        running[here] += running[here - 1]
    return running
