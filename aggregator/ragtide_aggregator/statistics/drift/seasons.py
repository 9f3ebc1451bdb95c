"""Seasonal baselines: one baseline for each hour of the day or of the week, learned from pane sums.

**Slots.** An hour of the day (24 slots) or of the week (168) is a slot; one occurrence of it is a cell, such as 14:00
on one Monday. A cell is closed when a pane of a later cell comes.

**Ends.** The mean of a slot has a `running` interval (Howard et al. 2021, Theorem 4) over the values of its closed
cells. All values of a cell are predicted by one number that was known before the cell began: the slot's mean until
then. So V follows from pane sums: sum x^2 - 2 p sum x + n p^2. The interval covers the average of the slot's true mean
over the cells so far, at every look, whatever the traffic; all slots together do, as each has its share of alpha. Until
`least_cycles` cells of a slot are closed, its interval is the whole range, so that its limit raises no alarm.

**Clusters.** Values of one session depend on each other. A closed cluster of n values with sum Y then counts as a
whole: V is the sum of (Y - n p)^2, and the boundary is that of `clustered_interval`, with n as the farthest that Y can
be from its prediction on either side. It holds if clusters are independent and close by size or time.

**A detector with such a limit.** `DetectorTable` multiplies its evidence by 1 + l (limit - x). That is at most 1 on
average if E[x | past] >= limit, also for a limit that changes with every value, if it is set before the value. The
limit here depends on closed cells and on the event time alone. So the run length is kept, but for alpha, as long as

    in normal operation, the mean at an hour is not below its average at that hour so far by more than `min_effect`.

That is the assumption, and it is one about weeks: a week that is bad as a whole is a fall. `wobble` measures how far a
slot's mean moves from cycle to cycle. For a limit that most bad weeks keep, `min_effect` is what is missing from the
interval's end to two wobbles below the slot's mean. Means are given the past: in sessions they carry the luck of the
session, and so does the wobble.

**Cycles as the unit.** With `unit="cycle"` each cell counts as one value, its mean. That interval is about E[cell mean
| earlier cells], so it needs no luck within a cell to be told apart from the week's. Its price: values in [0, 1] of
which there is one a cycle. At 24 slots it is within 0.1 of the mean after about a hundred cycles, however much traffic
there is; for hours of the week that is two years.

**Swing.** Without a seasonal baseline a rule needs a `min_effect` that covers the lowest hour. `swings` returns how far
the lowest (for a rise: the highest) slot lies from the mean of all values, with an interval that holds at every look.

Slots are cut in UTC, moved by `offset_ms`; where clocks change in summer, two weeks a year have a slot of mixed hours.

Source: docs/understand/drift.md; Shin, Ramdas, Rinaldo (2024), "E-detectors" (factors that are at most 1 on average,
given the past); Howard, Ramdas, McAuliffe, Sekhon (2021), Annals of Statistics 49(2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..intervals.intervals import Interval
from ..intervals.running import FIRST_GUESS, boundary
from ..means.clustered_interval import clustered_boundary
from ..means.clusters import LARGEST_CLUSTER
from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from ..tables.tables import check_confidence, checked
from .drift import Direction
from .season_cells import OpenCells, in_turns

HOUR_MS: Final = 3_600_000

Season = Literal["day", "week"]
Unit = Literal["value", "cycle"]

SLOTS: Final[dict[Season, int]] = {"day": 24, "week": 168}
"""Number of slots of a season."""

_N, _SUM, _V, _WEIGHTED, _CYCLES, _MEANS, _SQUARES, _V_CYCLES = _HELD = range(8)


@dataclass(frozen=True, slots=True)
class Swings(Interval[Floats, Floats]):
    """How far the lowest or highest slot lies from the mean of all values, one element a row; nan while unknown.

    The distance is 0 or more: the `min_effect` with which no hour is beyond the limit.
    """

    share: Floats
    """Share of the squares of the slots' deviations that luck does not explain, 0 to 1."""


