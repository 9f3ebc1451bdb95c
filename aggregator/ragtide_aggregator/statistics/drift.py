"""Drift detection with a stated false-alarm rate: an e-detector on the mean of bounded values.

Against the claim "the mean is at least the limit" each value x pays 1 + l (limit - x) on a bet l: at most 1 on average
while the claim holds. M_t = (M_{t-1} + 1) (1 + l (limit - x_t)) collects the bets begun at every earlier time
(Shiryaev-Roberts), averaged over a grid of bets. M_t - t then falls on average, so while the claim holds the mean
number of values until M >= A is at least A. A rise is the mirror image. Both directions at once are two detectors at
2 A each: either alarms only if the mean of the two has reached A.

Source: Shin, Ramdas, Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection",
The New England Journal of Statistics in Data Science 2(2), section 4; docs/drift.md.
"""

import struct
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from .batches import Floats, Grouped, Rounds, Rows, grouped
from .tables import checked, doubled

Direction = Literal["fall", "rise"]

BETS: Final = 12
"""Bets in the grid, geometric between two shares of the largest possible bet, 1 / (1 - limit)."""

SMALLEST_BET, LARGEST_BET = 0.02, 0.8

VERSION: Final = 2
"""Version of the bytes of one row."""

_HEAD = struct.Struct("<B6d")
_SIZE = _HEAD.size + 6 * BETS * 8
_CAPACITY = 16
_GRID = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)


@dataclass(frozen=True, slots=True)
class Alarm:
    """The evidence of a detector when it alarms. The values are as they were given, not mirrored."""

    position: int
    """Position in the batch of the value that decided it."""
    row: int
    log_evidence: float
    """Natural logarithm of M; the alarm sounds at log(run_length)."""
    run_length: float
    """A: the level that M reached."""
    change_n: int
    """Number of values since the estimated change point."""
    change_mean: float
    """Their mean."""
    change_variance: float
    """Their sample variance; 0 for a single value."""
    change_tag: int
    """Tag of the first of them."""


