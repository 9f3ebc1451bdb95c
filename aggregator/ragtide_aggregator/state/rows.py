"""The keys of a state, one row per key, with counts, times, moments and weights; and what a part of a state does.

A part takes batches that are added, with the clusters that they closed. No clock, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.redis.keys import CheckpointField

from ..alerts.rule_values import Arrived, RuleValues
from ..errors import reading
from ..events.batch import LATEST_MS, EventBatch, Scope, Times
from ..events.keys import UNBOUNDED, EstimateKey
from ..statistics.means.moments import MomentTable
from ..statistics.means.sampling_weights import SamplingWeights
from ..statistics.tables.batches import Floats, Rows
from ..statistics.tables.row_table import ADD, MOST, RowColumn, RowTable


def keys_of(kind: CheckpointField, names: Sequence[str]) -> list[EstimateKey]:
    """Return the keys in the names of fields of a kind: all at once, because a reader may have many.

    Args:
        kind: of the fields.
        names: the rest of each name.

    Raises:
        DamagedFieldError: a key cannot be read.
    """
    try:
        return EstimateKey.decode_all(names)
    except Exception:  # noqa: BLE001 - decoding one by one names the damaged one
        keys = []
        for name in names:
            with reading(kind + name):
                keys.append(EstimateKey.decode(name))
        return keys


@dataclass(frozen=True)
class ClosedPairs:
    """Pairs of closed clusters in the order of the clusters, and in a cluster in the order in which they came."""

    rows: Rows
    """Row of each pair; shape (n,)."""
    scores: Floats
    """Reference score, proxy score and probability of each, nan for a score that is missing; shape (3, n)."""
    clusters: Rows
    """Number of its cluster, not falling; shape (n,)."""
    late: NDArray[np.bool_]
    """Whether its proxy score is not in its cluster; shape (n,)."""
    by_itself: NDArray[np.bool_]
    """Whether its interaction is a cluster by itself; shape (n,)."""
    parts: Rows
    """Part of the batch that closed its cluster; shape (n,)."""
    times_ms: Rows
    """Event time of the cluster's last interaction; shape (n,)."""

    def at_clusters(self, clusters: Rows) -> tuple[Rows, Rows]:
        """Return `parts` and `times_ms` of clusters, given their numbers."""
        places = np.searchsorted(self.clusters, clusters)
        return self.parts[places], self.times_ms[places]


@dataclass(frozen=True)
class SampledClusters:
    """The closed clusters, of each key, that have a value of a sampled interaction; shape (m,)."""

    places: Rows
    """Place of each in `ClosedClusters`."""
    weights: Floats
    """Sum of the inverse probabilities of its values."""
    weighted: Floats
    """Sum of its values, each times the inverse of its probability."""

    def at(self, which: NDArray[np.bool_]) -> "SampledClusters":
        """Return some of them."""
        return SampledClusters(self.places[which], self.weights[which], self.weighted[which])


@dataclass(frozen=True)
class ClosedClusters:
    """Closed clusters in the order in which they closed, one element for each cluster and key; shape (n,)."""

    clusters: Rows
    """Number of the cluster, from 0 in the order in which they closed."""
    rows: Rows
    sizes: Rows
    """Number of values."""
    totals: Floats
    """Sum of the values."""
    parts: Rows
    """Part of the batch that closed the cluster."""
    times_ms: Rows
    """Event time of the cluster's last interaction."""
    values: RuleValues
    """The clusters as alert rules take them."""
    pairs: ClosedPairs | None
    """Their pairs; None without pairs."""
    sampled: SampledClusters | None = None
    """Those with sampled values; None if there are none."""


@dataclass(frozen=True, slots=True)
class AddedBatch:
    """A batch whose values the moments have, for the parts that look at it afterwards."""

    batch: EventBatch
    closed: ClosedClusters | None
    """Clusters that the batch closed."""
    late: NDArray[np.bool_]
    """Whether each part came too late for its pane."""
    before: Floats
    """For each value the mean of its key before it, which predicts the first value of a pane."""
    arrived: Sequence[Arrived]
    """The single values and the closed clusters that alert rules and levels take."""


