"""The sums of pairs of a reference and a proxy score, by key. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ..events.batch import Scope
from ..events.keys import PairKey
from ..statistics.intervals.pair_estimates import Powered
from ..statistics.means.moments import Moments
from ..statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters
from ..statistics.pairs.prediction_powered import PairTable
from ..statistics.tables.batches import Floats, Rows
from .closed_clusters import ClosedClusters, ClosedPairs


class PairRows:
    """A table of pairs with the keys of its rows, and its changed rows.

    Estimates are over all pairs. Where interactions count in clusters, intervals are over the pairs of closed clusters.
    """

    def __init__(self) -> None:
        self.keys: list[PairKey] = []
        self._proxies: list[int] = []
        self._table, self._closed = PairTable(), ClusteredPairs()
        self._scopes: set[Scope] = set()
        # Rows of these scopes.
        self._clustered: set[int] = set()
        self._index: dict[PairKey, int] = {}
        self._of: defaultdict[int, list[int]] = defaultdict(list)
        self._changed: set[int] = set()

    def find(self, key: PairKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._index.get(key)

    def add_row(self, key: PairKey, proxy_row: int) -> int:
        """Add a row for a new key, with the row of its proxy score in the state, and return it."""
        row = self._index[key] = self._table.add_row()
        self._closed.add_row()
        self.keys.append(key)
        self._proxies.append(proxy_row)
        if _scope(key) in self._scopes:
            self._clustered.add(row)
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

    def begin_clusters(self, scope: Scope) -> None:
        """Take note that the interactions of a pipeline and run count in clusters: all pairs so far are single ones."""
        self._scopes.add(scope)
        rows = [row for row, key in enumerate(self.keys) if _scope(key) == scope and row not in self._clustered]
        for row in rows:
            self._closed.begin(row, self._table, row)
        self._clustered.update(rows)
        self._changed.update(rows)

    def close(self, closed: ClosedClusters, pairs: ClosedPairs) -> None:
        """Add the pairs of closed clusters.

        Args:
            closed: the clusters.
            pairs: their pairs.
        """
        # One place for each cluster and row of pairs, in the order of the clusters.
        order = np.lexsort((pairs.rows, pairs.clusters))
        rows, clusters = pairs.rows[order], pairs.clusters[order]
        new = (np.diff(clusters, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        first = np.flatnonzero(new)
        sizes, totals = self._items(closed, clusters[first], rows[first])
        # The only proxy score of an interaction by itself is that of its pair, which may come later.
        alone = pairs.by_itself[order][first]
        sizes = np.where(alone, 1, sizes)
        totals = np.where(alone, pairs.scores[1, order][first], totals)
        self._closed.update(
            PairsOfClusters(
                rows, pairs.scores[:, order], pairs.late[order], np.cumsum(new) - 1, rows[first], sizes, totals
            )
        )
        self._changed.update(rows.tolist())

    def _items(self, closed: ClosedClusters, clusters: Rows, rows: Rows) -> tuple[Rows, Floats]:
        """Return number and sum of the proxy scores that clusters hold for rows of pairs; 0 without any."""
        proxies = np.array(self._proxies, dtype=np.intp)[rows]
        width = int(max(closed.rows.max(), proxies.max())) + 1
        held, wanted = closed.clusters * width + closed.rows, clusters * width + proxies
        order = np.argsort(held)
        at = order[np.minimum(np.searchsorted(held, wanted, sorter=order), order.size - 1)]
        known = held[at] == wanted
        return np.where(known, closed.sizes[at], 0), np.where(known, closed.totals[at], 0.0)

    def merge(self, row: int, other: "PairRows", other_row: int) -> None:
        """Add the pairs of the same key in another table."""
        self._table.merge(row, other._table, other_row)
        if other_row in other._clustered:
            self._closed.merge(row, other._closed, other_row)
            self._clustered.add(row)

    def read(self, row: int, everything: Moments | None, *, confidence: float) -> Powered:
        """Return the estimate of a row (`PairTable.read`), with an interval over closed clusters where there are any.

        Args:
            row: index.
            everything: moments of all proxy scores, with the sums over clusters; None for the weighted mean.
            confidence: of the interval.
        """
        rows = np.array([row])
        found = self._table.read(rows, everything, confidence=confidence)
        if row not in self._clustered:
            return found
        closed = self._closed.read(rows, everything, confidence=confidence)
        # Pairs of open clusters are in the estimate, and not yet in the interval.
        return replace(
            closed,
            estimate=found.estimate,
            lower=np.fmin(closed.lower, found.estimate),
            upper=np.fmax(closed.upper, found.estimate),
            n=found.n,
            k=found.k,
        )

    def impossible(self, *, everything: bool) -> PairKey | None:
        """Return the key of a row with a negative or infinite number; None without one.

        Args:
            everything: whether to check all rows, and not only the changed rows.
        """
        rows = np.fromiter(range(len(self.keys)) if everything else self._changed, dtype=np.intp)
        wrong = self._table.impossible(rows) | self._closed.impossible(rows)
        return self.keys[int(rows[np.argmax(wrong)])] if wrong.any() else None

    def take_changes(self) -> dict[str, bytes]:
        """Return the rows that changed since the last call, by the names of their keys."""
        changed, self._changed = self._changed, set()
        return {self.keys[row].encode(): self._to_bytes(row) for row in sorted(changed)}

    def _to_bytes(self, row: int) -> bytes:
        data = self._table.to_bytes(row)
        return data + self._closed.to_bytes(row) if row in self._clustered else data

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `take_changes` wrote.

        Raises: ValueError if the bytes were written by another version.
        """
        self._table.load(row, data[: PairTable.SIZE])
        if len(data) > PairTable.SIZE:
            self._closed.load(row, data[PairTable.SIZE :])
            self._clustered.add(row)

    def loaded(self, scopes: Collection[Scope]) -> None:
        """Complete the rows after all are loaded: in these scopes, and in no others, interactions count in clusters."""
        self._clustered = {row for row in self._clustered if _scope(self.keys[row]) in scopes}
        self._scopes.update(scopes)


def _scope(key: PairKey) -> Scope:
    return key.proxy.pipeline, key.proxy.run
