"""The rank of each value among earlier values of the same stream, as a bet on a change can take it. Pure.

If nothing changes, the values are exchangeable, and the share of earlier values below a new one (half of those equal to
it count) has mean 1/2, whatever their distribution. So no mean has to be learned, and none can be learned too low or
too high: a value is compared with all that came before, and the comparison sharpens with each value. A fall shows as
ranks whose mean is below 1/2. The rank of a value with only two levels is a linear function of it, so a bet on ranks
then loses nothing against a bet on the values.

The latest third of the values, at most `WAITING`, waits before later values are compared with it: a change does not
hide in its own shadow. Its price is a run length that is simulated (benchmarks/falls.py) and not proven.

Source of ranks as evidence against exchangeability: Vovk, Gammerman, Shafer (2022), "Algorithmic Learning in a Random
World", chapter 8.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from math import exp
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import RowColumn, RowTable
from .evidence import running_sums

BINS: Final = 128
"""Values in [0, 1] are compared in steps of 1 / `BINS`."""

LEAST: Final = 30
"""Number of first values that are only learned."""

WAITING: Final = 256
"""Most values that wait before later values are compared with them; of fewer than three times as many, a third do."""

MOST_MOVED: Final = 0.1
"""Most by which the mean rank may be lower before it counts. After any fall of values that hardly spread all ranks are
the lowest, so ranks do not say how large it is: a rule compares the means, too, before an alert fires."""

_NONE: Final = -1
"""Stands for no value."""

_AT_ONCE: Final = 32
"""Values of a stream that are compared with each other at once; more would be compared with too many in vain."""

_VALUES = np.arange(BINS + 1) / BINS

Bins = NDArray[np.int64]


class Ranked(NamedTuple):
    """Ranks of values, scaled so that they are in [0, 1]; shape (n,)."""

    ranks: Floats
    limits: Floats
    """The mean that the ranks have after the largest change that does not matter."""


def bins_of(values: Floats) -> Bins:
    """Return the steps of values in [0, 1]."""
    return np.rint(values * BINS).astype(np.int64)


class EarlierTable(RowTable, what="earlier values", capacity=16):
    """The values of streams so far, as later ones are compared with them; one row each, updated together.

    Attributes:
        n: number of values so far: single ones, or means of clusters.
        answers: number of the single values.
        total: sum of the single values.
        step: largest change of their mean that does not matter, in [0, 1].
    """

    # The state of its rule stores a row, as JSON.
    n = RowColumn(np.int64, stored=False)
    answers = RowColumn(np.int64, stored=False)
    total = RowColumn(np.float64, stored=False)
    step = RowColumn(np.float64, stored=False)
    # By step: number of the values that later ones are compared with. The others wait, value j at j modulo `WAITING`.
    _counts = RowColumn(np.int64, (BINS + 1,), axis=0, stored=False)
    _waiting = RowColumn(np.uint8, (WAITING,), axis=0, stored=False)
    # How far the mean rank moves with the mean of the values, and when it is measured again.
    _slope = RowColumn(np.float64, fill=0.5, stored=False)
    _measured_next = RowColumn(np.int64, fill=LEAST, stored=False)

    def add_one(self, row: int, mean: float, size: int) -> None:
        """Add one value to a row; the same as `add`, and faster for one."""
        before = int(self.n[row])
        compared, n, step = _compared(before), before + 1, round(mean * BINS)
        if _compared(n) > compared:
            freed = step if compared == before else self._waiting[row, compared % WAITING]
            self._counts[row, freed] += 1
        self._waiting[row, before % WAITING] = step
        self.n[row] = n
        self.answers[row] += size
        self.total[row] += size * mean
        if n >= self._measured_next[row]:
            self._slope[row] = _slopes(self._counts[row : row + 1])[0]
            self._measured_next[row] = n + max(n // 10, 1)

    def add(self, rows: Rows, means: Floats, sizes: Rows) -> None:
        """Add values to rows, in order.

        Args:
            rows: of each value.
            means: the values, in [0, 1].
            sizes: number of single values of each.
        """
        if not rows.size:
            return
        batch = grouped(rows)
        some, means, sizes = batch.rows, means[batch.order], sizes[batch.order]
        bins, before = bins_of(means), self.n[some]
        released = self._released(some, batch, bins)
        for streams, after, slopes in self._measurements(some, batch, released):
            self._slope[some[streams]] = slopes
            n = before[streams] + after
            self._measured_next[some[streams]] = n + np.maximum(n // 10, 1)
        rows = batch.spread(some)
        np.add.at(self._counts, (rows[released != _NONE], released[released != _NONE]), 1)
        kept = np.flatnonzero(batch.occurrence >= batch.spread(batch.counts) - WAITING)
        numbers = batch.spread(before) + batch.occurrence
        self._waiting[rows[kept], numbers[kept] % WAITING] = bins[kept]
        self.n[some] += batch.counts
        self.answers[some] += batch.sums(sizes)
        totals = running_sums(batch, self.total[some][:, None], (sizes * means)[:, None])
        self.total[some] = totals[batch.starts + batch.counts - 1, 0]

    def ranked(self, streams: Rows, falls: NDArray[np.bool_], batch: Grouped, values: Floats) -> Ranked:
        """Return the ranks of the next values of streams, which are not added.

        Ranks are scaled by the highest rank that a value can have (by the lowest for a rise), as the bet on values with
        few levels needs it: 9 of 10 values may be the best there is. One value at the bad end of the range counts as if
        it had come before all, so that the first bad value is not beyond all experience.

        Args:
            streams: row of each stream, which has at least `LEAST` values; shape (k,).
            falls: whether a fall of the mean is the bad change of a stream, and not a rise; shape (k,).
            batch: the values by stream, numbered as in these arrays.
            values: in the batch's order; shape (n,).
        """
        rows, falls = streams[batch.rows], falls[batch.rows]
        bins, falling = bins_of(values), batch.spread(falls)
        released = self._released(rows, batch, bins)
        counts = np.where(falls[:, None], self._counts[rows], self._counts[rows][:, ::-1])
        # A rise is the fall of the mirrored values.
        mirrored = np.where(falling | (released == _NONE), released, BINS - released)
        bins = np.where(falling, bins, BINS - bins)
        compared = _compared_of(batch.spread(self.n[rows]) + batch.occurrence)
        standing = _standing(counts, batch, bins, mirrored)
        ranks = _rank(standing.below, standing.equal, compared, is_worst=bins == 0)
        below_best = compared - standing.equal_best
        largest = _rank(below_best, standing.equal_best, compared, is_worst=standing.best == 0)
        ranks = np.minimum(ranks / largest, 1.0)
        limits = self._factors(rows, batch, released) / (2 * largest)
        return Ranked(np.where(falling, ranks, 1 - ranks), np.where(falling, limits, 1 - limits))

    def _released(self, rows: Rows, batch: Grouped, bins: Bins) -> Bins:
        """Return for each value of a batch the earlier one that waits no longer once it is added, or none."""
        before = batch.spread(self.n[rows])
        number = before + batch.occurrence
        first = _compared_of(number)
        # Those of the batch itself; of the others the place is not used.
        own = np.maximum(first - before, 0) + batch.spread(batch.starts)
        waited = self._waiting[batch.spread(rows), first % WAITING]
        values = np.where(first < before, waited, bins[own])
        return np.where(_compared_of(number + 1) > first, values, _NONE)

    def _measurements(self, rows: Rows, batch: Grouped, released: Bins) -> Iterator[tuple[Rows, Rows, Floats]]:
        """Yield streams whose slope is measured again, each after how many values of the batch, and the slopes."""
        before, due = self.n[rows], self._measured_next[rows]
        counts, counted = self._counts[rows], np.zeros(rows.size, dtype=np.intp)
        while (streams := np.flatnonzero(due <= before + batch.counts)).size:
            after = due[streams] - before[streams]
            new = after - counted[streams]
            places = np.arange(new.sum()) + np.repeat(batch.starts[streams] + after - np.cumsum(new), new)
            of, freed = np.repeat(streams, new), released[places]
            np.add.at(counts, (of[freed != _NONE], freed[freed != _NONE]), 1)
            counted[streams] = after
            yield streams, after, _slopes(counts[streams])
            due[streams] += np.maximum(due[streams] // 10, 1)

    def _factors(self, rows: Rows, batch: Grouped, released: Bins) -> Floats:
        """Return twice the mean that the rank of each value has after the largest change that does not matter."""
        factors, since = np.zeros(batch.order.size), np.zeros(batch.order.size, dtype=np.intp)

        def begin(places: Rows, moved: Floats) -> None:
            # By the function of one number: that of NumPy may differ in the last bit.
            factors[places] = [exp(-2 * min(move, MOST_MOVED)) for move in moved.tolist()]
            since[places] = places

        begin(batch.starts, self.step[rows] * self._slope[rows])
        for streams, after, slopes in self._measurements(rows, batch, released):
            inside = after < batch.counts[streams]
            some = streams[inside]
            begin(batch.starts[some] + after[inside], self.step[rows[some]] * slopes[inside])
        return factors[np.maximum.accumulate(since)]

    def dumps(self, rows: Rows) -> list[dict[str, Any]]:
        """Return the state of each of rows as JSON can hold it."""
        of, steps = np.nonzero(self._counts[rows])
        counts = self._counts[rows][of, steps].tolist()
        edges, names = np.searchsorted(of, np.arange(rows.size + 1)).tolist(), [_NAMES[step] for step in steps.tolist()]
        dumped = []
        for place, row in enumerate(rows.tolist()):
            n, mine = int(self.n[row]), slice(edges[place], edges[place + 1])
            waiting = self._waiting[row, np.arange(_compared(n), n) % WAITING].tobytes()
            dumped.append(
                {
                    "n": n,
                    "counts": dict(zip(names[mine], counts[mine], strict=True)),
                    "waiting": b64encode(waiting).decode(),
                    "slope": float(self._slope[row]),
                    "measured_next": int(self._measured_next[row]),
                }
            )
        return dumped

    def take_dumped(self, row: int, dumped: Mapping[str, Any]) -> None:
        """Set a row to what `dumps` returned for one.

        Raises: ValueError if the numbers do not belong together.
        """
        n, waiting = dumped["n"], np.frombuffer(b64decode(dumped["waiting"]), dtype=np.uint8)
        if waiting.size != n - _compared(n):
            raise ValueError(f"of {n} earlier values {waiting.size} wait, and not {n - _compared(n)}")
        self._counts[row] = 0
        for step, count in dumped["counts"].items():
            self._counts[row, int(step)] = count
        self._waiting[row, np.arange(_compared(n), n) % WAITING] = waiting
        self.n[row], self._slope[row], self._measured_next[row] = n, dumped["slope"], dumped["measured_next"]


_NAMES: Final = [str(step) for step in range(BINS + 1)]


def _compared(n: int) -> int:
    """Return how many of n values later ones are compared with: the first ones."""
    return n - min(n // 3, WAITING)


def _compared_of(n: Rows) -> Rows:
    return n - np.minimum(n // 3, WAITING)


class _RankStanding(NamedTuple):
    """Where values stand among earlier ones that may fall; shape (n,)."""

    below: Bins
    """Number of the earlier values below each."""
    equal: Bins
    best: Bins
    """The highest earlier value."""
    equal_best: Bins
    """Number of the earlier values that are as high."""


def _standing(counts: Bins, batch: Grouped, bins: Bins, released: Bins) -> _RankStanding:
    """Return where the values of a batch stand.

    Args:
        counts: number of earlier values by step, of each stream; it changes.
        batch: the values by stream.
        bins: their steps, in the batch's order.
        released: step that each adds to the earlier values of the ones after it, or none.
    """
    standing = _RankStanding(*np.empty((4, bins.size), dtype=np.int64))
    best = BINS - np.argmax(counts[:, ::-1] > 0, axis=1)
    for start in range(0, int(batch.counts.max(initial=0)), _AT_ONCE):
        # The streams with the most values come first.
        k = int(np.searchsorted(-batch.counts, -start, side="left"))
        width = np.arange(min(_AT_ONCE, int(batch.counts[0]) - start))
        inside = start + width < batch.counts[:k, None]
        places = batch.starts[:k, None] + np.where(inside, start + width, 0)
        mine, freed = bins[places], np.where(inside, released[places], _NONE)
        # Of the values of this stretch, those before each.
        earlier = np.concatenate([np.full((k, 1), _NONE), freed[:, :-1]], axis=1)
        best_at = np.maximum(np.maximum.accumulate(earlier, axis=1), best[:k, None])
        less, same, same_best = _compared_within(mine, best_at, freed)
        below, of = np.cumsum(counts[:k], axis=1), np.arange(k)[:, None]
        equal = counts[of, mine]
        columns = (below[of, mine] - equal + less, equal + same, best_at, counts[of, best_at] + same_best)
        for column, numbers in zip(standing, columns, strict=True):
            column[places[inside]] = numbers[inside]
        there = freed != _NONE
        np.add.at(counts, (np.nonzero(there)[0], freed[there]), 1)
        best[:k] = np.maximum(best[:k], freed.max(axis=1))
    return standing


def _compared_within(mine: Bins, best: Bins, freed: Bins) -> tuple[Bins, Bins, Bins]:
    """Return the number of values that others free before each: those below it, equal to it, and equal to the best.

    All have the shape (streams, values); at most `_AT_ONCE` values.
    """
    # As small numbers with the values that are compared on the first axis, all of it is done many at a time. No value
    # is above `BINS`.
    values, bests = mine.astype(np.uint8), best.astype(np.uint8)
    others = np.where(freed == _NONE, BINS + 1, freed).astype(np.uint8).T[:, :, None]
    before = np.tri(mine.shape[1], k=-1, dtype=bool).T[:, None, :]

    def count(compared: NDArray[np.bool_]) -> Bins:
        counts: Bins = np.add.reduce((compared & before).view(np.uint8), axis=0, dtype=np.uint8).astype(np.int64)
        return counts

    return count(others < values), count(others == values), count(others == bests)


def _rank(below: Bins, equal: Bins, compared: Rows, *, is_worst: NDArray[np.bool_]) -> Floats:
    # One more value is at the bad end: below this one, or equal to it.
    return np.asarray((below + ~is_worst + (equal + is_worst + 1) / 2) / (compared + 2))


def _slopes(counts: Bins) -> Floats:
    """Return how far the mean rank of streams moves per change of the mean: the regression of ranks on values.

    It is 1/2 for values of which some are 0 and the others 1, and so while all values are equal.
    """
    n = counts.sum(axis=1)
    mean = np.add.reduce(counts * _VALUES, axis=1) / n
    distance = _VALUES - mean[:, None]
    variance = np.add.reduce(counts * distance**2, axis=1) / n
    ranks = (np.cumsum(counts, axis=1) - counts / 2) / n[:, None]
    covariance = np.add.reduce(counts * distance * ranks, axis=1) / n
    slopes: Floats = np.divide(covariance, variance, out=np.full(n.size, 0.5), where=variance > 0)
    return slopes
