"""The clusters of a state: open clusters, and the sums of every key over closed clusters. No clock, no I/O."""

import json
from collections.abc import Sequence
from typing import Self

import numpy as np

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import ClusterSettings

from ..alerts.rule_values import RuleValues, ValueExtremes
from ..events.batch import BY_ITSELF, EventBatch, Scope
from ..events.keys import EstimateKey
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.means.clusters import ClusterTable
from ..statistics.tables import sums
from ..statistics.tables.batches import Floats, Rows, grouped
from .open_clusters import (
    Closing,
    OpenClusters,
    ScopeClusters,
    ShortNames,
    TakenParts,
    cluster_from_bytes,
    cluster_to_bytes,
)
from .pairs import PairRows
from .rows import ClosedClusters, ClosedPairs, KeyRows, SampledClusters, StatePart


class ClusterRows(StatePart):
    """Sums over closed clusters, one row per key, and the clusters that are open.

    Attributes:
        options: which interactions depend on each other.
        sums: of every row.
        open: the open clusters.
    """

    kinds = (CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER)

    def __init__(self, options: ClusterSettings, rows: KeyRows, pairs: PairRows) -> None:
        self.options = options
        self.sums = ClusterTable()
        self.open = OpenClusters(options)
        self._rows, self._pairs = rows, pairs
        self._names, self._pair_names = ShortNames(), ShortNames()

    @property
    def scopes(self) -> dict[Scope, ScopeClusters]:
        """Pipelines and runs with clusters."""
        return self.open.scopes

    def add_keys(self, row: int, keys: Sequence[EstimateKey]) -> None:
        """Add the rows of keys."""
        self.sums.add_rows(len(keys))

    def begin(self, scope: Scope) -> list[int]:
        """Begin the clusters of a pipeline and run: all values so far are single ones. Return its rows."""
        self.scopes[scope] = ScopeClusters()
        keys, in_range = self._rows.keys, self._rows.in_range
        rows = [row for row, key in enumerate(keys) if (key.pipeline, key.run) == scope and in_range[row]]
        for row in rows:
            self.sums.begin(row, *self._rows.moments.exact(row))
        return rows

    def has(self, row: int) -> bool:
        """Return whether values of a row count in clusters; those of a metric without a range do not."""
        key = self._rows.keys[row]
        return bool(self._rows.in_range[row]) and (key.pipeline, key.run) in self.scopes

    def close(self, batch: EventBatch, watched: Rows, costs: Floats | None) -> tuple[TakenParts, ClosedClusters | None]:
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
        taken = self.open.take(batch, self._rows.in_range[batch.rows], every)
        closings = [
            closing
            for closing in taken.closings
            if any(event.rows.size or event.pairs.size for event in closing.cluster.events)
        ]
        if not closings:
            return taken, None
        closed = closed_clusters(batch, closings)
        by_row = grouped(closed.rows)
        closed.values.numbers[by_row.order] = (
            by_row.before(closed.sizes[by_row.order], self.sums.values(by_row.rows)) + closed.sizes[by_row.order]
        )
        return taken, closed

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
            if clusters.events == clusters.stored and not clusters.changed:
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


