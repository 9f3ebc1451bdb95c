"""Clusters that are open: interactions of one session or batch that wait for the rest of it. No clock, no I/O.

A cluster is closed by its size, or by quiet time. Quiet time is measured by two clocks, and the first that reaches
`quiet_ms` closes the cluster:

- event time, which goes on with the traffic: the pipeline's newest event time is `quiet_ms` beyond the newest event
  time at the cluster's last interaction;
- the clock of Redis, which goes on without traffic: a tick, an entry of the stream of metric events, says that all that
  came before a time is scored, and this time is `quiet_ms` beyond the arrival of the cluster's last interaction.

Where too many are open, the cluster that is quiet for longest is closed before its time. None of this depends on a
score. The order of the events and ticks alone decides, so a restart or another cut into batches closes the same
clusters at the same events.
"""

import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_runtime.settings.alerting import ClusterSettings

from ..alerts.rule_values import BEGINNINGS
from ..events.batch import BY_ITSELF, EventBatch, Scope
from ..events.keys import EstimateKey, PairKey
from ..statistics.means.dependence import FIRST_BLOCK, LEAST_BLOCKS
from ..statistics.tables.batches import Floats, Rows

CLOSED_KEPT: Final = 256
"""Codes of clusters that closed last, by which the next part of a cluster is recognized."""


SCOPE_VERSION: Final = 1
"""Version of the bytes of a pipeline's clusters."""

FIRST_MEASURED: Final = LEAST_BLOCKS * 256
"""Number of events after which the length of blocks is measured first: 20 blocks of 256."""

_NO_ROWS: Final = np.zeros(0, dtype=np.intp)
_NO_SCORES: Final = np.zeros((3, 0))
_SCOPE: Final = struct.Struct("<BQQQQ")


class ClusterEvent(NamedTuple):
    """The values that one part of an event adds to an open cluster."""

    rows: Rows
    values: Floats
    costs: Floats | None
    """Largest contribution of each value to the expected number of false alarms; None without a budget."""
    time_ms: int
    interaction_id: str
    pairs: Rows = _NO_ROWS
    scores: Floats = _NO_SCORES
    """Reference score, proxy score and probability of each pair, nan for a score that is missing; shape (3, pairs)."""
    late: bool = False
    """Whether the proxy scores of its pairs are not in this cluster."""
    probability: float = 1.0
    """Probability with which its interaction was kept from the traffic."""


@dataclass(slots=True)
class OpenCluster:
    """A cluster whose interactions have not all come."""

    code: int
    number: int
    """Which event of its pipeline and run began it."""
    deadline_ms: int = 0
    """Event time of its pipeline at which it is closed."""
    touched: int = 0
    """Which event of its pipeline and run was its last."""
    interactions: int = 0
    events: list[ClusterEvent] = field(default_factory=list)
    arrived_ms: int = 0
    """Time at which its last interaction came; not before that of a cluster whose last interaction is older."""
    begins_session: bool = False
    """Whether it does not continue a closed cluster."""


class AddedPart(NamedTuple):
    """A part of an event that was added to its cluster."""

    is_first: bool
    """Whether it belongs to the first answer of a session."""
    full: OpenCluster | None
    """The cluster, if it is full and the event has no other part."""
    beginning: tuple[ClusterEvent, ...] = ()
    """The parts of its session so far, of one of the first answers after the first; empty for another part."""


class Closing(NamedTuple):
    """A cluster that is closed, and the part of a batch that closed it."""

    part: int
    cluster: OpenCluster


class TakenParts(NamedTuple):
    """The parts of a batch that count in clusters, and the clusters that they closed."""

    inside: NDArray[np.bool_]
    """Whether each part counts in a cluster."""
    is_first: NDArray[np.bool_]
    """Whether each part belongs to the first answer of a session; an interaction by itself is one."""
    closings: list[Closing]
    beginnings: dict[int, tuple[ClusterEvent, ...]]
    """The parts of the session of a part so far, by part, where it belongs to one of the first answers."""