class DetectorTable:
    """E-detectors, one row each, updated together.

    A row holds M / A per bet, so that it alarms at 1 and each value adds 1 / A: that is the part of a false alarm the
    value may cost. The sum of what all values may cost bounds the expected number of false alarms, however it is shared
    among rows and over time; so a budget of a whole deployment is kept by giving out shares of it.

    The change point is where the CUSUM of the best bet last stood at its floor: the start that makes the values since
    then the most unlikely under the claim. Source: Lorden (1971), Annals of Mathematical Statistics 42: 1897-1908.
    """

    def __init__(self) -> None:
        self._used = 0
        # Per row: the limit and the values' sign in mirrored terms, so that every row looks for a fall; 1 / A.
        self._rising = np.zeros(_CAPACITY, dtype=bool)
        self._limit = np.zeros(_CAPACITY)
        self._cost = np.zeros(_CAPACITY)
        # Per row and bet: M / A; CUSUM; number, sum and sum of squares of the values before its start; the start's tag.
        self._m = np.zeros((_CAPACITY, BETS))
        self._cusum = np.zeros((_CAPACITY, BETS))
        self._start = np.zeros((_CAPACITY, BETS, 3))
        self._tag = np.zeros((_CAPACITY, BETS), dtype=np.int64)
        # Per row: number, sum and sum of squares of the values since it began.
        self._totals = np.zeros((_CAPACITY, 3))

    def __len__(self) -> int:
        return self._used

    def add_row(self) -> int:
        """Add a row and return its index; `configure` or `load` it before it is updated."""
        if self._used == self._limit.size:
            for name in ("_rising", "_limit", "_cost", "_m", "_cusum", "_start", "_tag", "_totals"):
                setattr(self, name, doubled(getattr(self, name)))
        self._used += 1
        return self._used - 1

    def configure(self, row: int, *, limit: float, direction: Direction, run_length: float) -> None:
        """Let a row look for a mean beyond a limit, from now on.

        Args:
            row: index.
            limit: the mean that is still acceptable, in (0, 1).
            direction: on which side of it means are not.
            run_length: A, at least the mean number of values between false alarms, above 1.

        Raises: ValueError if an argument is out of its range.
        """
        if not (isfinite(run_length) and run_length > 1):
            raise ValueError(f"run_length is {run_length}: give the least mean number of values between false alarms")
        self._rising[row] = direction == "rise"
        self.move_limit(row, limit)
        self._cost[row] = 1 / run_length
        self.restart(row)

    def move_limit(self, row: int, limit: float) -> None:
        """Let a row go on with another limit. The guarantee stays if the limit was chosen without the values to come.

        Raises: ValueError unless the limit is in (0, 1).
        """
        if not 0 < limit < 1:
            raise ValueError(f"limit is {limit}: no mean of values in [0, 1] lies beyond it; choose one inside (0, 1)")
        self._limit[row] = 1 - limit if self._rising[row] else limit

    def restart(self, row: int) -> None:
        """Take all values from a row; its limit stays."""
        for array in (self._m, self._cusum, self._start, self._tag, self._totals):
            array[row] = 0

    def log_evidence(self, row: int) -> float:
        """Return log M of a row; minus infinite at the start."""
        m = float(np.add.reduce(self._m[row])) / BETS
        return log(m) - log(float(self._cost[row])) if m > 0 else -inf

    def change_n(self, row: int) -> int:
        """Return the number of values since the change point estimated so far."""
        best = int(np.argmax(self._cusum[row]))
        return int(self._totals[row, 0] - self._start[row, best, 0])

    def costs(self, rows: Rows) -> Floats:
        """Return the cost of a value for each of these rows: 1 / run_length."""
        return self._cost[rows]

    def longest(self, row: int) -> int:
        """Return the number of values since the earliest change point that may still be found."""
        return int(self._totals[row, 0] - np.min(self._start[row, :, 0]))

    def update(
        self, rows: Rows, values: Floats, tags: NDArray[np.int64], *, costs: Floats | None = None
    ) -> tuple[list[Alarm], Rows]:
        """Add values to rows, in order; return the alarms by position, and the positions that were not taken.

        A row takes no value of the batch after its alarm, and stands at M = 0 then, so that the caller may configure it
        anew before it is given the rest.

        Args:
            rows: row of each value; a row may occur more than once.
            values: in [0, 1], same shape.
            tags: one number a value, reported if a change began with the value, such as its time; same shape.
            costs: the most that each value may add to the expected number of false alarms, positive, same shape; each
                row's 1 / run_length unless given.

        Raises: ValueError if a value is not in [0, 1]; nothing is added then.
        """
        checked(values)
        if not values.size:
            return [], np.zeros(0, dtype=np.intp)
        return self._update(np.arange(values.size), rows, values, tags, self._cost[rows] if costs is None else costs)

    def _update(
        self, at: Rows, rows: Rows, values: Floats, tags: NDArray[np.int64], costs: Floats
    ) -> tuple[list[Alarm], Rows]:
        batch = grouped(rows)
        order = batch.order[batch.rounds.order]
        path = _Path(self, batch, values[order], costs[order])
        alarmed = path.alarmed[batch.rounds.place]
        never = np.iinfo(np.intp).max
        first = np.minimum.reduceat(np.where(alarmed, batch.occurrence, never), batch.starts)
        taken = batch.occurrence <= batch.spread(first)
        if not np.all(taken):
            keep = np.sort(batch.order[taken])
            alarms, _ = self._update(at[keep], rows[keep], values[keep], tags[keep], costs[keep])
            return alarms, np.sort(at[batch.order[~taken]])
        path.store(self, batch, tags[order])
        alarms = []
        for rank in np.flatnonzero(first != never).tolist():
            last = batch.starts[rank] + batch.counts[rank] - 1
            position = int(batch.order[last])
            alarms.append(self._alarm(int(at[position]), int(batch.rows[rank]), float(costs[position])))
        return sorted(alarms, key=lambda alarm: alarm.position), np.zeros(0, dtype=np.intp)

    def _alarm(self, position: int, row: int, cost: float) -> Alarm:
        best = int(np.argmax(self._cusum[row]))
        n, total, squares = (self._totals[row] - self._start[row, best]).tolist()
        mean = total / n
        alarm = Alarm(
            position=position,
            row=row,
            log_evidence=log(float(np.add.reduce(self._m[row])) / BETS) - log(cost),
            run_length=1 / cost,
            change_n=int(n),
            change_mean=mean,
            change_variance=max(squares - n * mean**2, 0.0) / (n - 1) if n > 1 else 0.0,
            change_tag=int(self._tag[row, best]),
        )
        self.restart(row)
        return alarm

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly.

        Raises: ValueError if a number of the row is not finite.
        """
        self._check_finite(row)
        head = (float(self._rising[row]), float(self._limit[row]), float(self._cost[row]), *self._totals[row].tolist())
        arrays = (self._m, self._cusum, self._start)
        parts = [_HEAD.pack(VERSION, *head), *(array[row].astype("<f8").tobytes() for array in arrays)]
        return b"".join([*parts, self._tag[row].astype("<i8").tobytes()])

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version, or hold a number that is not finite.
        """
        if len(data) != _SIZE or data[0] != VERSION:
            raise ValueError(f"a drift detector has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, rising, self._limit[row], self._cost[row], *totals = _HEAD.unpack_from(data)
        self._rising[row], self._totals[row] = bool(rising), totals
        floats = np.frombuffer(data, "<f8", 5 * BETS, _HEAD.size)
        self._m[row], self._cusum[row] = floats[:BETS], floats[BETS : 2 * BETS]
        self._start[row] = floats[2 * BETS :].reshape(BETS, 3)
        self._tag[row] = np.frombuffer(data, "<i8", BETS, _HEAD.size + 5 * BETS * 8)
        self._check_finite(row)

    def _check_finite(self, row: int) -> None:
        held = (self._limit[row], self._cost[row], self._totals[row], self._m[row], self._cusum[row], self._start[row])
        if not all(np.isfinite(one).all() for one in held):
            raise ValueError("a drift detector holds a number that is not finite")


class _Path:
    """The evidence of a batch's rows, value by value: the state of the rows, then the values in rounds."""

    def __init__(self, table: DetectorTable, batch: Grouped, values: Floats, costs: Floats) -> None:
        rounds, rows = batch.rounds, batch.rows
        of = rows[rounds.ranks]
        limit = table._limit[of]
        mirrored = np.where(table._rising[of], 1 - values, values)
        k = rows.size
        # M and CUSUM side by side: what a value adds to either, the least that it then is, and what it is paid.
        adds = np.zeros((values.size, 2 * BETS))
        adds[:, :BETS] = costs[:, None]
        least = np.zeros((k, 2 * BETS))
        least[:, BETS:] = 1
        pays = np.empty((values.size, 2 * BETS))
        pays[:, :BETS] = pays[:, BETS:] = 1 + ((limit - mirrored) / (1 - limit))[:, None] * _GRID
        path = np.empty((k + values.size, 2 * BETS))
        path[:k, :BETS], path[:k, BETS:] = table._m[rows], table._cusum[rows]
        # A row continues here after its alarm, up to infinity; its evidence from then on is not used.
        with np.errstate(over="ignore"):
            _walk(rounds, adds, least, pays, path)
            self.m, self.cusum = path[:, :BETS], path[:, BETS:]
            self.alarmed = np.add.reduce(self.m[k:], axis=1) >= BETS
        self._values = values

    def store(self, table: DetectorTable, batch: Grouped, tags: NDArray[np.int64]) -> None:
        """Write the state after every row's last value into the table."""
        rows, edges, place = batch.rows, batch.rounds.edges, batch.rounds.place
        k = rows.size
        rank = np.arange(k)
        last = k + edges[batch.counts - 1] + rank
        # Number of the value with which each bet's CUSUM last left its floor; -1 before the batch.
        floor = np.empty((place.size, BETS), dtype=bool)
        first = batch.occurrence == 0
        floor[first] = table._cusum[rows] <= 1
        floor[~first] = self.cusum[k + place[np.flatnonzero(~first) - 1]] <= 1
        began = np.maximum.reduceat(np.where(floor, batch.occurrence[:, None], -1), batch.starts, axis=0)
        anew, begun = began >= 0, np.maximum(began, 0)
        values = self._values[place]
        added = np.stack([np.ones_like(values), values, values * values], axis=1)
        totals = _running(batch, table._totals[rows], added)
        at = batch.starts[:, None] + begun
        before = np.where(begun[:, :, None] > 0, totals[at - 1], table._totals[rows][:, None, :])
        table._start[rows] = np.where(anew[:, :, None], before, table._start[rows])
        table._tag[rows] = np.where(anew, tags[place[at]], table._tag[rows])
        table._m[rows], table._cusum[rows] = self.m[last], self.cusum[last]
        table._totals[rows] = totals[batch.starts + batch.counts - 1]


def _walk(rounds: Rounds, adds: Floats, least: Floats, pays: Floats, path: Floats) -> None:
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


def _running(batch: Grouped, state: Floats, added: Floats) -> Floats:
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
