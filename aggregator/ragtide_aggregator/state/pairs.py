"""The sums of pairs of a reference and a proxy score, by key. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Self

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField

from ..alerts.own_values import OwnValuesRules
from ..events.batch import Scope
from ..events.keys import PairKey
from ..statistics.intervals.pair_estimates import Powered
from ..statistics.pairs.clustered_pairs import ClusteredPairs, PairsOfClusters, read_pairs
from ..statistics.pairs.prediction_powered import Everything, PairTable
from ..statistics.tables.batches import Floats, Rows
from .rows import AddedBatch, ClosedClusters, ClosedPairs, KeyRows, StatePart


class PairRows(StatePart):
    """A table of pairs with the keys of its rows, and its changed rows.

    Estimates are over all pairs. Where interactions count in clusters, intervals are over the pairs of closed clusters.

    Args:
        own_values: rules on pairs, which follow the rows of pairs.
        clustered: whether the settings ask for clusters.
    """

    kinds = (CheckpointField.PAIR,)

    def __init__(self, rows: KeyRows, own_values: OwnValuesRules, *, clustered: bool) -> None:
        self._rows, self._own_values, self._wants_clusters = rows, own_values, clustered
        self.keys: list[PairKey] = []
        self._proxies: list[int] = []
        self._table, self._closed = PairTable(), ClusteredPairs()
        self._scopes: set[Scope] = set()
        # Rows of these scopes.
        self._clustered: set[int] = set()
        self._index: dict[PairKey, int] = {}
        self._of: defaultdict[int, list[int]] = defaultdict(list)
        self._changed: set[int] = set()

    def row(self, key: PairKey) -> int:
        """Return the row of a key; a new key gets a row, and its proxy score a row of the state."""
        known_row = self._index.get(key)
        if known_row is not None:
            return known_row
        proxy_row = self._rows.row(key.proxy)
        row = self._index[key] = self._table.add_row()
        self._closed.add_row()
        self.keys.append(key)
        self._proxies.append(proxy_row)
        if _scope(key) in self._scopes:
            self._clustered.add(row)
        self._of[proxy_row].append(row)
        self._own_values.add_pairs(row, key, proxy_row)
        return row

    def of(self, proxy_row: int) -> list[int]:
        """Return the rows whose proxy scores are those of a row of the state."""
        return self._of.get(proxy_row, [])

    def take(self, added: AddedBatch) -> None:
        """Add the pairs of a batch, in order, and those of the clusters that it closed."""
        batch, closed = added.batch, added.closed
        if batch.pairs.size:
            self._table.update(batch.pairs, *batch.scores)
            self._changed.update(batch.pairs.tolist())
        if closed is not None and closed.pairs is not None:
            pairs, _ = self.of_clusters(closed, closed.pairs)
            self._closed.update(pairs)
            self._changed.update(pairs.rows.tolist())

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Take note that the interactions of a pipeline and run count in clusters: all pairs so far are single ones."""
        self._scopes.add(scope)
        mine = [row for row, key in enumerate(self.keys) if _scope(key) == scope and row not in self._clustered]
        for row in mine:
            self._closed.begin(row, self._table, row)
        self._clustered.update(mine)
        self._changed.update(mine)

    def of_clusters(self, closed: ClosedClusters, pairs: ClosedPairs) -> tuple[PairsOfClusters, Rows]:
        """Return the pairs of closed clusters by row, and the number of the cluster of each place."""
        # One place for each cluster and row of pairs, in the order of the clusters.
        order = np.lexsort((pairs.rows, pairs.clusters))
        rows, clusters = pairs.rows[order], pairs.clusters[order]
        new = (np.diff(clusters, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        first = np.flatnonzero(new)
        sizes, totals = self._items(closed, clusters[first], rows[first])
        # The only proxy score of an interaction by itself is that of its pair, which may come later.
        alone, proxy = pairs.by_itself[order][first], pairs.scores[1, order][first]
        sizes = np.where(alone, ~np.isnan(proxy), sizes)
        totals = np.where(alone, np.nan_to_num(proxy), totals)
        by_cluster = PairsOfClusters(
            rows, pairs.scores[:, order], pairs.late[order], np.cumsum(new) - 1, rows[first], sizes, totals
        )
        return by_cluster, clusters[first]

    def proxy(self, row: int) -> int:
        """Return the row of the proxy scores of a row."""
        return self._proxies[row]

    def is_clustered(self, row: int) -> bool:
        """Return whether the pairs of a row count in clusters."""
        return row in self._clustered

    def _items(self, closed: ClosedClusters, clusters: Rows, rows: Rows) -> tuple[Rows, Floats]:
        proxies = np.array(self._proxies, dtype=np.intp)[rows]
        if not closed.rows.size:
            return np.zeros_like(clusters), np.zeros(clusters.shape)
        width = int(max(closed.rows.max(), proxies.max())) + 1
        held, wanted = closed.clusters * width + closed.rows, clusters * width + proxies
        order = np.argsort(held)
        at = order[np.minimum(np.searchsorted(held, wanted, sorter=order), order.size - 1)]
        known = held[at] == wanted
        return np.where(known, closed.sizes[at], 0), np.where(known, closed.totals[at], 0.0)

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the pairs of another state."""
        for theirs, key in enumerate(other.keys):
            row = self.row(key)
            self._changed.add(row)
            self._table.merge(row, other._table, theirs)
            if theirs in other._clustered:
                self._closed.merge(row, other._closed, theirs)
                self._clustered.add(row)

    def set_sums(self, row: int, totals: Floats) -> None:
        """Set the sums over the pairs of a row (`PairTable.set_sums`)."""
        self._table.set_sums(row, totals)

    def read(self, rows: Rows, everything: Everything, *, confidence: float, powered: bool) -> Powered:
        """Return the estimates of rows (`PairTable.read`), with intervals over closed clusters where there are any.

        Args:
            rows: indexes; all of them, or none, count in clusters.
            everything: about all items, one element per row.
            confidence: level of the intervals.
            powered: whether proxy scores and counts are used for the estimate; False for the weighted mean.
        """
        closed = self._closed if self.is_clustered(int(rows[0])) else None
        return read_pairs(self._table, closed, rows, everything, confidence=confidence, powered=powered)

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a row with a negative or infinite number; None without one."""
        rows = np.fromiter(range(len(self.keys)) if everything else self._changed, dtype=np.intp)
        wrong = self._table.impossible(rows) | self._closed.impossible(rows)
        return CheckpointField.PAIR + self.keys[int(rows[np.argmax(wrong)])].encode() if wrong.any() else None

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the rows that changed since the last call."""
        changed, self._changed = self._changed, set()
        fields: dict[str, bytes] = {}
        for row in sorted(changed):
            clusters = self._closed.to_bytes(row) if row in self._clustered else b""
            fields[CheckpointField.PAIR + self.keys[row].encode()] = self._table.to_bytes(row) + clusters
        return fields, []

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        row = self.row(PairKey.decode(name))
        size = PairTable.bytes_in(data)
        self._table.load(row, data[:size])
        if self._wants_clusters and len(data) > size:
            self._closed.load(row, data[size:])
            self._clustered.add(row)
        return True

    def count_in_clusters(self, scopes: Collection[Scope]) -> None:
        """Take note that in these pipelines and runs, and in no others, interactions count in clusters."""
        self._clustered = {row for row in self._clustered if _scope(self.keys[row]) in scopes}
        self._scopes.update(scopes)


def _scope(key: PairKey) -> Scope:
    return key.proxy.pipeline, key.proxy.run