class SeasonTable(RowTable, version=2, what="seasons", capacity=16):
    """Sums of values in [0, 1] by hour of the day or of the week, one row per key.

    Values come as pane sums, one by one, or as closed clusters. The result does not depend on how they were cut into
    batches, to the bit.

    Args:
        season: `day` or `week`.
        offset_ms: added to event time before it is cut into hours of UTC, such as 3,600,000 for UTC+1.
        least_cycles: closed cells of a slot below which nothing is known of it, at least 1.

    Raises: ValueError for an argument out of its range.

    >>> table = SeasonTable("day", least_cycles=2)
    >>> row = np.array([table.add_row()])
    >>> for day in range(4):
    ...     _ = table.add(row, np.array([day * 24 * HOUR_MS]), np.array([900]), np.array([810.0]), np.array([810.0]))
    >>> table.limits(row, 5 * 24 * HOUR_MS, direction="fall", confidence=0.95).round(2).tolist()
    [0.87]
    >>> table.limits(row, 5 * 24 * HOUR_MS + 12 * HOUR_MS, direction="fall", confidence=0.95).tolist()
    [0.0]

    The table equals this, for single values:

    >>> def learned(hours, values):  # the values of each slot, with their V
    ...     cells, held = {}, {}
    ...     for hour, value in zip(hours, values):
    ...         cells.setdefault(hour, []).append(value)
    ...     for hour, mine in list(cells.items())[:-1]:  # the last cell is open
    ...         known, v = held.get(hour % 24, ([], 0.0))
    ...         others = known or [value for of_slot, _ in held.values() for value in of_slot]
    ...         guess = np.mean(others) if others else FIRST_GUESS  # before the cell began
    ...         held[hour % 24] = known + mine, v + sum((value - guess) ** 2 for value in mine)
    ...     return held

    >>> hours, values = np.arange(400) // 10 * 12, np.tile([0.7, 1.0, 0.9, 0.8], 100)
    >>> table = SeasonTable("day", least_cycles=1)
    >>> row = np.array([table.add_row()])
    >>> table.add_values(np.zeros(400, dtype=int), hours, values)
    0
    >>> known, v = learned(hours.tolist(), values.tolist())[0]
    >>> lower = np.mean(known) - boundary(np.array([v]), alpha_side=0.05 / (2 * 24))[0] / len(known)
    >>> bool(np.isclose(table.intervals(row, confidence=0.95)[0][0, 0], lower)), bool(0.5 < lower < 0.85)
    (True, True)
    """

    # Of closed cells, per slot and quantity: number, sum, V and weighted V of values; number, sum, sum of squares and V
    # of the cells' means.
    _sums = RowColumn(np.float64, (len(_HELD), "slots"), least=-np.inf, axis=1)
    # Size of each row's largest cluster.
    _largest = RowColumn(np.float64, fill=1, least=-np.inf)

    def __init__(self, season: Season, *, offset_ms: int = 0, least_cycles: int = 4) -> None:
        if season not in SLOTS:
            raise ValueError(f"season is {season!r}: use day or week")
        if least_cycles < 1:
            raise ValueError(f"least_cycles is {least_cycles}: give 1 or more")
        self.slots = SLOTS[season]
        self._offset_ms, self._least_cycles = offset_ms, least_cycles
        super().__init__()
        self._cells = OpenCells()

    def add_row(self) -> int:
        """Add a row without values and return its index."""
        self._cells.add_row()
        return super().add_row()

    def slot(self, time_ms: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """Return the slots of event times."""
        hours: NDArray[np.int64] = np.floor_divide(np.add(time_ms, self._offset_ms, dtype=np.int64), HOUR_MS)
        slots: NDArray[np.int64] = np.mod(hours, self.slots)
        return slots

    def cycles(self, rows: Rows) -> NDArray[np.int64]:
        """Return the numbers of closed cells, shape (rows, slots)."""
        return np.asarray(self._sums[_CYCLES, rows], dtype=np.int64)

    def means(self, rows: Rows) -> Floats:
        """Return the means of the slots' values in closed cells, shape (rows, slots); nan without values."""
        n = self._sums[_N, rows]
        return np.where(n > 0, self._sums[_SUM, rows] / np.maximum(n, 1), np.nan)

    def add(self, rows: Rows, starts_ms: NDArray[np.int64], n: Rows, totals: Floats, squares: Floats) -> int:
        """Add panes, in order of time for each row; return how many came after their cell was closed and are left out.

        Args:
            rows: row of each pane, shape (panes,).
            starts_ms: event times at which panes begin; a pane is within one hour.
            n: numbers of values, 0 or more.
            totals: their sums.
            squares: their sums of squares.

        Raises: ValueError if no values in [0, 1] have these sums; nothing is added then.
        """
        room = 1e-9 * (1 + n)
        # No value is above 1, so no square is above its value; no mean square is below the square of the mean.
        possible = (n >= 0) & (totals >= 0) & (totals <= n + room) & (squares <= totals + room)
        if not np.all(possible & (squares * n >= totals**2 - room * (1 + n))):
            raise ValueError("a pane has sums that no values in [0, 1] have: scale by the metric's range first")
        some = np.flatnonzero(n > 0)
        rows, n, totals, squares = rows[some], n[some].astype(np.int64), totals[some], squares[some]
        hours = (starts_ms[some] + self._offset_ms) // HOUR_MS

        def about(at: Rows, guess: Floats) -> Floats:
            return np.maximum(squares[at] - 2 * guess * totals[at] + n[at] * guess**2, 0.0)

        return self._take(rows, hours, n, totals, about=about, sizes=np.ones(rows.size))

    def add_values(
        self, rows: Rows, hours: NDArray[np.int64], values: Floats, *, sizes: NDArray[np.int64] | None = None
    ) -> int:
        """Add values, in order of their hours for each row; return how many came after their cell was closed.

        Args:
            rows: row of each value, shape (n,).
            hours: hour since 1970 in which each counts.
            values: in [0, 1]; of closed clusters, the means of their values.
            sizes: number of values of each cluster, 1 to `LARGEST_CLUSTER`; single values unless given.

        Raises: ValueError if a value or a size is out of its range; nothing is added then.
        """
        checked(values)
        n = np.ones(values.size, dtype=np.int64) if sizes is None else sizes
        if not np.all((n >= 1) & (n <= LARGEST_CLUSTER)):
            raise ValueError(f"sizes holds a size that is not in [1, {LARGEST_CLUSTER}]: close clusters earlier")

        def about(at: Rows, guess: Floats) -> Floats:
            return np.asarray((n[at] * (values[at] - guess)) ** 2)

        return self._take(rows, hours, n, n * values, about=about, sizes=n.astype(np.float64))

    def _take(
        self, rows: Rows, hours: NDArray[np.int64], n: NDArray[np.int64], totals: Floats, *,
        about: Callable[[Rows, Floats], Floats], sizes: Floats,
    ) -> int:  # fmt: skip
        late, cells = 0, self._cells
        for turn in in_turns(rows, hours):
            at = turn[hours[turn] >= cells.hour[rows[turn]]]
            late += turn.size - at.size
            by_row = grouped(rows[at])
            later, hour = by_row.rows, hours[at][by_row.order[by_row.starts]]
            later, hour = later[hour > cells.hour[later]], hour[hour > cells.hour[later]]
            self.close(later)
            n_before, total = self._sums[_N, later, hour % self.slots], self._sums[_SUM, later, hour % self.slots]
            means = np.minimum(total / np.maximum(n_before, 1), 1.0)
            cells.begin(later, hour, np.where(n_before > 0, means, self._elsewhere(later)))
            mine = rows[at]
            v = about(at, cells.guess[mine])
            cells.add(mine, n[at], totals[at], v, sizes[at] * v)
            np.maximum.at(self._largest, mine, sizes[at])
        return late

    def _elsewhere(self, rows: Rows) -> Floats:
        n, total = (np.add.reduce(self._sums[which][rows], axis=1) for which in (_N, _SUM))
        return np.where(n > 0, np.minimum(total / np.maximum(n, 1), 1.0), FIRST_GUESS)

    def close(self, rows: Rows) -> None:
        """Close the open cells of distinct rows: no more values of their hours come."""
        rows = rows[self._cells.n[rows] > 0]
        if not rows.size:
            return
        n, total, v, weighted = self._cells.read(rows)
        slot = self._cells.hour[rows] % self.slots
        held = self._sums[:, rows, slot]
        mean = total / n
        of_means = np.where(held[_CYCLES] > 0, held[_MEANS] / np.maximum(held[_CYCLES], 1), self._elsewhere(rows))
        gained = np.stack([n, total, v, weighted, np.ones(rows.size), mean, mean**2, (mean - of_means) ** 2])
        self._sums[:, rows, slot] = held + gained
        self._cells.empty(rows)

    def values(self, rows: Rows) -> Floats:
        """Return the numbers of values in closed cells, shape (rows, slots)."""
        return np.asarray(self._sums[_N, rows])

    def intervals(self, rows: Rows, *, confidence: float, unit: Unit = "value") -> tuple[Floats, Floats]:
        """Return ends for the average of each slot's true mean over its closed cells, shape (rows, slots) each.

        With probability at least `confidence` they hold for all slots of a row, at every look.

        Args:
            rows: indices.
            confidence: in (0, 1).
            unit: `value`, or `cycle` for cells as the unit.

        Raises: ValueError unless 0 < confidence < 1.
        """
        check_confidence(confidence)
        held = self._sums[:, rows]
        n, total, v = held[[_N, _SUM, _V] if unit == "value" else [_CYCLES, _MEANS, _V_CYCLES]]
        number = np.maximum(n, 1)
        alpha_side = (1 - confidence) / (2 * self.slots)
        width = boundary(v, alpha_side=alpha_side) / number
        largest = self._largest[rows]
        dependent = np.flatnonzero(largest > 1)
        if unit == "value" and dependent.size:
            mine = v[dependent], held[_WEIGHTED, dependent]
            sizes = np.broadcast_to(largest[dependent, None], mine[0].shape)
            width[dependent] = clustered_boundary(*mine, sizes, alpha_side=alpha_side) / number[dependent]
        known = held[_CYCLES] >= self._least_cycles
        lower = np.where(known, np.clip(total / number - width, 0, 1), 0.0)
        return lower, np.where(known, np.clip(total / number + width, 0, 1), 1.0)

    def limits(
        self, rows: Rows, time_ms: NDArray[np.int64] | int, *, direction: Direction, confidence: float,
        min_effect: float = 0.0, unit: Unit = "value",
    ) -> Floats:  # fmt: skip
        """Return the limit of a detector for values at event times, one a row; 0 (for a rise: 1) if it is to wait.

        Args:
            rows: indices.
            time_ms: event time of the next values, one for all rows or one a row.
            direction: which movement the detector looks for.
            confidence: in (0, 1), for all slots of a row.
            min_effect: movement that does not matter, 0 or more.
            unit: as in `intervals`.
        """
        ends = self.intervals(rows, confidence=confidence, unit=unit)[0 if direction == "fall" else 1]
        own = ends[np.arange(rows.size), self.slot(time_ms)]
        return np.clip(own - min_effect if direction == "fall" else own + min_effect, 0.0, 1.0)

    def swings(self, rows: Rows, *, direction: Direction, confidence: float) -> Swings:
        """Return how far the lowest slot lies below the mean of all values; for a rise, the highest above it.

        Only slots with enough cycles count. The interval holds at every look with probability at least `confidence`.
        The lowest of 24 means is low by luck too. So the estimate is shrunk by that part of the squares of the slots'
        deviations which the luck of independent values explains (James, Stein 1961); sessions make it larger.
        """
        held = self._sums[:, rows]
        known = held[_CYCLES] >= self._least_cycles
        n = np.where(known, held[_N], 0.0)
        share = n / np.maximum(n.sum(axis=1, keepdims=True), 1)
        means = np.where(known, held[_SUM] / np.maximum(n, 1), 0.0)
        lower, upper = self.intervals(rows, confidence=confidence)
        if direction == "rise":
            means, lower, upper = -means, -upper, -lower

        def apart(of_all: Floats, of_lowest: Floats) -> Floats:
            overall = np.add.reduce(share * of_all, axis=1)
            return np.asarray(overall - np.min(np.where(known, of_lowest, np.inf), axis=1))

        overall = np.add.reduce(share * means, axis=1)[:, None]
        deviations = np.add.reduce(np.where(known, (means - overall) ** 2, 0.0), axis=1)
        luck = np.add.reduce(np.where(known, held[_V] / np.maximum(n, 1) ** 2, 0.0), axis=1)
        shrunk = np.maximum(1 - luck / np.where(deviations > 0, deviations, np.inf), 0.0)
        swings = shrunk * apart(means, means), apart(lower, upper), apart(upper, lower), shrunk
        some = known.any(axis=1)
        return Swings(*(np.where(some, np.maximum(swing, 0.0), np.nan) for swing in swings))

    def wobble(self, rows: Rows) -> Floats:
        """Return the standard deviation of a slot's mean from cycle to cycle beyond the luck of its values, one a row.

        It is pooled over slots; nan while no slot has two cycles. Assumes values of a cell that are independent given
        the cell, and cells of about as many values: with sessions or uneven traffic it is too large.
        """
        held = self._sums[:, rows]
        cycles = held[_CYCLES]
        several = cycles > 1
        count = np.maximum(cycles, 1)
        between = held[_SQUARES] - held[_MEANS] ** 2 / count
        # Luck of a cell's mean: the variance of a value over the number of values of a cell.
        luck = (held[_V] / np.maximum(held[_N], 1)) / (np.maximum(held[_N], 1) / count)
        left = np.where(several, between - (cycles - 1) * luck, 0.0).sum(axis=1)
        degrees = np.where(several, cycles - 1, 0.0).sum(axis=1)
        return np.where(degrees > 0, np.sqrt(np.maximum(left, 0.0) / np.maximum(degrees, 1)), np.nan)

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return super().to_bytes(row) + self._cells.to_bytes(row)

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return rows as bytes, exactly."""
        return [
            season + cells for season, cells in zip(super().bytes_of(rows), self._cells.bytes_of(rows), strict=True)
        ]

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version or of another season, or hold a number that is
            not finite.
        """
        super().load(row, data[: self.size])
        self._cells.load(row, data[self.size :])

    def load_each(self, rows: Rows, data: Sequence[bytes]) -> None:
        """Set rows to what `bytes_of` returned for each; much faster than one by one.

        Raises: ValueError if the bytes were written by another version or of another season, or hold a number that is
            not finite.
        """
        size = self.size + self._cells.size
        if any(len(of_row) != size for of_row in data):
            raise ValueError(f"a row of seasons has other than {size} bytes")
        self.load_rows(rows, b"".join(of_row[: self.size] for of_row in data))
        self._cells.load_rows(rows, b"".join(of_row[self.size :] for of_row in data))
        if (self.impossible(rows) | self._cells.impossible(rows)).any():
            raise ValueError("a row of seasons holds a number that is not finite, or below its least")
