"""The sums of pairs of a reference and a proxy score, by key. No clock, no I/O."""

from collections import defaultdict

import numpy as np

from ..events.keys import PairKey
from ..statistics.batches import Floats, Rows
from ..statistics.moments import Moments
from ..statistics.prediction_powered import PairTable, Powered


class PairRows:
    """A table of pairs with the keys of its rows, and its changed rows."""

    def __init__(self) -> None:
        self.keys: list[PairKey] = []
        self._table = PairTable()
        self._index: dict[PairKey, int] = {}
        self._of: defaultdict[int, list[int]] = defaultdict(list)
        self._changed: set[int] = set()

    def find(self, key: PairKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._index.get(key)

    def add_row(self, key: PairKey, proxy_row: int) -> int:
        """Add a row for a new key, with the row of its proxy score in the state, and return it."""
        row = self._index[key] = self._table.add_row()
        self.keys.append(key)
        self._of[proxy_row].append(row)
        return row

    def of(self, proxy_row: int) -> list[int]:
        """Return the rows whose proxy scores are those of a row of the state."""
        return self._of.get(proxy_row, [])

    def add(self, rows: Rows, scores: Floats) -> None:
        """Add pairs to rows, in order.

        Args:
            rows: row of each pair, shape (n,).
            scores: reference score, proxy score and probability of each; shape (3, n).
        """
        self._table.update(rows, *scores)
        self._changed.update(rows.tolist())

    def merge(self, row: int, other: "PairRows", other_row: int) -> None:
        """Add the pairs of the same key in another table."""
        self._table.merge(row, other._table, other_row)

    def read(self, row: int, everything: Moments | None, *, confidence: float) -> Powered:
        """Return the estimate of a row (`PairTable.read`)."""
        return self._table.read(np.array([row]), everything, confidence=confidence)

    def impossible(self, *, everything: bool) -> PairKey | None:
        """Return the key of a row with a negative or infinite number; None without one.

        Args:
            everything: whether to check all rows, and not only the changed rows.
        """
        rows = np.fromiter(range(len(self.keys)) if everything else self._changed, dtype=np.intp)
        wrong = self._table.impossible(rows)
        return self.keys[int(rows[np.argmax(wrong)])] if wrong.any() else None

    def take_changes(self) -> dict[str, bytes]:
        """Return the rows that changed since the last call, by the names of their keys."""
        changed, self._changed = self._changed, set()
        return {self.keys[row].encode(): self._table.to_bytes(row) for row in sorted(changed)}

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `take_changes` wrote.

        Raises: ValueError if the bytes were written by another version.
        """
        self._table.load(row, data)
