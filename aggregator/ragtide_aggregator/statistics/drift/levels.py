"""Watches levels without a given baseline: it learns a mean, finds when it moved, and learns the new one.

A level is learned from its first values. Two e-detectors per level then look for a mean beyond a limit, one for a fall
and one for a rise. The limit is the lenient end of an interval for the mean that holds at every look, and at least
`MIN_EFFECT` away from the mean. As more values arrive, the interval is narrower and the limits come nearer: they are
set anew each time when half as many values have been added, unless the evidence for a change is rising already.

When a detector alarms, the level has moved at the estimated change point. The values after the alarm are learned anew,
not those since the change: the data chose that point, so their mean is too far from the old one.

The expected number of false alarms is at most the sum of the costs of all values of both detectors, while the interval
holds the mean (docs/understand/drift.md).
"""

from collections.abc import Iterator, Sequence
from math import ceil, sqrt
from typing import Final, Literal, NamedTuple, Self

import numpy as np

from ..intervals.running import running_interval
from ..means.clustered_interval import clustered_interval
from ..means.clusters import ClusterTable
from ..means.dependence import LEAST_BLOCKS, MEASURED, Dependence
from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from .drift import Alarm, DetectorTable, Direction

DIRECTIONS: Final[tuple[Direction, ...]] = ("fall", "rise")
"""Of the detectors of a level, in order: each value counts for both."""

CONFIDENCE: Final = 0.95
"""Confidence that the mean lies within the limits, without `MIN_EFFECT`, at every look."""

LEARNED: Final = 100
"""Number of values from which a level is first learned."""

MIN_EFFECT: Final = 0.02
"""Change that does not matter, as a share of the metric's range."""

GROWTH: Final = 1.5
"""The limits are set anew when the number of learned values has grown by this factor."""

RISING: Final = 1e-3
"""Evidence, of 1 at an alarm, from which on the limits stay: newer values may come from a change."""

DEPENDENT: Final = 1.2
"""A design effect that is certainly larger makes moves of independent values doubtful."""

KNOWN_N: Final = LEAST_BLOCKS * MEASURED
"""Values from which dependence is known at all, where traffic is not too slow for it to be measured."""

GROWN: Final = 2.5
"""The same for an effect that still grows with the length of blocks, before it is certain."""

FEW_ERRORS: Final = 4.0
"""Standard errors, with the design effect measured so far, from which dependence does not explain a move."""

ERRORS: Final = 6.0
"""The same where dependence is certain."""

ERRORS_GROWING: Final = 15.0
"""The same while the design effect still grows with the length of blocks: it is larger than measured."""

PART_OF_HOURS: Final = 0.4
"""Part of a move from which on a swing with the hours explains it."""

Explanation = Literal["hours", "dependence", "unknown"]
"""What explains a move besides a new level: the hour of the day, the dependence of neighbouring values, or values that
are too few to say."""

_ANY_RUN_LENGTH: Final = 10_000.0
_NEVER: Final = np.iinfo(np.intp).max


class LevelTable(RowTable, version=2, what="levels", capacity=16):
    """What is known about levels, one row each. Means are scaled to [0, 1], times in milliseconds."""

    since_ms = RowColumn(np.int64, fill=-1)
    """Time since which the level is as it is; -1 without a value."""
    next_n = RowColumn(np.int64)
    """Number of learned values at which the limits are set next."""
    known = RowColumn(np.bool_)
    """Whether the level was learned."""
    baseline = RowColumn(np.float64, least=0)
    """The learned mean, while known."""
    watches = RowColumn(np.bool_, (len(DIRECTIONS),))
    """Whether the detector of each direction takes values."""
    found_ms = RowColumn(np.int64, fill=-1)
    """Time at which the last move was found; -1 without a move."""
    rose = RowColumn(np.bool_)
    """Whether it was a rise."""
    before = RowColumn(np.float64, least=0)
    """Mean of the values before it."""
    after = RowColumn(np.float64, least=0)
    """Mean of the values since, up to where it was found."""
    n_after = RowColumn(np.int64)
    """Number of these."""
    n_before = RowColumn(np.int64)
    """Number of values before it from which the level was learned."""


