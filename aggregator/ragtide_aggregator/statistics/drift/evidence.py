"""The recurrence of e-detectors over a batch: stakes of values, and evidence value by value. No state."""

from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables.batches import Floats, Grouped, Rounds

BETS: Final = 12
"""Bets in the grid, geometric between two shares of the largest possible bet, 1 / (1 - limit)."""

SMALLEST_BET, LARGEST_BET = 0.02, 0.8

STAKE_CORRELATION: Final = 0.15
"""Correlation of two values of a cluster that stakes suit: large clusters count for less than their size."""

VALUES_AT_ONCE: Final = 1024
"""Values whose evidence is computed at once: their numbers fit the processor's cache."""

ROUNDS_AS_FAST: Final = 16
"""A round by itself takes as long as so many rows of rounds that are summed up together."""

NEARLY: Final = 1 - 1e-9
"""Share of a level above which evidence is summed up exactly: a fast sum is off by much less."""

_GRID = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)


def stakes_of(sizes: NDArray[np.int64]) -> Floats:
    """Return the stakes of closed clusters, shape (clusters, bets) or (bets,): shares of the largest bet."""
    if np.all(sizes == 1):
        return _GRID
    effective = sizes / (1 + (sizes - 1) * STAKE_CORRELATION)
    return np.minimum(effective[:, None] * _GRID, LARGEST_BET)


@dataclass(frozen=True, slots=True)
class Steps:
    """What the values of a batch do to the evidence of their rows, in rounds; every array has an element per value."""

    costs: Floats
    """What each adds to M; a single number if all add the same."""
    ratios: Floats
    """Its distance from the limit, in units of the largest possible distance: each bet pays 1 + stake x ratio."""
    stakes: Floats
    """Shape (values, bets)."""
    levels: Floats
    """M at which its row alarms."""
    totals: Floats
    """What each adds to the totals of its row, shape (values, totals); then the totals after it."""

    def pays(self, values: slice) -> Floats:
        """Return what each bet pays for some values, shape (values, bets)."""
        pays = self.ratios[values, None] * self.stakes[values]
        pays += 1
        return pays


class RowEvidence:
    """The evidence of rows, value by value: M, CUSUM and totals of each row after its last value.

    Args:
        m: before the batch, shape (rows, bets), as the next one.
        cusum: before the batch.
        totals: before the batch, shape (rows, totals).

    Attributes:
        state: M and CUSUM side by side, shape (rows, 2, bets).
        totals: shape (rows, totals).
        began: number, from 1, of the last round before which a CUSUM was at its floor, shape (rows, bets); 0 for none.
        alarmed: whether a value takes its row to its level, in rounds. A row continues after its alarm, up to
            infinity; its evidence after the alarm is not used.
    """

    def __init__(self, m: Floats, cusum: Floats, totals: Floats) -> None:
        self.state = np.stack([m, cusum], axis=1)
        self.totals = totals
        self.began = np.zeros(m.shape, dtype=np.int32)
        self.alarmed: NDArray[np.bool_] = np.empty(0, dtype=bool)

    def follow(self, rounds: Rounds, steps: Steps) -> None:
        """Add the values of a batch, in rounds."""
        self.alarmed = np.empty(steps.ratios.size, dtype=bool)
        # As a row has them in a round: the number that a value adds to M and CUSUM, and the floor of each.
        same, least = _beside(len(self.state), steps.costs[:1], 0), _beside(len(self.state), 0, 1)
        number = 0
        for first, end, width in rounds.stretches():
            size = width * max(VALUES_AT_ONCE // width, 1)
            for start in range(first, end, size):
                values = slice(start, min(start + size, end))
                adds = same[:width]
                if steps.costs.size > 1:
                    adds = _beside(values.stop - start, steps.costs[values, None], 0)
                self._sum(steps.totals[values], width)
                self._walk(steps, values, adds, least[:width], number)
                number += (values.stop - start) // width

    def _sum(self, totals: Floats, width: int) -> None:
        sums = totals.reshape(-1, width * totals.shape[1])
        sums[0] += self.totals[:width].reshape(-1)
        if len(sums) * ROUNDS_AS_FAST > width:
            np.add.accumulate(sums, axis=0, out=sums)
        else:
            for before, after in pairwise(sums):
                np.add(before, after, out=after)
        self.totals[:width] = sums[-1].reshape(width, -1)

    def _walk(self, steps: Steps, values: slice, adds: Floats, least: Floats, first: int) -> None:
        pays = np.repeat(steps.pays(values)[:, None], 2, axis=1)
        path = np.empty((len(least) + len(pays), 2, BETS)).reshape(-1, *least.shape)
        path[0] = self.state[: len(least)]
        with np.errstate(over="ignore"):
            _follow(adds.reshape(-1, least.size), least.reshape(-1), pays.reshape(-1, least.size), path)
            self.alarmed[values] = _reached(path[1:, :, 0], BETS * steps.levels[values])
        numbers = np.arange(first + 1, first + len(path), dtype=np.int32)
        at_floor = np.maximum.reduce((path[:-1, :, 1] <= 1) * numbers[:, None, None], axis=0)
        began = self.began[: len(least)]
        np.maximum(began, at_floor, out=began)
        self.state[: len(least)] = path[-1]


def _beside(count: int, of_m: ArrayLike, of_cusum: ArrayLike) -> Floats:
    """Return numbers for M and CUSUM side by side, as a row has them in a round; shape (count, 2, bets)."""
    numbers = np.empty((count, 2, BETS))
    numbers[:, 0], numbers[:, 1] = of_m, of_cusum
    return numbers


def _follow(adds: Floats, least: Floats, pays: Floats, path: Floats) -> None:
    """Fill a path, whose first round is the state: the next is that and `adds`, at least `least`, times `pays`."""
    # A round is one flat array, which is the fastest for as few numbers as it has.
    rounds, work = path.reshape(len(path), -1), np.empty(least.size)
    before = rounds[0]
    every = adds if len(adds) == len(pays) else repeat(adds[0])
    for pay, here, add in zip(pays, rounds[1:], every, strict=False):
        np.add(before, add, out=work)
        np.maximum(work, least, out=work)
        np.multiply(work, pay, out=here)
        before = here


def _reached(m: Floats, levels: Floats) -> NDArray[np.bool_]:
    """Return whether the sum of the bets of each value reaches its level; a fast sum leaves out those far below."""
    reached: NDArray[np.bool_] = np.einsum("rvb->rv", m).reshape(-1) >= levels * NEARLY
    near = np.flatnonzero(reached)
    reached[near] = np.add.reduce(m[np.divmod(near, m.shape[1])], axis=1) >= levels[near]
    return reached


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
