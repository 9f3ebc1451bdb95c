"""Drift detection with a stated false-alarm rate: an e-detector on the mean of bounded values.

Against the claim "the mean is at least the line" each value x pays 1 + l (line - x) on a bet l: at most 1 on average
while the claim holds. M_t = (M_{t-1} + 1) (1 + l (line - x_t)) collects the bets begun at every earlier time
(Shiryaev-Roberts), averaged over a grid of bets. M_t - t then falls on average, so while the claim holds the mean
number of values until M >= A is at least A. A rise is the mirror image. Both directions at once are two detectors at
2 A each: either alarms only if the mean of the two has reached A.

Source: Shin, Ramdas, Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection",
The New England Journal of Statistics in Data Science 2(2), section 4; docs/statistics.md, "Drift".
"""

import struct
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from .batches import Floats, Grouped, Rows, grouped
from .tables import checked, doubled

Direction = Literal["fall", "rise"]

BETS: Final = 12
"""Bets in the grid, geometric between two shares of the largest possible bet, 1 / (1 - line)."""

SMALLEST_BET, LARGEST_BET = 0.02, 0.8

VERSION: Final = 2
"""Version of the bytes of one row."""

_HEAD = struct.Struct("<B6d")
_SIZE = _HEAD.size + 6 * BETS * 8
_CAPACITY = 16
_GRID = np.geomspace(SMALLEST_BET, LARGEST_BET, BETS)


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a detector knows when it alarms. The values are as they were given, not mirrored."""

    position: int
    """Position in the batch of the value that decided it."""
    row: int
    log_evidence: float
    """Natural logarithm of M; the alarm sounds at log(run_length)."""
    run_length: float
    """A: what M had to reach."""
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
        # Per row: the line and the values' sign in mirrored terms, so that every row looks for a fall; 1 / A.
        self._rising = np.zeros(_CAPACITY, dtype=bool)
        self._line = np.zeros(_CAPACITY)
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
        if self._used == self._line.size:
            for name in ("_rising", "_line", "_cost", "_m", "_cusum", "_start", "_tag", "_totals"):
                setattr(self, name, doubled(getattr(self, name)))
        self._used += 1
        return self._used - 1

    def configure(self, row: int, *, line: float, direction: Direction, run_length: float) -> None:
        """Let a row look for a mean beyond a line, from now on.

        Args:
            row: index.
            line: the mean that is still acceptable, in (0, 1).
            direction: on which side of it means are not.
            run_length: A, at least the mean number of values between false alarms, above 1.

        Raises: ValueError if an argument is out of its range.
        """
        if not (isfinite(run_length) and run_length > 1):
            raise ValueError(f"run_length is {run_length}: give the least mean number of values between false alarms")
        self._rising[row] = direction == "rise"
        self.move_line(row, line)
        self._cost[row] = 1 / run_length
        self.restart(row)

    def move_line(self, row: int, line: float) -> None:
        """Let a row go on with another line. The guarantee stays if the line was chosen without the values to come.

        Raises: ValueError unless the line is in (0, 1).
        """
        if not 0 < line < 1:
            raise ValueError(f"line is {line}: no mean of values in [0, 1] lies beyond it; choose one inside (0, 1)")
        self._line[row] = 1 - line if self._rising[row] else line

    def restart(self, row: int) -> None:
        """Take all values from a row; its line stays."""
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
        """Return what a value costs each of these rows: 1 / run_length."""
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
            tags: what is to be known of a value if a change began with it, such as its time; same shape.
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
        """Return a row as bytes, exactly."""
        head = (float(self._rising[row]), float(self._line[row]), float(self._cost[row]), *self._totals[row].tolist())
        arrays = (self._m, self._cusum, self._start)
        parts = [_HEAD.pack(VERSION, *head), *(array[row].astype("<f8").tobytes() for array in arrays)]
        return b"".join([*parts, self._tag[row].astype("<i8").tobytes()])

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != _SIZE or data[0] != VERSION:
            raise ValueError(f"a drift detector has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, rising, self._line[row], self._cost[row], *totals = _HEAD.unpack_from(data)
        self._rising[row], self._totals[row] = bool(rising), totals
        floats = np.frombuffer(data, "<f8", 5 * BETS, _HEAD.size)
        self._m[row], self._cusum[row] = floats[:BETS], floats[BETS : 2 * BETS]
        self._start[row] = floats[2 * BETS :].reshape(BETS, 3)
        self._tag[row] = np.frombuffer(data, "<i8", BETS, _HEAD.size + 5 * BETS * 8)


class _Path:
    """What a batch makes of its rows' evidence, value by value; in chained order (`Rounds.chained`)."""

    def __init__(self, table: DetectorTable, batch: Grouped, values: Floats, costs: Floats) -> None:
        rounds, rows = batch.rounds, batch.rows
        of = rows[rounds.ranks]
        line = table._line[of]
        mirrored = np.where(table._rising[of], 1 - values, values)
        pays = 1 + ((line - mirrored) / (1 - line))[:, None] * _GRID
        k = rows.size
        self.m = np.empty((k + values.size, BETS))
        self.cusum = np.empty_like(self.m)
        self.totals = np.empty((k + values.size, 3))
        self.m[:k], self.cusum[:k], self.totals[:k] = table._m[rows], table._cusum[rows], table._totals[rows]
        # The round in which each bet's CUSUM last stood at its floor; -1 before the batch.
        self.began = np.full((k, BETS), -1, dtype=np.intp)
        added = np.stack([np.ones_like(values), values, values**2], axis=1)
        costs = costs[:, None]
        # A row goes on here after its alarm, up to infinity; what it makes of those values is not taken.
        with np.errstate(over="ignore"):
            for number, (here, before) in enumerate(rounds.chained()):
                value = slice(here.start - k, here.stop - k)
                cusum = self.cusum[before]
                self.began[: len(cusum)][cusum <= 1] = number
                np.multiply(np.maximum(cusum, 1), pays[value], out=self.cusum[here])
                np.multiply(self.m[before] + costs[value], pays[value], out=self.m[here])
                np.add(self.totals[before], added[value], out=self.totals[here])
            self.alarmed = np.add.reduce(self.m[k:], axis=1) >= BETS

    def store(self, table: DetectorTable, batch: Grouped, tags: NDArray[np.int64]) -> None:
        """Write the state after every row's last value into the table."""
        rows, edges = batch.rows, batch.rounds.edges
        k = rows.size
        rank = np.arange(k)
        last = k + edges[batch.counts - 1] + rank
        table._m[rows], table._cusum[rows], table._totals[rows] = self.m[last], self.cusum[last], self.totals[last]
        began = np.maximum(self.began, 0)
        before = np.where(began > 0, k + edges[began - 1], 0) + rank[:, None]
        anew = self.began >= 0
        table._start[rows] = np.where(anew[:, :, None], self.totals[before], table._start[rows])
        table._tag[rows] = np.where(anew, tags[edges[began] + rank[:, None]], table._tag[rows])