HEAD: Final = LevelTable.SIZE + ClusterTable.SIZE
"""Bytes of a level before its detectors."""


class LevelChange(NamedTuple):
    """A move of a level, scaled to [0, 1]."""

    n_before: int
    before: float
    n_since: int
    since: float
    """Mean of all values since the change, those after the move was found, too."""


def explained_by(change: LevelChange, dependence: Dependence | None, swing: float) -> Explanation | None:
    """Return what else than a new level explains a move; None where nothing does.

    A detector of a level takes values that follow each other as independent ones, and knows no hour.

    Args:
        change: the move.
        dependence: of neighbouring values, one element; None where values count in clusters, or it is not measured.
        swing: how far the mean moves with the hour of the day in the direction of the move; nan if it is not known.
    """
    moved = abs(change.since - change.before)
    if swing >= PART_OF_HOURS * moved:
        return "hours"
    if dependence is None:
        return None
    if not dependence.measured[0] and change.n_before + change.n_since < KNOWN_N:
        return "unknown"
    effect, variance = np.fmax(dependence.design_effect[0], 1.0), float(dependence.variance[0])
    grows = bool(dependence.growing[0]) and effect > GROWN
    least = ERRORS_GROWING if grows else ERRORS if dependence.certain[0] > DEPENDENT else FEW_ERRORS
    error = sqrt(variance * float(effect) * (1 / max(change.n_before, 1) + 1 / max(change.n_since, 1)))
    return "dependence" if moved < least * error else None


