"""Sums of every key that do not depend on the order of its values, for states that are merged exactly.

The moments of a state add up squared deviations, and its weights and pairs add up floats, each rounded as the values
come. Another order, or a merge, rounds in another way. Here each term of a sum follows from one value alone and is
added up exactly, so any split of the values over any number of states gives the same bits. Of several sizes of a run
the largest counts, and not the last.
"""

from collections.abc import Sequence
from typing import Final, Self

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField

from ..events.keys import EstimateKey, PairKey
from ..statistics.means.sampling_weights import ITEMS, item_terms
from ..statistics.pairs.prediction_powered import TERMS, pair_terms
from ..statistics.tables import sums
from ..statistics.tables.batches import Floats, Grouped, grouped
from ..statistics.tables.row_table import MOST, RowColumn, RowTable, add_exactly
from .pairs import PairRows
from .rows import AddedBatch, KeyRows, StatePart

_HALF: Final = float(2**26)


class _RowTotals(RowTable, version=1, what="exact squares"):
    """Exact sums over values, one row per key: of their squares, and of the terms of sampled values."""

    squares = RowColumn(np.int64, (3,), merge=add_exactly(0), least=0)
    weighted = RowColumn(np.int64, (ITEMS, 3), merge=add_exactly(1), least=0)
    population = RowColumn(np.int64, merge=MOST, least=0)


class _PairTotals(RowTable, version=1, what="exact pairs", capacity=16):
    """Exact sums over pairs of a reference and a proxy score, one row per key."""

    terms = RowColumn(np.int64, (TERMS, 3), merge=add_exactly(1), least=0)


class ExactRows(StatePart):
    """Exact sums of the rows of a state and of its pairs."""

    kinds = (CheckpointField.EXACT, CheckpointField.EXACT_PAIR)

    def __init__(self, rows: KeyRows, pairs: PairRows) -> None:
        self._rows, self._pairs = rows, pairs
        self._squares, self._of_pairs = _RowTotals(), _PairTotals()

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        self._squares.add_row()

    def take(self, added: AddedBatch) -> None:
        """Add the values and the pairs of a batch."""
        batch = added.batch
        by_row = batch.grouped
        for term in squares_of(batch.values[by_row.order]):
            sums.add(self._squares.squares, by_row, sums.limbs(term))
        for rows, parts in ((batch.rows, batch.part_of), (batch.absent, batch.absent_of)):
            np.maximum.at(self._squares.population, rows, batch.population[parts])
        if batch.probability is not None:
            sampled = np.flatnonzero(batch.probability < 1)
            terms = item_terms(batch.values[sampled], batch.probability[sampled])
            _add(self._squares.weighted, grouped(batch.rows[sampled]), terms)
        if batch.pairs.size:
            self._grow()
            _add(self._of_pairs.terms, grouped(batch.pairs), pair_terms(*batch.scores))

    def _grow(self) -> None:
        while len(self._of_pairs) < len(self._pairs.keys):
            self._of_pairs.add_row()

    def settle(self) -> None:
        """Set the sums of the state that depend on the order of the values to the exact sums, correctly rounded."""
        moments = self._rows.moments
        for row in range(len(self._rows)):
            moments.set_squares(row, self._squares.squares[:, row])
            self._rows.population[row] = self._squares.population[row]
            if self._rows.weights.has(row):
                self._rows.weights.set_items(row, sums.as_floats(np.moveaxis(self._squares.weighted[:, :, row], 1, 0)))
        self._grow()
        for row in range(len(self._of_pairs)):
            self._pairs.set_sums(row, sums.as_floats(np.moveaxis(self._of_pairs.terms[:, :, row], 1, 0)))

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the sums of all rows: a state with them is written once."""
        self._grow()
        of_rows = {self.kinds[0] + self._rows.name(row): self._squares.to_bytes(row) for row in range(len(self._rows))}
        keys = enumerate(self._pairs.keys)
        return of_rows | {self.kinds[1] + key.encode(): self._of_pairs.to_bytes(row) for row, key in keys}, []

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a key with a sum that is too large; None without one."""
        return self._rows.damaged_row(self.kinds[0], (self._squares,), everything=everything)

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        if kind == CheckpointField.EXACT:
            row = self._rows.named(name)
            self._squares.load(row, data)
        else:
            row = self._pairs.row(PairKey.decode(name))
            self._grow()
            self._of_pairs.load(row, data)
        return True

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the sums of another state, whose pairs were added before."""
        for theirs, row in enumerate(rows):
            self._squares.merge(row, other._squares, theirs)
        self._grow()
        other._grow()
        for theirs, key in enumerate(other._pairs.keys):
            self._of_pairs.merge(self._pairs.row(key), other._of_pairs, theirs)


def squares_of(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return three terms of 0 or more whose sum is the square of each value, to 2^-78 for values in [0, 1].

    >>> sum(float(term[0]) for term in squares_of(np.array([0.375])))
    0.140625
    """
    high = np.floor(values * _HALF) / _HALF
    low = values - high
    return high * high, 2 * high * low, low * low


def _add(state: sums.Limbs, by_row: Grouped, terms: Floats) -> None:
    for quantity, added in zip(state, terms, strict=True):
        sums.add(quantity, by_row, sums.limbs(added[by_row.order]))