class StatePart:
    """A part of a state: it follows the rows of the state, takes batches, and owns its fields of the checkpoint.

    A part inherits what it has nothing to do with.
    """

    kinds: ClassVar[tuple[CheckpointField, ...]] = ()
    """Beginnings of the names of its fields, in the order in which they are loaded."""

    def add_key(self, row: int, key: EstimateKey) -> None:
        """Follow a new key, whose row is the next one."""

    def add_keys(self, row: int, keys: Sequence[EstimateKey]) -> None:
        """Follow new keys, whose rows are the next ones, from `row` on."""
        for place, key in enumerate(keys, row):
            self.add_key(place, key)

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Take note that the interactions of a pipeline and run count in clusters: all so far are single ones.

        Args:
            scope: pipeline and run.
            rows: of its keys whose values have a range.
        """

    def take(self, added: AddedBatch) -> None:
        """Add a batch."""

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return fields of the checkpoint to write, and names of fields to remove, since the last call."""
        return {}, []

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set the part to fields of one kind, given without the kind; return the names of those to remove.

        Raises:
            DamagedFieldError: a field cannot be read.
        """
        gone = []
        for name, data in fields:
            with reading(kind + name):
                if not self._load_field(kind, name, data):
                    gone.append(kind + name)
        return gone

    def _load_field(self, kind: CheckpointField, name: str, data: bytes) -> bool:
        raise NotImplementedError

    def complete(self) -> None:
        """Complete the part after all fields are loaded."""

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the name of a field with a number that is not finite, or impossible; None without one.

        Args:
            everything: whether to look at all fields, and not only at those that changed since `take_changes`.
        """
        return None

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the numbers of the same part of another state, to be read.

        Args:
            other: part of the other state.
            rows: for each row of the other state the row of its key here.
        """


def add_values(weights: SamplingWeights, batch: EventBatch, rows: Rows, places: Rows | slice | None = None) -> None:
    """Add the sampled values of a batch to rows.

    Args:
        batch: events.
        rows: row of each value.
        places: of the values that `rows` has, in the batch; all unless given.
    """
    if batch.probability is None:
        return
    probability, values = batch.probability, batch.values
    if places is not None:
        probability, values = probability[places], values[places]
    sampled = np.flatnonzero(probability < 1)
    if sampled.size:
        weights.update(rows[sampled], values[sampled], probability[sampled])


def add_clusters(weights: SamplingWeights, sampled: SampledClusters, closed: ClosedClusters, rows: Rows) -> None:
    """Add some of the closed clusters with a sampled value to rows, given the row of each."""
    if rows.size:
        at = sampled.places
        weights.update_clusters(rows, sampled.weights, sampled.weighted, closed.sizes[at], closed.totals[at])


class KeyRows(RowTable, StatePart, what="counts"):
    """Keys and their rows, with what every key has. A new key gets a row in all parts that follow.

    Attributes:
        keys: key of every row.
        moments: of every row.
        weights: sums over sampled values of the rows that have any.
        changed: rows that changed since the last commit.
        parts: parts that follow the rows.
    """

    kinds = (CheckpointField.ESTIMATE,)

    # Absences, values too late for a window, and values out of order.
    counts = RowColumn(np.int64, (3,), merge=ADD)
    # Time of the newest interaction.
    updated_ms = RowColumn(np.int64, merge=MOST)
    # Population size, 0 if unknown.
    population = RowColumn(np.int64, merge=MOST)
    # One on the scale of values that are counts, 0 for other values.
    count_unit = RowColumn(np.float64, stored=False)
    # Whether values have a range, and so intervals and weights: all but time and cost of labeling.
    in_range = RowColumn(np.bool_, stored=False)

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[EstimateKey] = []
        # Not bounded, because time and cost of labeling have no highest value. Scores are checked before.
        self.moments = MomentTable(bounded=False)
        self.weights = SamplingWeights()
        self.changed: set[int] = set()
        self.parts: Sequence[StatePart] = ()
        self._names: list[str | None] = []
        self._named: dict[str, int] = {}
        self._index: dict[EstimateKey, int] = {}
        self._newest_ms: dict[Scope, int] = {}

    def find(self, key: EstimateKey) -> int | None:
        """Return the row of a key; None for an unknown key."""
        return self._index.get(key)

    def row(self, key: EstimateKey) -> int:
        """Return the row of a key; a new key gets a row."""
        row = self._index.get(key)
        if row is None:
            row = self._index[key] = len(self)
            self._add_keys([key])
        return row

    def name(self, row: int) -> str:
        """Return the key of a row as text, which a commit writes into the names of several fields."""
        name = self._names[row]
        if name is None:
            name = self._names[row] = self.keys[row].encode()
        return name

    def named(self, name: str) -> int:
        """Return the row of a key as text; a new key gets a row."""
        row = self._named.get(name)
        if row is None:
            row = self._named[name] = self.row(EstimateKey.decode(name))
        return row

    def rows_named(self, names: Sequence[str]) -> list[int]:
        """Return the rows of keys as text; new keys get rows: all at once, because a reader may have many.

        Raises:
            DamagedFieldError: a key cannot be read; the field is that of its counts.
        """
        new = [name for name in names if name not in self._named]
        added: list[EstimateKey] = []
        for name, key in zip(new, keys_of(CheckpointField.ESTIMATE, new), strict=True):
            next_row = len(self) + len(added)
            row = self._named[name] = self._index.setdefault(key, next_row)
            if row == next_row:
                added.append(key)
        self._add_keys(added)
        return [self._named[name] for name in names]

    def _add_keys(self, keys: Sequence[EstimateKey]) -> None:
        """Add the rows of keys that the index has already."""
        row = len(self)
        self.add_rows(len(keys))
        self.moments.add_rows(len(keys))
        self.keys += keys
        self._names += [None] * len(keys)
        self.count_unit[row : row + len(keys)] = [key.count_unit for key in keys]
        self.in_range[row : row + len(keys)] = [key.metric not in UNBOUNDED for key in keys]
        for part in self.parts:
            part.add_keys(row, keys)

    def newest_ms(self, pipeline: str, run: str | None) -> int | None:
        """Return the time of the newest interaction of a pipeline and run; None without one."""
        return self._newest_ms.get((pipeline, run))

    def advance(self, pipeline: str, run: str | None, time_ms: int) -> int:
        """Advance the newest time of a pipeline and run; return the newest time before, or the given time at first."""
        newest = self._newest_ms.get((pipeline, run), time_ms)
        self._newest_ms[pipeline, run] = max(newest, time_ms)
        return newest

    def follow(self, pipeline: str, run: str | None, times_ms: Times) -> Times:
        """Call `advance` for several interactions in order, and return its results."""
        newest = np.maximum.accumulate(np.concatenate([[self.advance(pipeline, run, int(times_ms[0]))], times_ms]))
        self.advance(pipeline, run, int(newest[-1]))
        return newest[:-1]

    def has_mixed_weights(self, row: int) -> bool:
        """Return whether the values of a row were kept with different probabilities."""
        weights = self.weights.read(np.array([row], dtype=np.intp))
        return weights is not None and bool(weights.mixed([self.moments.n(row)])[0])

    def take(self, added: AddedBatch) -> None:
        """Add the counts, times and population sizes of a batch, and the closed clusters with sampled values."""
        batch, closed, parts = added.batch, added.closed, added.batch.part_of
        out_of_order = batch.times_ms < batch.newest_ms
        counted = (batch.absent, batch.rows[added.late[parts]], batch.rows[out_of_order[parts]])
        for counts, rows in zip(self.counts, counted, strict=True):
            np.add.at(counts, rows, 1)
        np.maximum.at(self.updated_ms, batch.rows, batch.times_ms[parts])
        np.maximum.at(self.updated_ms, batch.absent, batch.times_ms[batch.absent_of])
        if batch.population.any():
            # Of several sizes for one row, the last counts.
            both = np.concatenate([batch.part_of, batch.absent_of])
            order = np.argsort(both, kind="stable")
            order = order[batch.population[both[order]] > 0]
            self.population[np.concatenate([batch.rows, batch.absent])[order]] = batch.population[both[order]]
        if closed is not None:
            self.changed.update(closed.rows.tolist())
            if closed.sampled is not None:
                add_clusters(self.weights, closed.sampled, closed, closed.rows[closed.sampled.places])
        self.changed.update(batch.grouped.rows.tolist(), batch.absent.tolist())

    def begin_clusters(self, scope: Scope, rows: Sequence[int]) -> None:
        """Count each sampled value of rows as a cluster by itself."""
        self.changed.update(rows)
        for row in rows:
            self.weights.begin_clusters(row)

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a count or a time is impossible; same shape."""
        wrong = (self.counts[:, rows] < 0).any(axis=0) | (self.population[rows] < 0)
        times = self.updated_ms[rows]
        return np.asarray(wrong | (times < 0) | (times > LATEST_MS))

    def damaged_field(self, *, everything: bool) -> str | None:
        """Return the field of a key with an impossible number; None without one."""
        return self.damaged_row(self.kinds[0], (self, self.moments, self.weights), everything=everything)

    def damaged_row(self, kind: CheckpointField, tables: Sequence[RowTable], *, everything: bool) -> str | None:
        """Return the field of a row with an impossible number in tables that have all rows; None without one."""
        rows = np.fromiter(range(len(self)) if everything else self.changed, dtype=np.intp)
        wrong = np.any([table.impossible(rows) for table in tables], axis=0)
        return kind + self.name(int(rows[np.argmax(wrong)])) if wrong.any() else None

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the changed rows; the owner of the state clears `changed` afterwards."""
        rows = np.array(sorted(self.changed), dtype=np.intp)
        numbers = zip(rows.tolist(), self.bytes_of(rows), self.moments.bytes_of(rows), strict=True)
        kind = CheckpointField.ESTIMATE
        return {
            kind + self.name(row): counts + moments + self.weights.to_bytes(row) for row, counts, moments in numbers
        }, []

    def load_fields(self, kind: CheckpointField, fields: Sequence[tuple[str, bytes]]) -> list[str]:
        """Set rows to fields that `take_changes` returned: all at once, because a state may have many."""
        numbers = self.rows_named([name for name, _ in fields])
        rows, end = np.array(numbers, dtype=np.intp), self.SIZE + MomentTable.SIZE
        try:
            self.load_rows(rows, b"".join(data[: self.SIZE] for _, data in fields))
            self.moments.load_rows(rows, b"".join(data[self.SIZE : end] for _, data in fields))
            for row, (_, data) in zip(numbers, fields, strict=True):
                if len(data) > end:  # values of the row were sampled from the traffic
                    self.weights.load(row, data[end:])
        except ValueError:
            # One of them is damaged: the error names it.
            for row, (name, data) in zip(numbers, fields, strict=True):
                with reading(kind + name):
                    self.load_estimate(row, data)
        for row, time_ms in zip(numbers, self.updated_ms[rows].tolist(), strict=True):
            key = self.keys[row]
            self.advance(key.pipeline, key.run, time_ms)
        return []

    def load_estimate(self, row: int, data: bytes) -> None:
        """Set a row to a field that `take_changes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        end = self.SIZE + MomentTable.SIZE
        self.load(row, data[: self.SIZE])
        self.moments.load(row, data[self.SIZE : end])
        self.weights.load(row, data[end:])

    def add_part(self, other: Self, rows: Sequence[int]) -> None:
        """Add the numbers of the rows of another state."""
        self.changed.update(rows)
        for theirs, row in enumerate(rows):
            self.merge(row, other, theirs)
            self.moments.merge(row, other.moments, theirs)
            self.weights.merge(row, other.weights, theirs)
            key = self.keys[row]
            self.advance(key.pipeline, key.run, other.newest_ms(key.pipeline, key.run) or 0)