class Levels:
    """Levels with their detectors, one row each; the result does not depend on how values were cut into batches.

    Args:
        learn: least number of values from which a level is learned.

    >>> levels = Levels(learn=50)
    >>> row = levels.add_row()
    >>> values = np.array([0.8, 1.0] * 100 + [0.3, 0.5] * 50)
    >>> ones = np.ones(values.size, dtype=np.int64)
    >>> levels.update(np.full(values.size, row), values, np.arange(values.size), np.full(values.size, 1e-4), ones)
    >>> table = levels.table
    >>> int(table.since_ms[row]), round(float(table.before[row]), 2), round(float(table.after[row]), 1)
    (200, 0.9, 0.4)
    """

    def __init__(self, learn: int = LEARNED) -> None:
        self.learn = learn
        self.table, self._learned, self._detectors = LevelTable(), ClusterTable(), DetectorTable()

    @classmethod
    def of_heads(cls, learn: int, heads: Sequence[bytes]) -> Self:
        """Return levels from the first `HEAD` bytes of what `bytes_of` returned for each: they take no values.

        Raises: ValueError if the bytes were written by another version, or hold an impossible number.
        """
        levels, rows = cls(learn), np.arange(len(heads))
        for table in (levels.table, levels._learned):
            table.add_rows(len(heads))
        levels.table.next_n[rows] = learn
        kept = [place for place, head in enumerate(heads) if not levels._begins_anew(place, head)]
        size = levels.table.size
        levels.table.load_rows(rows[kept], b"".join(heads[place][:size] for place in kept))
        levels._learned.load_rows(rows[kept], b"".join(heads[place][size:HEAD] for place in kept))
        if (levels.table.impossible(rows) | levels._learned.impossible(rows)).any():
            raise ValueError("a level holds a number that is not finite, or impossible")
        return levels

    def add_row(self) -> int:
        """Add a level and return its row."""
        for _ in DIRECTIONS:
            self._detectors.add_row()
        self._learned.add_row()
        row = self.table.add_row()
        self.table.next_n[row] = self.learn
        return row

    def n_learned(self) -> Rows:
        """Return how many values each level has learned from, since its first value or its last move."""
        return self._learned.values(np.arange(len(self.table)))

    def change(self, row: int) -> "LevelChange":
        """Return the last move of a level, with the values that came since it was found."""
        table, learned = self.table, self._learned.read([row])
        n = int(table.n_after[row]) + int(learned.n[0])
        total = float(table.after[row]) * int(table.n_after[row]) + float(learned.mean[0]) * int(learned.n[0])
        return LevelChange(int(table.n_before[row]), float(table.before[row]), n, total / max(n, 1))

    def update(self, rows: Rows, values: Floats, times_ms: Rows, costs: Floats, sizes: Rows) -> None:
        """Add values, or means of closed clusters, to levels, in order.

        Args:
            rows: row of each, shape (n,).
            values: in [0, 1], same shape.
            times_ms: of the interactions, of a cluster that of its first, same shape.
            costs: the most that each may add to the expected number of false alarms of each detector, same shape.
            sizes: number of values of each, same shape.

        Raises: ValueError if a value is not in [0, 1].
        """
        waiting = np.arange(rows.size)
        while waiting.size:
            left = self._take(rows[waiting], values[waiting], times_ms[waiting], costs[waiting], sizes[waiting])
            waiting = waiting[left]

    def _take(self, rows: Rows, values: Floats, times_ms: Rows, costs: Floats, sizes: Rows) -> Rows:
        table, batch = self.table, grouped(rows)
        began = table.since_ms[batch.rows] < 0
        table.since_ms[batch.rows[began]] = times_ms[batch.order[batch.starts[began]]]
        counts = sizes[batch.order]
        learned = batch.before(counts, self._learned.values(batch.rows)) + counts
        reached = np.where(learned >= batch.spread(table.next_n[batch.rows]), batch.occurrence, _NEVER)
        first = np.minimum.reduceat(reached, batch.starts)
        taken = np.empty(rows.size, dtype=bool)
        taken[batch.order] = batch.occurrence <= batch.spread(first)

        watched = np.flatnonzero((table.watches[:, rows] & taken).T)
        place, way = np.divmod(watched, len(DIRECTIONS))
        alarms, _ = self._detectors.update(
            len(DIRECTIONS) * rows[place] + way, values[place], times_ms[place], costs=costs[place], sizes=sizes[place]
        )
        moved: dict[int, tuple[int, Alarm]] = {}
        for alarm in alarms:
            at = int(place[alarm.position])
            if moved.setdefault(int(rows[at]), (at, alarm))[0] == at:
                taken[at + 1 :] &= rows[at + 1 :] != rows[at]

        added = np.flatnonzero(taken)
        totals = np.minimum(values[added] * sizes[added], sizes[added])
        self._learned.update(rows[added], sizes[added], totals)
        for row, (at, alarm) in moved.items():
            self._move(row, alarm, int(times_ms[at]))
        full = batch.rows[first != _NEVER]
        self._set_limits(np.array([row for row in full.tolist() if row not in moved], dtype=np.intp))
        return np.flatnonzero(~taken)

    def _move(self, row: int, alarm: Alarm, found_ms: int) -> None:
        table, learned = self.table, self._learned.read([row])
        n = int(learned.n[0])
        total = float(learned.mean[0]) * n - alarm.change_mean * alarm.change_n
        # Detectors begin after the first values were learned, so there are some before each change.
        table.before[row] = min(max(total / (n - alarm.change_n), 0.0), 1.0)
        table.after[row], table.n_after[row] = min(max(alarm.change_mean, 0.0), 1.0), alarm.change_n
        table.n_before[row] = n - alarm.change_n
        table.rose[row] = DIRECTIONS[alarm.row % len(DIRECTIONS)] == "rise"
        table.since_ms[row], table.found_ms[row] = alarm.change_tag, found_ms
        table.known[row], table.next_n[row] = False, self.learn
        table.watches[:, row] = False
        for number in range(len(DIRECTIONS)):
            self._detectors.clear(len(DIRECTIONS) * row + number)
        self._learned.clear(row)

    def _set_limits(self, rows: Rows) -> None:
        if not rows.size:
            return
        table, ways = self.table, len(DIRECTIONS)
        evidence = np.max([self._detectors.evidence(ways * rows + number) for number in range(ways)], axis=0)
        rising, rows = rows[evidence >= RISING], rows[evidence < RISING]
        table.next_n[rising] = self._learned.values(rising) + self.learn
        if not rows.size:
            return
        learned = self._learned.read(rows)
        lower, upper = running_interval(learned.mean, learned.n, learned.squares, confidence=CONFIDENCE)
        clustered = np.flatnonzero(learned.count < learned.n)
        if clustered.size:
            lower[clustered], upper[clustered] = clustered_interval(learned.at(clustered), confidence=CONFIDENCE)
        limits = np.minimum(lower, learned.mean - MIN_EFFECT), np.maximum(upper, learned.mean + MIN_EFFECT)
        for number, row in enumerate(rows.tolist()):
            n = int(learned.n[number])
            table.next_n[row] = max(ceil(GROWTH * n), n + 1)
            table.known[row], table.baseline[row] = True, min(learned.mean[number], 1.0)
            for way, direction in enumerate(DIRECTIONS):
                detector, limit = ways * row + way, float(limits[way][number])
                # No mean can move beyond an end of the range.
                inside = 0 < limit < 1
                if inside and table.watches[way, row]:
                    self._detectors.move_limit(detector, limit)
                elif inside:
                    self._detectors.configure(detector, limit=limit, direction=direction, run_length=_ANY_RUN_LENGTH)
                elif table.watches[way, row]:
                    self._detectors.clear(detector)
                table.watches[way, row] = inside

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return rows as bytes, exactly."""
        ways = len(DIRECTIONS)
        parts = [self.table.bytes_of(rows), self._learned.bytes_of(rows)]
        parts += [self._detectors.bytes_of(ways * rows + number) for number in range(ways)]
        return [b"".join(of_row) for of_row in zip(*parts, strict=True)]

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `bytes_of` returned.

        Raises: ValueError if the bytes were written by another version, or hold an impossible number.
        """
        if self._begins_anew(row, data):
            return
        for table, rows, part in self._parts(np.array([row], dtype=np.intp), [data]):
            table.load(int(rows[0]), part)

    def _begins_anew(self, row: int, data: bytes) -> bool:
        if data[:1] != b"\1":
            return False
        self.table.clear(row)
        self.table.next_n[row] = self.learn
        return True

    def load_rows(self, rows: Rows, data: Sequence[bytes]) -> None:
        """Set rows to what `bytes_of` returned for each; much faster than one by one.

        Raises: ValueError if the bytes were written by another version.
        """
        kept = [place for place, of_row in enumerate(data) if not self._begins_anew(int(rows[place]), of_row)]
        for table, of_table, part in self._parts(rows[kept], [data[place] for place in kept]):
            table.load_rows(of_table, part)

    def _parts(self, rows: Rows, data: Sequence[bytes]) -> Iterator[tuple[RowTable, Rows, bytes]]:
        ways = len(DIRECTIONS)
        tables: list[tuple[RowTable, Rows]] = [(self.table, rows), (self._learned, rows)]
        tables += [(self._detectors, ways * rows + number) for number in range(ways)]
        size = sum(table.size for table, _ in tables)
        wrong = next((len(of_row) for of_row in data if len(of_row) != size), None)
        if wrong is not None:
            raise ValueError(f"a level has {wrong} bytes")
        begin = 0
        for table, of_table in tables:
            end = begin + table.size
            yield table, of_table, b"".join(of_row[begin:end] for of_row in data)
            begin = end

    def impossible(self, rows: Rows) -> np.ndarray:
        """Return for each row whether a number is not finite, or impossible; same shape."""
        ways = len(DIRECTIONS)
        wrong = self.table.impossible(rows) | self._learned.impossible(rows)
        for number in range(ways):
            wrong |= self._detectors.impossible(ways * rows + number)
        return np.asarray(wrong)
