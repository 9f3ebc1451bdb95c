"""The clusters of a state: open clusters, and the sums of every key over closed clusters. No clock, no I/O."""

import json
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..events.batch import ClusterOptions, EventBatch, Scope
from ..events.keys import EstimateKey
from ..statistics.means.clusters import ClusterTable
from ..statistics.tables.batches import Floats, Rows, grouped
from .closed_clusters import ClosedClusters, closed_clusters
from .open_clusters import OpenClusters, ScopeClusters, ShortNames, cluster_from_bytes, cluster_to_bytes
from .pairs import PairRows
from .rows import KeyRows, StatePart


class ClusterRows(StatePart):
    """Sums over closed clusters, one row per key, and the clusters that are open.

    Attributes:
        options: which interactions depend on each other.
        sums: of every row.
        open: the open clusters.
    """

    kinds = (CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER)

    def __init__(self, options: ClusterOptions, rows: KeyRows, pairs: PairRows) -> None:
        self.options = options
        self.sums = ClusterTable()
        self.open = OpenClusters(options)
        self._rows, self._pairs = rows, pairs
        self._names, self._pair_names = ShortNames(), ShortNames()

    @property
    def scopes(self) -> dict[Scope, ScopeClusters]:
        """Pipelines and runs with clusters."""
        return self.open.scopes

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Add the row of a key."""
        self.sums.add_row()

    def begin(self, scope: Scope) -> list[int]:
        """Begin the clusters of a pipeline and run: all values so far are single ones. Return its rows."""
        self.scopes[scope] = ScopeClusters()
        keys, in_range = self._rows.keys, self._rows.in_range
        rows = [row for row, key in enumerate(keys) if (key.pipeline, key.run) == scope and in_range[row]]
        for row in rows:
            self.sums.begin(row, *self._rows.moments.exact(row))
        return rows

    def has(self, row: int) -> bool:
        """Return whether values of a row count in clusters."""
        key = self._rows.keys[row]
        return (key.pipeline, key.run) in self.scopes

    def close(
        self, batch: EventBatch, watched: Rows, costs: Floats | None
    ) -> tuple[NDArray[np.bool_], ClosedClusters | None]:
        """Add a batch; return which parts count as parts of clusters, and the closed clusters, which `add` then counts.

        Args:
            batch: events.
            watched: places of the values whose keys have alert rules.
            costs: of these values; None without a budget.
        """
        every: Floats | None = None
        if costs is not None:
            every = np.zeros(batch.values.size)
            every[watched] = costs
        inside, closings = self.open.take(batch, self._rows.in_range[batch.rows], every)
        closings = [closing for closing in closings if any(event.rows.size for event in closing.cluster.events)]
        if not closings:
            return inside, None
        closed = closed_clusters(batch, closings)
        by_row = grouped(closed.rows)
        closed.values.numbers[by_row.order] = (
            by_row.before(closed.sizes[by_row.order], self.sums.values(by_row.rows)) + closed.sizes[by_row.order]
        )
        return inside, closed

    def add(self, closed: ClosedClusters, some: slice) -> None:
        """Add some of the clusters that `close` closed to the sums; all of them must be added, in their order."""
        self.sums.update(closed.rows[some], closed.sizes[some], closed.totals[some])

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return sums and open clusters to write, and the names of the clusters that are closed."""
        rows = np.array([row for row in sorted(self._rows.changed) if self.sums.count(row)], dtype=np.intp)
        names = [CheckpointField.CLUSTERS + self._rows.name(row) for row in rows.tolist()]
        fields = dict(zip(names, self.sums.bytes_of(rows), strict=True))
        gone: list[str] = []
        self._follow()
        for scope, clusters in self.scopes.items():
            if clusters.events == clusters.stored:
                continue
            name = json.dumps(scope, ensure_ascii=False, separators=(",", ":"))
            clusters.stored = clusters.events
            fields[CheckpointField.CLUSTER_SCOPE + name] = clusters.to_bytes()
            for code in sorted(clusters.changed):
                at = f"{CheckpointField.OPEN_CLUSTER}{code}:{name}"
                cluster = clusters.open.get(code)
                if cluster is None:
                    gone.append(at)
                else:
                    fields[at] = cluster_to_bytes(cluster, self._names, self._pair_names)
            clusters.changed = set()
        return fields, gone

    def _follow(self) -> None:
        self._names.follow(self._rows.keys)
        self._pair_names.follow(self._pairs.keys)

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        if kind == CheckpointField.CLUSTERS:
            self.sums.load(self._rows.named(name), data)
        elif kind == CheckpointField.CLUSTER_SCOPE:
            pipeline, run = json.loads(name)
            self.scopes[pipeline, run] = ScopeClusters.read(data)
        else:
            code, _, scope = name.partition(":")
            pipeline, run = json.loads(scope)
            self._follow()
            clusters = self.scopes.setdefault((pipeline, run), ScopeClusters())
            clusters.open[int(code)] = cluster_from_bytes(int(code), data, self._names, self._pair_names)
        return True

    def complete(self) -> None:
        """Complete the clusters, and give the pairs their pipelines and runs."""
        for row, key in enumerate(self._rows.keys):
            # A repair may have dropped the counts of the pipeline.
            if self.sums.count(row):
                self.scopes.setdefault((key.pipeline, key.run), ScopeClusters())
        for clusters in self.scopes.values():
            clusters.put_in_order()
        self._pairs.count_in_clusters(self.scopes)

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a row with sums that no clusters add up to; None without one."""
        return self._rows.damaged_row(CheckpointField.CLUSTERS, (self.sums,), everything=everything)

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the closed clusters of another state, and its pipelines and runs."""
        for scope in other.scopes:
            self.scopes.setdefault(scope, ScopeClusters())
        for theirs, row in enumerate(rows):
            self.sums.merge(row, other.sums, theirs)