class ScopeClusters:
    """The clusters of one pipeline and run.

    Attributes:
        open: by code; the cluster whose last interaction is the oldest first.
        closed: codes of the clusters that closed last, the oldest first.
        events: number of events since the first cluster.
        continued: number of clusters whose first interaction was the next one of a closed cluster.
        changed: codes of the clusters that changed since the last commit.
        stored: number of events at the last commit.
        block: length of blocks, if it is measured.
        next_measured: number of events at which it is measured again.
    """

    def __init__(self) -> None:
        self.open: OrderedDict[int, OpenCluster] = OrderedDict()
        self.closed: OrderedDict[int, None] = OrderedDict()
        self.events = 0
        self.continued = 0
        self.changed: set[int] = set()
        self.stored = 0
        self.block = FIRST_BLOCK
        self.next_measured = FIRST_MEASURED

    def expired(self, newest_ms: int, most_open: int) -> list[OpenCluster]:
        """Close and return the clusters that are quiet at a time or too many, the longest quiet first."""
        clusters = []
        while self.open:
            cluster = next(iter(self.open.values()))
            if cluster.deadline_ms > newest_ms and len(self.open) <= most_open:
                break
            clusters.append(self._close(cluster))
        return clusters

    def quiet(self, until_ms: int, quiet_ms: int) -> list[OpenCluster]:
        """Close and return the clusters of which nothing came for a time, the longest quiet first.

        Args:
            until_ms: everything that came before this time was added.
            quiet_ms: the time without an interaction.
        """
        clusters = []
        while self.open and next(iter(self.open.values())).arrived_ms + quiet_ms <= until_ms:
            clusters.append(self._close(next(iter(self.open.values()))))
        return clusters

    def add(
        self,
        code: int,
        event: ClusterEvent,
        newest_ms: int,
        options: ClusterSettings,
        *,
        arrived_ms: int,
        unfinished: bool,
        later: bool,
    ) -> AddedPart:
        """Add a part of an event to its cluster.

        Args:
            event: the part.
            newest_ms: newest event time of the pipeline and run.
            options: when clusters are closed.
            arrived_ms: time at which it came.
            unfinished: whether the event has another part.
            later: whether it holds gold scores that came after their event.
        """
        self.events += 1
        # In the order of the arrivals, also where the clock of Redis has gone back.
        arrived_ms = max([arrived_ms, *(last.arrived_ms for last in islice(reversed(self.open.values()), 1))])
        cluster = self.open.get(code)
        if cluster is None:
            cluster = self.open[code] = OpenCluster(code, self.events)
            cluster.begins_session = code not in self.closed and not later
            if code in self.closed:
                del self.closed[code]
                # Late gold scores do not mean that the cluster was closed too early.
                self.continued += not event.late
        # A judge's scores are another part of the same interaction, and so are gold scores that come later.
        known = [
            earlier
            for earlier in cluster.events[0 if event.late else -1 :]
            if earlier.interaction_id == event.interaction_id
        ]
        if not known:
            cluster.interactions += 1
        elif event.late:
            event = event._replace(late=all(earlier.late for earlier in known))
        cluster.events.append(event)
        cluster.deadline_ms, cluster.touched = newest_ms + options.quiet_ms, self.events
        cluster.arrived_ms = arrived_ms
        self.open.move_to_end(code)
        self.changed.add(code)
        is_first = cluster.begins_session and cluster.interactions == 1 and not later
        full = cluster.interactions >= (options.length or self.block)
        begins = cluster.begins_session and 1 < cluster.interactions <= 2 * BEGINNINGS[-1] and not later
        beginning = tuple(cluster.events) if begins else ()
        return AddedPart(is_first, self._close(cluster) if full and not unfinished else None, beginning)

    @property
    def events_until_measured(self) -> int:
        """Number of events before the length of blocks is measured again."""
        return max(self.next_measured - self.events, 0)

    def set_block(self, length: int) -> None:
        """Set the length of the blocks from now on, and when it is measured again: after half as many events more."""
        self.block = length
        self.next_measured = self.events + max(self.events // 2, 1)

    def put_in_order(self) -> None:
        """Sort the open clusters: the cluster whose last interaction is the oldest first."""
        self.open = OrderedDict(sorted(self.open.items(), key=lambda pair: pair[1].touched))

    def to_bytes(self) -> bytes:
        """Return everything but the open clusters as bytes."""
        head = _SCOPE.pack(SCOPE_VERSION, self.events, self.continued, self.block, self.next_measured)
        return head + np.array(list(self.closed), dtype="<i8").tobytes()

    @classmethod
    def read(cls, data: bytes) -> "ScopeClusters":
        """Return the clusters that `to_bytes` returned, without open ones.

        Raises: ValueError if the bytes were written by another version.
        """
        if data[0] != SCOPE_VERSION:
            raise ValueError(f"clusters have version {data[:1].hex()}")
        clusters = cls()
        _, clusters.events, clusters.continued, clusters.block, clusters.next_measured = _SCOPE.unpack_from(data)
        clusters.stored = clusters.events
        clusters.closed = OrderedDict.fromkeys(np.frombuffer(data, "<i8", -1, _SCOPE.size).tolist())
        return clusters

    def _close(self, cluster: OpenCluster) -> OpenCluster:
        del self.open[cluster.code]
        self.closed[cluster.code] = None
        if len(self.closed) > CLOSED_KEPT:
            self.closed.popitem(last=False)
        self.changed.add(cluster.code)
        return cluster


class OpenClusters:
    """The open clusters of a partition, by pipeline and run.

    Attributes:
        options: which interactions depend on each other.
        scopes: pipelines and runs with clusters.
    """

    def __init__(self, options: ClusterSettings) -> None:
        self.options = options
        self.scopes: dict[Scope, ScopeClusters] = {}

    def quiet(self, until_ms: int) -> "list[QuietScope]":
        """Return the pipelines and runs for which a tick is due, given the time before which everything is scored."""
        before_ms = until_ms - self.options.quiet_ms - LULL_MS
        scopes = []
        for scope, clusters in self.scopes.items():
            first = next(iter(clusters.open.values()), None)
            if first is not None and first.arrived_ms <= before_ms:
                last = next(reversed(clusters.open.values()))
                scopes.append(QuietScope(scope, first.touched, last.arrived_ms))
        return scopes

    def take(self, batch: EventBatch, countable: np.ndarray, costs: Floats | None) -> "TakenParts":
        """Add the values of a batch; return which parts count in clusters, and the clusters that the batch closes.

        Where a pipeline and run has clusters, an interaction by itself is a cluster of one, closed at once.

        Args:
            batch: events.
            countable: which of its values have a range, and therefore an interval.
            costs: of its values; None without a budget.
        """
        inside = np.zeros(batch.places.size, dtype=bool)
        is_first = np.zeros_like(inside)
        closings: list[Closing] = []
        beginnings: dict[int, tuple[ClusterEvent, ...]] = {}
        if batch.clusters is None or batch.scope_of is None:
            return TakenParts(inside, is_first, closings, beginnings)
        scopes = [self.scopes.get(scope) for scope in batch.scopes]
        newest = np.maximum(batch.newest_ms, batch.times_ms).tolist()
        starts, codes = batch.starts.tolist(), batch.clusters.tolist()
        unfinished, is_tick, arrived = batch.unfinished.tolist(), batch.is_tick.tolist(), batch.arrived_ms.tolist()
        pair_starts = batch.pair_starts.tolist() if batch.pairs.size else None
        for part, number in enumerate(batch.scope_of.tolist()):
            scope = scopes[number]
            if scope is None:
                continue
            if is_tick[part]:
                quiet = scope.quiet(arrived[part], self.options.quiet_ms)
                closings += [Closing(part, cluster) for cluster in quiet]
                continue
            closings += [Closing(part, cluster) for cluster in scope.expired(newest[part], self.options.open_cap)]
            inside[part] = True
            mine = slice(starts[part], starts[part + 1])
            counted = countable[mine]
            event = ClusterEvent(
                batch.rows[mine][counted],
                batch.values[mine][counted],
                None if costs is None else costs[mine][counted],
                int(batch.times_ms[part]),
                batch.source.interaction_id(int(batch.places[part])),
            )
            if batch.probability is not None and counted.any():
                event = event._replace(probability=float(batch.probability[mine][counted][0]))
            if pair_starts is not None and pair_starts[part] < pair_starts[part + 1]:
                paired = slice(pair_starts[part], pair_starts[part + 1])
                # A late pair of an interaction by itself has its proxy score with it.
                late = bool(batch.later[part]) and codes[part] != BY_ITSELF
                event = event._replace(pairs=batch.pairs[paired], scores=batch.scores[:, paired], late=late)
            if codes[part] == BY_ITSELF:
                scope.events += 1
                is_first[part] = True
                closings.append(Closing(part, OpenCluster(BY_ITSELF, scope.events, events=[event])))
                continue
            added = scope.add(
                codes[part],
                event,
                newest[part],
                self.options,
                arrived_ms=arrived[part],
                unfinished=unfinished[part],
                later=bool(batch.later[part]),
            )
            is_first[part] = added.is_first
            if added.beginning:
                beginnings[part] = added.beginning
            if added.full is not None:
                closings.append(Closing(part, added.full))
        return TakenParts(inside, is_first, closings, beginnings)


LULL_MS: Final = 1_000
"""Milliseconds beyond the quiet time before a tick is due: the next answer of a busy pipeline closes the cluster
meanwhile, so only pipelines with less than about an answer a second need ticks."""


class QuietScope(NamedTuple):
    """A pipeline and run with a cluster that is to be closed by a tick."""

    scope: Scope
    touched: int
    """Which event of the pipeline and run was the last of the cluster that is quiet for longest."""
    arrived_ms: int
    """Time at which the last interaction of its open clusters came."""


CLUSTER_VERSION: Final = 5
"""Version of the bytes of an open cluster. Version 4 has no time of arrival; its last event time stands for it."""

_CLUSTER: Final = struct.Struct("<BQqQHIq")
_CLUSTER_4: Final = struct.Struct("<BQqQHI")
_EVENT: Final = struct.Struct("<qHIB")
_PAIRS: Final = struct.Struct("<I")
_NAME: Final = 8
"""Bytes of a key's short name."""


_HAS_COSTS, _HAS_PAIRS, _IS_LATE, _IS_SAMPLED, _BEGINS = 1, 2, 4, 8, 16
_PROBABILITY: Final = struct.Struct("<d")


class ShortNames:
    """Short names of the keys of rows, by which an open cluster names them."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.rows: dict[bytes, int] = {}
        """The row of each name."""

    def follow(self, keys: Sequence[EstimateKey] | Sequence[PairKey]) -> None:
        """Name the keys of new rows."""
        for row in range(len(self.names), len(keys)):
            text = keys[row].encode().encode(errors="surrogatepass")
            self.names.append(blake2b(text, digest_size=_NAME).digest())
            self.rows[self.names[row]] = row

    def joined(self, rows: Rows) -> bytes:
        """Return the names of rows, one after the other."""
        return b"".join(self.names[row] for row in rows.tolist())

    def found(self, data: bytes) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of joined names that are known, and which of them are."""
        rows = [self.rows.get(data[at : at + _NAME], -1) for at in range(0, len(data), _NAME)]
        index = np.array(rows, dtype=np.intp)
        return index[index >= 0], index >= 0


def cluster_to_bytes(cluster: OpenCluster, values: ShortNames, pairs: ShortNames) -> bytes:
    """Return an open cluster as bytes, exactly; given the names of the rows of values and of pairs."""
    head = (
        cluster.number, cluster.deadline_ms, cluster.touched, cluster.interactions, len(cluster.events),
        cluster.arrived_ms,
    )  # fmt: skip
    parts = [_CLUSTER.pack(CLUSTER_VERSION, *head)]
    for event in cluster.events:
        name = event.interaction_id.encode(errors="surrogatepass")
        flags = _HAS_COSTS * (event.costs is not None) | _HAS_PAIRS * (event.pairs.size > 0) | _IS_LATE * event.late
        flags |= _IS_SAMPLED * (event.probability < 1) | _BEGINS * (
            cluster.begins_session and event is cluster.events[0]
        )
        parts += [_EVENT.pack(event.time_ms, len(name), event.rows.size, flags), name]
        parts += [values.joined(event.rows), event.values.astype("<f8").tobytes()]
        if event.costs is not None:
            parts.append(event.costs.astype("<f8").tobytes())
        if event.pairs.size:
            parts += [_PAIRS.pack(event.pairs.size), pairs.joined(event.pairs), event.scores.astype("<f8").tobytes()]
        if event.probability < 1:
            parts.append(_PROBABILITY.pack(event.probability))
    return b"".join(parts)


def cluster_from_bytes(code: int, data: bytes, values: ShortNames, pairs: ShortNames) -> OpenCluster:
    """Return the cluster that `cluster_to_bytes` returned.

    Args:
        data: bytes.
        values: names of the rows of values; values of other keys, which a repair dropped, are left out.
        pairs: names of the rows of pairs, likewise.

    Raises: ValueError if the bytes were written by another version.
    """
    if data[0] not in (4, CLUSTER_VERSION):
        raise ValueError(f"an open cluster has version {data[:1].hex()}")
    form = _CLUSTER if data[0] == CLUSTER_VERSION else _CLUSTER_4
    _, number, deadline_ms, touched, interactions, count, *arrived = form.unpack_from(data)
    cluster = OpenCluster(code, number, deadline_ms, touched, interactions, arrived_ms=sum(arrived))
    reader = _ClusterBytes(data, form.size)
    for _ in range(count):
        time_ms, length, size, flags = reader.unpacked(_EVENT)
        name = reader.taken(length).decode(errors="surrogatepass")
        rows, known = values.found(reader.taken(_NAME * size))
        numbers = reader.floats(size)[known]
        costs = reader.floats(size)[known] if flags & _HAS_COSTS else None
        event = ClusterEvent(rows, numbers, costs, time_ms, name)
        if flags & _HAS_PAIRS:
            (size,) = reader.unpacked(_PAIRS)
            rows, known = pairs.found(reader.taken(_NAME * size))
            scores = reader.floats(3 * size).reshape(3, size)[:, known]
            event = event._replace(pairs=rows, scores=scores, late=bool(flags & _IS_LATE))
        if flags & _IS_SAMPLED:
            event = event._replace(probability=float(reader.floats(1)[0]))
        cluster.begins_session |= bool(flags & _BEGINS)
        cluster.events.append(event)
    if reader.at != len(data):
        raise ValueError("an open cluster has more bytes than its events")
    if not arrived:
        cluster.arrived_ms = max((event.time_ms for event in cluster.events), default=0)
    return cluster


class _ClusterBytes:
    """Reads bytes from a place on."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def taken(self, size: int) -> bytes:
        """Return the next bytes."""
        self.at += size
        return self._data[self.at - size : self.at]

    def unpacked(self, form: struct.Struct) -> tuple[int, ...]:
        """Return the next whole numbers."""
        return form.unpack(self.taken(form.size))

    def floats(self, count: int) -> Floats:
        """Return the next floats."""
        return np.frombuffer(self.taken(8 * count), "<f8", count)
