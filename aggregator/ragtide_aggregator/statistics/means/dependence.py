"""Dependence of neighbouring values, measured by blocks: how much more the sums of blocks spread than those of chance.

A block is a stretch of L values of a key in a row. For independent values the sum of a block has L times the variance
of a value. The design effect of L is the ratio of the two. It grows with L until blocks are longer than the dependence
reaches: from there on blocks are as good as independent of each other. Sessions that overlap show nothing in short
blocks, so a length is trusted only if no longer block has a larger effect.

Source: Kunsch (1989), "The jackknife and the bootstrap for general stationary observations", Annals of Statistics
17: 1217-1241 (variance of block sums); Kish (1965), "Survey Sampling", section 5.4 (design effect).
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables import sums
from ..tables.batches import Floats, Grouped, Rows, grouped
from ..tables.row_table import ADD, RowColumn, RowTable, add_exactly
from .moments import Moments

BLOCKS: Final = (4, 16, 64, 256, 1024)
"""Lengths of blocks that are measured."""

LEAST_BLOCKS: Final = 20
"""Fewest blocks from which the effect of a length is measured."""

SETTLED: Final = 1.15
"""A length is long enough if longer blocks have at most this many times its effect."""

FIRST_BLOCK: Final = 64
"""Length of blocks while blocks of 256 are not measured yet."""

VERSION: Final = 1
"""Version of the bytes of one row."""

_HEAD_SIZE, _LEVEL_SIZE = 1 + 8 * 4, 8 * 7
_LEVELS = len(BLOCKS)
_LONG = BLOCKS.index(256)


@dataclass(frozen=True, slots=True)
class Dependence:
    """The measured dependence of neighbouring values; arrays with one element a key."""

    design_effect: Floats
    """How many times larger the dependence makes the variance of the mean; nan below 20 blocks of 4 values."""
    block: NDArray[np.int64]
    """Length of blocks that are as good as independent of each other."""
    settled: NDArray[np.bool_]
    """Whether longer blocks were measured, and have no larger effect."""
    certain: Floats
    """The least design effect that the number of blocks leaves plausible: two standard errors below."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The values since a change of the mean; arrays with one element a key, or one for all."""

    n: NDArray[np.int64]
    mean: Floats