def closed_clusters(batch: EventBatch, closings: Sequence[Closing]) -> ClosedClusters:
    """Return clusters that a batch closed; each holds a value or a pair."""
    events = [event for closing in closings for event in closing.cluster.events]
    ids = [event.interaction_id for event in events]
    counts = np.array([event.rows.size for event in events], dtype=np.intp)
    cluster_of_event = np.repeat(np.arange(len(closings)), [len(closing.cluster.events) for closing in closings])
    cluster_of, event_of = np.repeat(cluster_of_event, counts), np.repeat(np.arange(len(events)), counts)
    rows, values = (np.concatenate([event[place] for event in events]) for place in (0, 1))
    order = np.lexsort((rows, cluster_of))
    new = np.diff(cluster_of[order], prepend=-1) != 0
    new |= np.diff(rows[order], prepend=-1) != 0
    starts = np.flatnonzero(new)
    # Keys of a cluster in the order of its values, whatever the numbers of their rows.
    key_of = np.repeat(
        np.argsort(np.argsort(order[starts], kind="stable"), kind="stable"), np.diff([*starts, order.size])
    )
    order = order[np.argsort(key_of, kind="stable")]
    starts = np.flatnonzero(np.diff(np.sort(key_of), prepend=-1))
    sizes = np.diff([*starts, order.size])
    rows, values, cluster_of = rows[order], values[order], cluster_of[order][starts]
    lowest, highest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    totals = _sums(values, starts)
    costs = None
    if any(event.costs is not None for event in events):
        # An event from before a budget was set costs nothing.
        event_costs = [np.zeros(event.values.size) if event.costs is None else event.costs for event in events]
        costs = _sums(np.concatenate(event_costs)[order], starts)
    opened_ms = np.array([closing.cluster.events[0].time_ms for closing in closings], dtype=np.int64)
    last_ms = np.array([closing.cluster.events[-1].time_ms for closing in closings], dtype=np.int64)
    parts = np.array([closing.part for closing in closings], dtype=np.intp)[cluster_of]
    return ClosedClusters(
        clusters=cluster_of,
        rows=rows[starts],
        sizes=sizes,
        totals=totals,
        parts=parts,
        times_ms=last_ms[cluster_of],
        values=RuleValues(
            rows=rows[starts],
            values=np.minimum(totals / sizes, 1.0),
            times_ms=opened_ms[cluster_of],
            numbers=np.zeros(starts.size, dtype=np.intp),
            event_of=batch.places[parts],
            source=batch.source,
            hours=np.maximum(batch.newest_ms, batch.times_ms)[parts] // HOUR_MS,
            costs=costs,
            sizes=sizes,
            mean_squares=_sums(values * values, starts) / sizes,
            extremes=ValueExtremes(
                lowest,
                highest,
                _names(ids, event_of[order], values == np.repeat(lowest, sizes), starts),
                _names(ids, event_of[order], values == np.repeat(highest, sizes), starts),
            ),
        ),
        pairs=closed_pairs(closings),
        sampled=_sampled(np.array([event.probability for event in events])[event_of[order]], values, starts),
    )


def _sampled(probability: Floats, values: Floats, starts: Rows) -> SampledClusters | None:
    if not (probability < 1).any():
        return None
    w = 1 / probability
    weights, weighted = np.zeros(starts.size), np.zeros(starts.size)
    cluster_of = np.searchsorted(starts, np.arange(values.size), side="right") - 1
    # Added in order, so that the sums do not depend on how events were cut into batches.
    np.add.at(weights, cluster_of, w)
    np.add.at(weighted, cluster_of, w * values)
    places = np.flatnonzero(np.maximum.reduceat(w, starts) > 1)
    return SampledClusters(places, weights[places], weighted[places])


def _sums(values: Floats, starts: Rows) -> Floats:
    return sums.as_floats(sums.carried(np.add.reduceat(sums.limbs(values), starts, axis=1)))


def _names(ids: Sequence[str], event_of: Rows, extreme: np.ndarray, starts: Rows) -> list[str]:
    places = np.where(extreme, np.arange(extreme.size), extreme.size)
    return [ids[event] for event in event_of[np.minimum.reduceat(places, starts)].tolist()]


def closed_pairs(closings: Sequence[Closing]) -> ClosedPairs | None:
    """Return the pairs of clusters; None without pairs."""
    paired = [
        (number, closing.cluster.code == BY_ITSELF, event)
        for number, closing in enumerate(closings)
        for event in closing.cluster.events
        if event.pairs.size
    ]
    if not paired:
        return None
    numbers, by_itself, events = zip(*paired, strict=True)
    counts = [event.pairs.size for event in events]
    clusters = np.repeat(np.array(numbers, dtype=np.intp), counts)
    parts = np.array([closing.part for closing in closings], dtype=np.intp)
    last_ms = np.array([closing.cluster.events[-1].time_ms for closing in closings], dtype=np.int64)
    return ClosedPairs(
        rows=np.concatenate([event.pairs for event in events]),
        scores=np.concatenate([event.scores for event in events], axis=1),
        clusters=clusters,
        late=np.repeat(np.array([event.late for event in events], dtype=bool), counts),
        by_itself=np.repeat(np.array(by_itself, dtype=bool), counts),
        parts=parts[clusters],
        times_ms=last_ms[clusters],
    )
