"""Dependence of neighbouring values, measured by blocks: how much more the sums of blocks spread than those of chance.

A block is a stretch of L values of a key in a row. For independent values the sum of a block has L times the variance
of a value. The design effect of L is the ratio of the two. It grows with L until blocks are longer than the dependence
reaches: from there on blocks are as good as independent of each other. Sessions that overlap show nothing in short
blocks, so a length is trusted only if no longer block has a larger effect.

**Changes of the mean are no dependence.** The variance of a block sum S is therefore measured by how far each block is
from its two neighbours, (S1 - 2 S2 + S3)^2 / 6: a mean that is constant, or rises or falls evenly, cancels. Three
blocks that together last more than `LONGEST_MS` say nothing: the hour itself may change the mean. A step, such as the
begin or the end of an incident, is in few of these squares and makes them much larger than the others. So squares of at
least `BEYOND` times their mean (`BEYOND_SHORT` of short blocks) are left out, unless they are too many to be steps. The
variance of a value is that inside blocks plus that of their means, measured in the same way. The numbers are whole, so
they add up exactly.

Blocks that are long enough for a rule must be so for slow moves, too: their length follows from the variance of all
block sums around their common mean, unless there was a step.

Sources: Kunsch (1989), "The jackknife and the bootstrap for general stationary observations", Annals of Statistics
17: 1217-1241 (variance of block sums); von Neumann, Kent, Bellinson, Hart (1941), "The mean square successive
difference", Annals of Mathematical Statistics 12: 153-162; Gasser, Sroka, Jennen-Steinmetz (1986), "Residual variance
and residual pattern in nonlinear regression", Biometrika 73: 625-633 (three neighbours); Kish (1965), "Survey
Sampling", section 5.4 (design effect).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..tables.batches import Floats, Rows, grouped
from ..tables.row_table import ADD, RowColumn, RowTable

BLOCKS: Final = (4, 16, 64, 256, 1024)
"""Lengths of blocks that are measured."""

LEAST_BLOCKS: Final = 20
"""Fewest neighbouring blocks from which the effect of a length is measured."""

MEASURED: Final = 16
"""Length of blocks from which on dependence is known at all."""

LONGEST_MS: Final = 3 * 3_600_000
"""Most milliseconds that three blocks last together."""

BEYOND: Final = 7.0
"""A square of this many times the mean of the others is that of a step; by chance 1 in 100 is as large."""

STEPS_FROM: Final = 16
"""Length of blocks from which steps are left out; of shorter ones they are too few to matter."""

SHORT: Final = 64
"""Blocks below this length are short: where traffic is sparse there are no longer ones within `LONGEST_MS`."""

BEYOND_SHORT: Final = 20.0
"""As `BEYOND`, for short blocks, whose squares have heavier tails."""

CHANCE: Final = 0.03
"""Share of the squares that may be as large by chance."""

MOST_STEPS: Final = 0.1
"""Largest share of the squares that steps may have, besides `FEW_STEPS`: more of them are dependence."""

MOST_STEPS_SHORT: Final = 0.04
"""The same for short blocks, of which a step is in a smaller share."""

FEW_STEPS: Final = 4
"""Squares that the begin and the end of an incident have."""

MOST_OF_ALL: Final = 2 / 3
"""The same, where a step of shorter blocks may be in three squares of long ones."""

SETTLED: Final = 1.15
"""A length is long enough if longer blocks have at most this many times its effect."""

FIRST_BLOCK: Final = 64
"""Length of blocks while blocks of 256 are not measured yet."""

VERSION: Final = 2
"""Version of the bytes of one row."""

_LEVELS: Final = len(BLOCKS)
_LENGTHS: Final = np.array(BLOCKS)
_LONG: Final = BLOCKS.index(256)
_BINS: Final = 20
_EDGES: Final = np.concatenate([[0.0], 2.0 ** (np.arange(_BINS - 1) / 2 - 6)])
# A square is counted by its size: by factors of the root of 2, from 1/64 to 11 at least.
_UNIT: Final = float(2**30)
# Whole parts of one: a sum of values, or of squares, has room for 2^33 of them.
_PARTS: Final = float(2**24)
# The same for squares of differences, which are at most 683.
_OF_LEVEL: Final = 9
_MASK: Final = -(-_LEVELS * _BINS // 8)
_HEAD: Final = struct.Struct(f"<B3q{_LEVELS * _OF_LEVEL}q{_MASK}s")
_HEAD_FORM: Final = np.dtype(
    [("version", "u1"), ("sums", "<i8", 3), ("levels", "<i8", _LEVELS * _OF_LEVEL), ("mask", "u1", _MASK)]
)
"""The same head, for many rows."""


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
    """The least design effect that the number of blocks leaves plausible: two standard errors below, at the length at
    which that is most."""
    variance: Floats
    """Of a value, outside changes of the mean."""
    measured: NDArray[np.bool_]
    """Whether blocks of `MEASURED` values were measured."""
    growing: NDArray[np.bool_]
    """Whether the longest measured blocks still have a larger effect than shorter ones."""


class DependenceTable(RowTable):
    """Sums over blocks and over differences of neighbouring blocks, one row per key.

    They are whole numbers, so independent of how values were cut into batches. A merged row is only read: no values are
    added to it.
    """

    _n = RowColumn(np.int64, least=0)
    # Sum of all values, and of their squares.
    _total = RowColumn(np.int64, least=0)
    _square = RowColumn(np.int64, least=0)
    # Per level: number of full blocks; sums of values and squares up to the last of them; sum of S^2 / L.
    _blocks = RowColumn(np.int64, (_LEVELS,), merge=ADD, least=0)
    _ends = RowColumn(np.int64, (_LEVELS,), merge=ADD, least=0)
    _square_ends = RowColumn(np.int64, (_LEVELS,), merge=ADD, least=0)
    _plain = RowColumn(np.int64, (_LEVELS,), merge=ADD, least=0)
    # Sums of the last two blocks, and the times at which the last three ended, the newest first.
    _sums = RowColumn(np.int64, (_LEVELS, 2), least=0)
    _times = RowColumn(np.int64, (_LEVELS, 3))
    # Number and sum of the squares of differences, by their size.
    _counts = RowColumn(np.int32, (_LEVELS, _BINS), merge=ADD, least=0)
    _squares = RowColumn(np.int64, (_LEVELS, _BINS), merge=ADD, least=0)

    def update(self, rows: Rows, values: Floats, times_ms: NDArray[np.int64]) -> None:
        """Add values in [0, 1] to rows, in order, with the times of their interactions; all have shape (n,).

        A row may occur more than once.
        """
        batch = grouped(rows)
        values, times_ms = values[batch.order], times_ms[batch.order]
        of_values = np.rint(values * _UNIT).astype(np.int64)
        of_squares = np.rint(values * values * _UNIT).astype(np.int64)
        number = batch.spread(self._n[batch.rows]) + batch.occurrence + 1
        after = batch.before(of_values, self._total[batch.rows]) + of_values
        squares_after = batch.before(of_squares, self._square[batch.rows]) + of_squares
        # Each length is a multiple of the one before it, so the ends of its blocks are among those of shorter blocks.
        ends, places = [], np.arange(number.size)
        for length in BLOCKS:
            places = places[number[places] % length == 0]
            ends.append(places)
        full, levels = np.concatenate(ends), np.repeat(np.arange(_LEVELS), [places.size for places in ends])
        if full.size:
            at_ends = np.stack([number[full] // _LENGTHS[levels], after[full], squares_after[full], times_ms[full]])
            self._add_blocks(levels, batch.spread(batch.rows)[full], at_ends)
        self._total[batch.rows] += batch.sums(of_values)
        self._square[batch.rows] += batch.sums(of_squares)
        self._n[batch.rows] += batch.counts

    def _add_blocks(self, levels: Rows, rows: Rows, at_ends: NDArray[np.int64]) -> None:
        number, ends, square_ends, times = at_ends
        lengths = _LENGTHS[levels]
        # Blocks of one level and row are side by side.
        starts = np.flatnonzero(np.diff(levels, prepend=-1) | np.diff(rows, prepend=-1))
        counts = np.diff(np.append(starts, rows.size))

        def earlier(now: NDArray[np.int64], stored: NDArray[np.int64], back: int) -> NDArray[np.int64]:
            before = np.roll(now, back)
            for at in range(back):
                some = starts[counts > at] + at
                before[some] = stored[levels[some], back - 1 - at, rows[some]]
            return before

        totals = ends - earlier(ends, self._ends[:, None], 1)
        exact = totals / _UNIT
        np.add.at(self._plain, (levels, rows), np.rint(exact * exact / lengths * _UNIT).astype(np.int64))
        totals_before = [earlier(totals, self._sums, back) for back in (1, 2)]
        times_before = [earlier(times, self._times, back) for back in (1, 2, 3)]
        # Of the first three blocks the first has no block before it: their time is that of the other two.
        began = np.where(number == 3, times_before[1], times_before[2])
        near = np.flatnonzero((number >= 3) & (np.abs(times - began) <= LONGEST_MS))
        sizes = ((totals - 2 * totals_before[0] + totals_before[1])[near] / _UNIT) ** 2 / (6 * lengths[near])
        bins = np.where(lengths[near] >= STEPS_FROM, np.searchsorted(_EDGES, sizes, side="right") - 1, 0)
        of_sizes = levels[near], bins, rows[near]
        np.add.at(self._counts, of_sizes, 1)
        np.add.at(self._squares, of_sizes, np.rint(sizes * _PARTS).astype(np.int64))

        last = starts + counts - 1
        newest = levels[last], rows[last]
        for stored, now, before in ((self._sums, totals, totals_before[:1]), (self._times, times, times_before[:2])):
            stored[newest[0], :, newest[1]] = np.stack([now, *before], axis=1)[last]
        self._ends[newest], self._square_ends[newest] = ends[last], square_ends[last]
        self._blocks[newest] = number[last]

    def read(self, rows: Rows) -> Dependence:
        """Return the dependence of rows."""
        effects, plain, errors, plain_errors = (np.full((_LEVELS, rows.size), np.nan) for _ in range(4))
        mean_squares = np.zeros((_LEVELS, rows.size))
        variance, steps, by_chance = np.zeros((3, rows.size))
        for level, length in enumerate(BLOCKS):
            blocks = np.maximum(self._blocks[level, rows], 1)
            counts, squares = self._counts[level][:, rows], self._squares[level][:, rows] / _PARTS
            lower = mean_squares[level - 1] if level else np.full(rows.size, np.inf)
            mean_squares[level], used, beyond = _without_steps(counts, squares, lower, steps, length)
            enough = self._blocks[level, rows] >= LEAST_BLOCKS
            known = enough & (used >= LEAST_BLOCKS // 2)
            steps = np.where(known, beyond, steps)
            by_chance = np.where(known, 1 + CHANCE * (used + beyond), by_chance)
            # Overlapping differences have 1.94 times the variance of independent ones.
            errors[level] = np.where(known, np.sqrt(2 * 1.94 / np.maximum(used, 1)), np.nan)
            inside = (self._square_ends[level, rows] - self._plain[level, rows]) / (_UNIT * blocks * length)
            variance = np.where(known, np.maximum(inside, 0.0) + mean_squares[level] / length, variance)
            mean = self._ends[level, rows] / (_UNIT * blocks * length)
            whole = self._square_ends[level, rows] / (_UNIT * blocks * length) - mean**2
            between = (
                (self._plain[level, rows] / (_UNIT * blocks) - length * mean**2) * blocks / np.maximum(blocks - 1, 1)
            )
            np.divide(between, whole, out=plain[level], where=enough & (whole > 1 / _PARTS))
            plain_errors[level] = np.where(enough, np.sqrt(2 / blocks), np.nan)
        # Nothing is measured where all values are equal.
        varies = variance > 1 / _PARTS
        effects = np.where(~np.isnan(errors) & varies, mean_squares / np.where(varies, variance, 1.0), np.nan)
        dependence, of_all = _dependence(effects, errors), _dependence(plain, plain_errors)
        # Slow moves count for the length of blocks, but steps would count as slow moves.
        stepped = steps > by_chance
        return Dependence(
            dependence.design_effect,
            np.where(stepped, dependence.block, of_all.block),
            np.where(stepped, dependence.settled, of_all.settled),
            dependence.certain,
            variance,
            dependence.measured,
            dependence.growing,
        )

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        return self.bytes_of(np.array([row]))[0]

    def _numbers(self) -> tuple[NDArray[np.int64], ...]:
        return self._blocks, self._ends, self._square_ends, self._plain, self._sums, self._times

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return rows as bytes, exactly; most sizes have no square, and are left out."""
        if not rows.size:
            return []
        heads = np.stack([self._n[rows], self._total[rows], self._square[rows]], axis=1).tolist()
        parts = [numbers[..., rows].reshape(-1, rows.size).T for numbers in self._numbers()]
        levels = np.concatenate(parts, axis=1).tolist()
        counts = self._counts[..., rows].reshape(-1, rows.size).T
        squares = self._squares[..., rows].reshape(-1, rows.size).T
        used = counts > 0
        masks = np.packbits(used, axis=1)
        fields = []
        for place in range(rows.size):
            head = _HEAD.pack(VERSION, *heads[place], *levels[place], masks[place].tobytes())
            of_sizes = np.concatenate([counts[place, used[place]], squares[place, used[place]]])
            fields.append(head + of_sizes.astype("<i8").tobytes())
        return fields

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        self.clear(row)
        if data[:1] == b"\1":
            # The first release knew the variance of block sums only: it is measured anew.
            return
        if len(data) < _HEAD.size or data[0] != VERSION:
            raise ValueError(f"a row of blocks has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, n, total, square, *levels, mask = _HEAD.unpack_from(data)
        used = np.unpackbits(np.frombuffer(mask, dtype=np.uint8), count=_LEVELS * _BINS).astype(bool)
        if len(data) != _HEAD.size + 16 * int(used.sum()):
            raise ValueError(f"a row of blocks has version {VERSION} and {len(data)} bytes")
        self._n[row], self._total[row], self._square[row] = n, total, square
        at = 0
        for numbers in self._numbers():
            size = numbers[..., row].size
            numbers[..., row] = np.array(levels[at : at + size], dtype=np.int64).reshape(numbers.shape[:-1])
            at += size
        of_sizes = np.frombuffer(data, dtype="<i8", offset=_HEAD.size).reshape(2, -1)
        flat = np.zeros((2, used.size), dtype=np.int64)
        flat[:, used] = of_sizes
        self._counts[..., row], self._squares[..., row] = flat.reshape(2, _LEVELS, _BINS)

    def load_each(self, rows: Rows, data: Sequence[bytes]) -> None:
        """Set rows to what `bytes_of` returned for each; much faster than one by one.

        Raises: ValueError if the bytes were written by another version.
        """
        if any(len(of_row) < _HEAD.size or of_row[0] != VERSION for of_row in data):
            raise ValueError(f"a row of blocks has a version other than {VERSION}")
        heads = np.frombuffer(b"".join(of_row[: _HEAD.size] for of_row in data), dtype=_HEAD_FORM)
        used = np.unpackbits(heads["mask"], axis=1, count=_LEVELS * _BINS).astype(bool)
        n_used = used.sum(axis=1)
        if any(len(of_row) != _HEAD.size + 16 * n for of_row, n in zip(data, n_used.tolist(), strict=True)):
            raise ValueError("a row of blocks has another length than its sizes need")
        self._n[rows], self._total[rows], self._square[rows] = heads["sums"].T
        at = 0
        for numbers in self._numbers():
            shape = numbers.shape[:-1]
            numbers[..., rows] = heads["levels"][:, at : at + prod(shape)].T.reshape(*shape, rows.size)
            at += prod(shape)
        # Of each row first all counts, and then all squares.
        of_sizes = np.frombuffer(b"".join(of_row[_HEAD.size :] for of_row in data), dtype="<i8")
        first = np.cumsum(n_used) - n_used
        places = np.arange(int(n_used.sum())) + np.repeat(first, n_used)
        for column, begin in ((self._counts, places), (self._squares, places + np.repeat(n_used, n_used))):
            flat = np.zeros(used.shape, dtype=np.int64)
            flat[used] = of_sizes[begin]
            column[..., rows] = flat.T.reshape(_LEVELS, _BINS, rows.size)


def _without_steps(
    counts: NDArray[np.int64], squares: Floats, lower: Floats, steps: Floats, length: int
) -> tuple[Floats, NDArray[np.int64], Floats]:
    everything = counts.sum(axis=0)
    whole = squares.sum(axis=0) / np.maximum(everything, 1)
    mean = np.minimum(lower, whole)
    n = everything
    # A single value may be at either end of the range, so squares of a few values are no steps.
    few = 6 / length
    far, share = (BEYOND_SHORT, MOST_STEPS_SHORT) if length < SHORT else (BEYOND, MOST_STEPS)
    for _ in range(_BINS):
        kept = _EDGES[:, None] < np.maximum(far * mean, few)
        n = (counts * kept).sum(axis=0)
        mean = np.where(n > 0, (squares * kept).sum(axis=0) / np.maximum(n, 1), mean)
    beyond = everything - n
    most = np.minimum(np.maximum(share * everything + FEW_STEPS, 3 * steps), MOST_OF_ALL * everything)
    too_many = beyond > most
    return np.where(too_many, whole, mean), np.where(too_many, everything, n), np.where(too_many, 0, beyond)


def _dependence(effects: Floats, errors: Floats) -> Dependence:
    known = ~np.isnan(effects)
    # Half a standard error is left to chance: else independent values would need long blocks too often.
    plausible = np.where(known, effects * (1 - errors / 2), 0.0)
    longer = np.maximum.accumulate(plausible[::-1], axis=0)[::-1]
    longer = np.concatenate([longer[1:], np.zeros((1, effects.shape[1]))])
    enough = known & (longer <= SETTLED * np.where(known, effects, 0.0))
    level = np.where(enough.any(axis=0), np.argmax(enough, axis=0), 0)
    shortest, column = level, np.arange(effects.shape[1])
    # The longest measured length has nothing longer beside it.
    longest = _LEVELS - 1 - np.argmax(known[::-1], axis=0)
    long_known = known[_LONG]
    settled = long_known & (level < longest)
    first = BLOCKS.index(FIRST_BLOCK)
    level = np.where(long_known, level, first)
    reported = np.where(long_known, level, np.where(known.any(axis=0), longest, 0))
    certain = np.where(known, effects * np.maximum(1 - 2 * errors, 0.0), 0.0).max(axis=0)
    effect = effects[reported, column]
    return Dependence(
        effect,
        _LENGTHS[level],
        settled,
        np.where(np.isnan(effect), np.nan, certain),
        np.full(effect.shape, np.nan),
        known[BLOCKS.index(MEASURED)],
        shortest >= longest,
    )