class DependenceTable(RowTable):
    """Sums of squared block sums, one row per key; exact, so independent of how values were cut into batches.

    A merged row is only read: no values are added to it.
    """

    _n = RowColumn(np.int64, least=0)
    _total = RowColumn(np.int64, (3,), least=0)
    # Per level: number of full blocks, sum of all values up to the last full block, sum of squared block sums.
    _counts = RowColumn(np.int64, (_LEVELS,), merge=ADD, least=0)
    _ends = RowColumn(np.int64, (_LEVELS, 3), merge=add_exactly(1), least=0)
    _squares = RowColumn(np.int64, (_LEVELS, 3), merge=add_exactly(1), least=0)

    def update(self, rows: Rows, values: Floats) -> None:
        """Add values in [0, 1] to rows, in order; a row may occur more than once. Both have shape (n,)."""
        for start in range(0, rows.size, sums.MOST_VALUES):
            part = slice(start, start + sums.MOST_VALUES)
            self._update(grouped(rows[part]), values[part])

    def _update(self, batch: Grouped, values: Floats) -> None:
        as_limbs = sums.limbs(values[batch.order])
        number = batch.spread(self._n[batch.rows]) + batch.occurrence + 1
        after = batch.before(as_limbs, self._total[:, batch.rows]) + as_limbs
        row_of = batch.spread(batch.rows)
        for level, length in enumerate(BLOCKS):
            full = np.flatnonzero(number % length == 0)
            if full.size:
                self._add_blocks(level, row_of[full], after[:, full])
        sums.add(self._total, batch, as_limbs)
        self._n[batch.rows] += batch.counts

    def _add_blocks(self, level: int, rows: Rows, ends: sums.Limbs) -> None:
        """Add full blocks, sorted by row, by the sums of all values up to their ends."""
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        last = np.append(first[1:], rows.size) - 1
        distinct = rows[first]
        before = np.roll(ends, 1, axis=1)
        before[:, first] = self._ends[level][:, distinct]
        block_sums = sums.as_floats(sums.carried(ends - before))
        squares = np.add.reduceat(sums.limbs(block_sums * block_sums), first, axis=1)
        self._squares[level][:, distinct] = sums.carried(self._squares[level][:, distinct] + squares)
        self._ends[level][:, distinct] = sums.carried(ends[:, last])
        self._counts[level][distinct] += last - first + 1

    def read(self, rows: Rows, moments: Moments, moved: Moved | None = None) -> Dependence:
        """Return the dependence of rows.

        Args:
            rows: to read.
            moments: of all values, one element a row.
            moved: the last values, if their mean is known to have changed. The change alone would look like dependence:
                neighbours are on the same side of it. So its part of the spread is left out.
        """
        effects = np.full((_LEVELS, rows.size), np.nan)
        errors = np.full((_LEVELS, rows.size), np.nan)
        moved = moved or Moved(np.zeros(rows.size, dtype=np.int64), moments.mean)
        spread = np.maximum(np.nan_to_num(moments.variance) - _between(moments, moved, 1, moments.n), 0.0)
        for level, length in enumerate(BLOCKS):
            count = self._counts[level, rows]
            known = (count >= LEAST_BLOCKS) & (spread > 0)
            some = np.maximum(count, 2)
            mean = sums.totals(self._ends[level], rows) / some
            variance = sums.totals(self._squares[level], rows) / some - mean**2
            variance = np.maximum(variance - _between(moments, moved, length, some), 0.0) * some / (some - 1)
            effects[level] = np.where(known, variance / (length * np.where(known, spread, 1.0)), np.nan)
            errors[level] = np.where(known, np.sqrt(2 / some), np.nan)
        return _dependence(effects, errors)

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return self.bytes_of(np.array([row]))[0]

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return rows as bytes, exactly."""
        found, version = [b""] * rows.size, bytes([VERSION])
        # Levels without a full block hold zeros; they are the last, and left out.
        used = np.count_nonzero(self._counts[:, rows], axis=0)
        for levels in np.unique(used).tolist():
            which = np.flatnonzero(used == levels)
            some, size = rows[which], _HEAD_SIZE - 1 + _LEVEL_SIZE * levels
            numbers = [self._n[None, some], self._total[:, some], self._counts[:levels, some]]
            numbers += [part[:levels, :, some].reshape(3 * levels, which.size) for part in (self._ends, self._squares)]
            data = np.concatenate(numbers).T.astype("<i8").tobytes()
            for number, place in enumerate(which.tolist()):
                found[place] = version + data[number * size : (number + 1) * size]
        return found

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        levels, rest = divmod(len(data) - _HEAD_SIZE, _LEVEL_SIZE)
        if rest or not 0 <= levels <= _LEVELS or data[0] != VERSION:
            raise ValueError(f"a row of blocks has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        numbers = np.array(struct.unpack(f"<B{4 + 7 * levels}q", data)[1:], dtype=np.int64)
        self._n[row], self._total[:, row] = numbers[0], numbers[1:4]
        for part in (self._counts, self._ends, self._squares):
            part[..., row] = 0
        counts, ends, squares = np.split(numbers[4:], [levels, 4 * levels])
        self._counts[:levels, row] = counts
        self._ends[:levels, :, row], self._squares[:levels, :, row] = ends.reshape(-1, 3), squares.reshape(-1, 3)


def _between(moments: Moments, moved: Moved, length: int, blocks: NDArray[np.int64]) -> Floats:
    """Return the part of the variance of so many block sums that a change of the mean makes."""
    before = moments.n - moved.n
    step = np.divide((moved.mean - moments.mean) * moments.n, before, out=np.zeros(before.shape), where=before > 0)
    # Blocks from the change on: the first of them holds the change, unless the change is at its beginning.
    first, inside = np.divmod(before, length)
    some = np.maximum(blocks, 1)
    whole = np.maximum(blocks - first - (inside > 0), 0)
    part = np.where((inside > 0) & (first < blocks), 1 - inside / length, 0.0)
    return np.asarray((length * step) ** 2 * ((whole + part**2) / some - ((whole + part) / some) ** 2))


def _dependence(effects: Floats, errors: Floats) -> Dependence:
    known = ~np.isnan(effects)
    # Half a standard error is left to chance: else independent values would need long blocks too often.
    plausible = np.where(known, effects * (1 - errors / 2), 0.0)
    longer = np.maximum.accumulate(plausible[::-1], axis=0)[::-1]
    longer = np.concatenate([longer[1:], np.zeros((1, effects.shape[1]))])
    enough = known & (longer <= SETTLED * np.where(known, effects, 0.0))
    level = np.where(enough.any(axis=0), np.argmax(enough, axis=0), 0)
    column = np.arange(effects.shape[1])
    # The longest measured length has nothing longer beside it.
    longest = _LEVELS - 1 - np.argmax(known[::-1], axis=0)
    long_known = known[_LONG]
    settled = long_known & (level < longest)
    first = BLOCKS.index(FIRST_BLOCK)
    level = np.where(long_known, level, first)
    shown = np.where(long_known, level, np.where(known.any(axis=0), longest, 0))
    effect, error = effects[shown, column], errors[shown, column]
    return Dependence(effect, np.array(BLOCKS)[level], settled, effect * np.maximum(1 - 2 * error, 0.0))
