"""The clusters of a state: open clusters, and the sums of every key over closed clusters. No clock, no I/O."""

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..events.batch import ClusterOptions, EventBatch, Scope
from ..events.keys import UNBOUNDED, EstimateKey, PairKey
from ..statistics.means.clusters import ClusterTable
from ..statistics.means.moments import MomentTable
from ..statistics.tables.batches import Floats, Rows, grouped
from ..statistics.tables.tables import doubled
from .closed_clusters import ClosedClusters, closed_clusters
from .open_clusters import OpenClusters, ScopeClusters, ShortNames, cluster_from_bytes, cluster_to_bytes

_CAPACITY: Final = 64


class ClusterRows:
    """Sums over closed clusters, one row per key, and the clusters that are open.

    Attributes:
        options: which interactions depend on each other.
        sums: of every row.
        open: the open clusters.
    """

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self.sums = ClusterTable()
        self.open = OpenClusters(options)
        self._countable = np.zeros(_CAPACITY, dtype=bool)
        self._names, self._pair_names = ShortNames(), ShortNames()

    @property
    def scopes(self) -> dict[Scope, ScopeClusters]:
        """Pipelines and runs with clusters."""
        return self.open.scopes

    def add_row(self, key: EstimateKey) -> None:
        """Add the row of a key."""
        row = self.sums.add_row()
        if row == self._countable.size:
            self._countable = doubled(self._countable)
        # Time and cost of labeling have no range, and therefore no interval.
        self._countable[row] = key.metric not in UNBOUNDED

    def begin(self, scope: Scope, keys: Sequence[EstimateKey], moments: MomentTable) -> list[int]:
        """Begin the clusters of a pipeline and run: all values so far are single ones. Return its rows."""
        self.scopes[scope] = ScopeClusters()
        rows = [row for row, key in enumerate(keys) if (key.pipeline, key.run) == scope and self._countable[row]]
        for row in rows:
            self.sums.begin(row, *moments.exact(row))
        return rows

    def has(self, key: EstimateKey) -> bool:
        """Return whether values of a key count in clusters."""
        return (key.pipeline, key.run) in self.scopes

    def take(
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
        inside, closings = self.open.take(batch, self._countable[batch.rows], every)
        closings = [one for one in closings if any(event.rows.size for event in one.cluster.events)]
        if not closings:
            return inside, None
        closed = closed_clusters(batch, closings)
        by_row = grouped(closed.rows)
        closed.values.numbers[by_row.order] = (
            by_row.before(closed.sizes[by_row.order], self.sums.values(by_row.rows)) + closed.sizes[by_row.order]
        )
        return inside, closed

    def add(self, closed: ClosedClusters, some: slice) -> None:
        """Add some of the clusters that `take` closed to the sums; all of them must be added, in their order."""
        self.sums.update(closed.rows[some], closed.sizes[some], closed.totals[some])

    def take_changes(self, keys: Sequence[EstimateKey], pairs: Sequence[PairKey]) -> tuple[dict[str, bytes], list[str]]:
        """Return the fields of clusters to write and the names of those to remove, since the last call.

        Args:
            keys: key of every row of values.
            pairs: key of every row of pairs.
        """
        self._follow(keys, pairs)
        fields: dict[str, bytes] = {}
        gone: list[str] = []
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

    def _follow(self, keys: Sequence[EstimateKey], pairs: Sequence[PairKey]) -> None:
        self._names.follow(keys)
        self._pair_names.follow(pairs)

    def load_scope(self, name: str, data: bytes) -> None:
        """Load the counts of a pipeline and run that `take_changes` returned."""
        pipeline, run = json.loads(name)
        self.scopes[pipeline, run] = ScopeClusters.read(data)

    def load_cluster(self, name: str, data: bytes, keys: Sequence[EstimateKey], pairs: Sequence[PairKey]) -> None:
        """Load an open cluster that `take_changes` returned, after its pipeline and run.

        Raises: ValueError if the bytes were written by another version.
        """
        code, _, scope = name.partition(":")
        pipeline, run = json.loads(scope)
        self._follow(keys, pairs)
        clusters = self.scopes.setdefault((pipeline, run), ScopeClusters())
        clusters.open[int(code)] = cluster_from_bytes(int(code), data, self._names, self._pair_names)

    def loaded(self, keys: Sequence[EstimateKey]) -> None:
        """Complete the state after all fields are loaded."""
        for row, key in enumerate(keys):
            # A repair may have dropped the counts of the pipeline.
            if self.sums.count(row):
                self.scopes.setdefault((key.pipeline, key.run), ScopeClusters())
        for clusters in self.scopes.values():
            clusters.put_in_order()
