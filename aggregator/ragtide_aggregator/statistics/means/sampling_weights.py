"""Running sums over values that were kept from the traffic with a probability below 1, for the keys that have any."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tables.batches import Floats, Rows
from ..tables.row_table import RowColumn, RowTable

ITEMS: Final = 9
"""Sums over sampled values."""

_ITEMS: Final = slice(0, ITEMS)
_CLUSTERS: Final = slice(9, 20)
_LEAST, _MOST = 20, 21
_SIZE: Final = 22
_EQUAL: Final = 1 - 1e-9
"""Weights whose ratio is nearer to 1 are products of the same probabilities, rounded in other ways."""
_NOTHING: Final = (*[0.0] * _LEAST, np.inf, 0.0)
"""The sums of a row without values."""


@dataclass(frozen=True, slots=True)
class SampledSums:
    """Sums over the sampled values of keys, one element per key; 0 for a key without any."""

    items: Floats
    """Number n of sampled values, sums of w, w^2, w x, w^2 x, w x^2, w^2 x^2, x, x^2; shape (9, keys)."""
    clusters: Floats
    """Of the closed clusters with a sampled value: their number; sums of A, B, A^2, A B, B^2, where A is the sum of w
    in a cluster and B that of w x; sums of n, Y, n^2, n Y, Y^2, where n is the number of its values and Y their sum;
    shape (11, keys)."""
    least: Floats
    """Smallest w; infinite without sampled values."""
    most: Floats
    """Largest w."""

    @property
    def n(self) -> Floats:
        """Number of sampled values of each key."""
        return np.asarray(self.items[0])

    def at(self, places: Rows) -> "SampledSums":
        """Return the sums at places."""
        return SampledSums(self.items[:, places], self.clusters[:, places], self.least[places], self.most[places])

    def mixed(self, n: ArrayLike) -> NDArray[np.bool_]:
        """Return which keys have values with different probabilities, given their numbers of values."""
        differ = self.least < self.most * _EQUAL
        return np.asarray((self.n > 0) & ((self.n < np.asarray(n)) | differ))

    def traffic(self, n: ArrayLike) -> Floats:
        """Return the sum of w over all values of each key, given their numbers of values."""
        return np.asarray(np.asarray(n) - self.n + self.items[1])


def item_terms(values: Floats, probability: Floats) -> Floats:
    """Return what each sampled value adds to the sums over items, shape (ITEMS, n), given its probability."""
    w = 1 / probability
    wx, squares = w * values, values * values
    return np.stack([np.ones_like(w), w, w * w, wx, w * wx, w * squares, w * w * squares, values, squares])


class SamplingWeights(RowTable, version=1, what="sampling weights", capacity=16):
    """Sums over sampled values and over clusters with sampled values, for the rows that have any.

    Rows without a sampled value take no memory and no time. Sums are added in order, so they do not depend on how
    values were cut into batches. Rows are merged by addition.
    """

    # Sums over items, and over clusters; least and largest weight.
    _sums = RowColumn(np.float64, (_SIZE,), fill=_NOTHING)

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, int] = {}
        self._free: list[int] = []

    def __bool__(self) -> bool:
        """Return whether any row has a sampled value."""
        return bool(self._places)

    def has(self, row: int) -> bool:
        """Return whether a row has a sampled value."""
        return row in self._places

    def clear(self, row: int) -> None:
        """Remove all values from a row."""
        place = self._places.pop(row, None)
        if place is not None:
            self._free.append(place)

    def clear_rows(self, rows: Rows) -> None:
        """Remove all values from rows."""
        for row in rows.tolist() if self._places else ():
            self.clear(row)

    def update(self, rows: Rows, values: Floats, probability: Floats) -> None:
        """Add sampled values to rows, in order.

        Args:
            rows: row of each value, shape (n,).
            values: in [0, 1], same shape.
            probability: with which each value was kept, in (0, 1); same shape.
        """
        terms, places = item_terms(values, probability), self._at(rows)
        for quantity, added in zip(self._sums[_ITEMS], terms, strict=True):
            np.add.at(quantity, places, added)
        w = terms[1]
        np.minimum.at(self._sums[_LEAST], places, w)
        np.maximum.at(self._sums[_MOST], places, w)

    def set_items(self, row: int, totals: Floats) -> None:
        """Set the sums over the sampled values of a row that has any; shape (ITEMS,)."""
        self._sums[_ITEMS, self._places[row]] = totals

    def update_clusters(self, rows: Rows, weights: Floats, weighted: Floats, sizes: Rows, totals: Floats) -> None:
        """Add closed clusters with a sampled value to rows, in order.

        Args:
            rows: row of each cluster, shape (n,).
            weights: sum of w of its values, same shape.
            weighted: sum of w x, same shape.
            sizes: number of its values, same shape.
            totals: sum of its values, same shape.
        """
        n = sizes.astype(np.float64)
        terms = (
            np.ones_like(weights), weights, weighted, weights * weights, weights * weighted, weighted * weighted,
            n, totals, n * n, n * totals, totals * totals,
        )  # fmt: skip
        places = self._at(rows)
        for quantity, added in zip(self._sums[_CLUSTERS], terms, strict=True):
            np.add.at(quantity, places, added)

    def begin_clusters(self, row: int) -> None:
        """Count each sampled value of a row as a closed cluster by itself."""
        place = self._places.get(row)
        if place is None:
            return
        n, w, w2, wx, w2x, _, w2xx, x, xx = self._sums[_ITEMS, place]
        self._sums[_CLUSTERS, place] = (n, w, wx, w2, w2x, w2xx, n, x, n, x, xx)

    def merge(self, row: int, other: Self, other_row: int) -> None:
        """Add the values of a row of another table to a row."""
        theirs = other._places.get(other_row)
        if theirs is None:
            return
        place, added = self._place(row), other._sums[:, theirs]
        least, most = min(self._sums[_LEAST, place], added[_LEAST]), max(self._sums[_MOST, place], added[_MOST])
        self._sums[:_LEAST, place] += added[:_LEAST]
        self._sums[_LEAST:, place] = least, most

    def read(self, rows: Rows) -> SampledSums | None:
        """Return the sums of rows; None if none of them has a sampled value."""
        return self.pooled(rows, np.arange(rows.size))

    def pooled(self, rows: Rows, starts: Rows) -> SampledSums | None:
        """Return the sums of rows taken together, group by group; None if none of them has a sampled value.

        Args:
            rows: rows of all groups, the rows of one group side by side.
            starts: index in `rows` of the first row of each group, rising; every group has at least one row.
        """
        if not self._places:
            return None
        row_places = enumerate(self._places.get(row) for row in rows.tolist())
        sampled = [(number, place) for number, place in row_places if place is not None]
        if not sampled:
            return None
        numbers, places = np.array(sampled, dtype=np.intp).T
        groups = np.searchsorted(starts, numbers, side="right") - 1
        sums = np.zeros((_LEAST, starts.size))
        for quantity, added in zip(sums, self._sums[:_LEAST, places], strict=True):
            np.add.at(quantity, groups, added)
        least, most = np.full(starts.size, np.inf), np.zeros(starts.size)
        np.minimum.at(least, groups, self._sums[_LEAST, places])
        np.maximum.at(most, groups, self._sums[_MOST, places])
        return SampledSums(sums[_ITEMS], sums[_CLUSTERS], least, most)

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a number is negative or not finite; same shape."""
        wrong = np.zeros(rows.shape, dtype=bool)
        for number, row in enumerate(rows.tolist() if self._places else ()):
            place = self._places.get(row)
            if place is not None:
                sums = self._sums[:, place]
                # A pane may have a cluster whose sampled values are in another pane.
                wrong[number] = not (np.isfinite(sums[:_LEAST]).all() and (sums >= 0).all())
        return wrong

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly; no bytes for a row without a sampled value."""
        place = self._places.get(row)
        return b"" if place is None else super().to_bytes(place)

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if data:
            super().load(self._place(row), data)

    def _at(self, rows: Rows) -> Rows:
        known, which = np.unique(rows, return_inverse=True)
        return np.array([self._place(row) for row in known.tolist()], dtype=np.intp)[which]

    def _place(self, row: int) -> int:
        place = self._places.get(row)
        if place is None:
            place = self._places[row] = self._free.pop() if self._free else self.add_row()
            super().clear(place)
        return place
