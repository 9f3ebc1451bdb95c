"""Closed clusters as arrays: number, sum and extremes of each key's values in a cluster, and its pairs. No state."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..alerts.rule_values import RuleValues, ValueExtremes
from ..events.batch import BY_ITSELF, EventBatch
from ..statistics.drift.seasons import HOUR_MS
from ..statistics.means.sampling_weights import SamplingWeights
from ..statistics.tables import sums
from ..statistics.tables.batches import Floats, Rows
from .open_clusters import Closing


@dataclass(frozen=True)
class ClosedPairs:
    """Pairs of closed clusters in the order of the clusters, and in a cluster in the order in which they came."""

    rows: Rows
    """Row of each pair; shape (n,)."""
    scores: Floats
    """Reference score, proxy score and probability of each; shape (3, n)."""
    clusters: Rows
    """Number of its cluster, not falling; shape (n,)."""
    late: NDArray[np.bool_]
    """Whether its proxy score is not in its cluster; shape (n,)."""
    by_itself: NDArray[np.bool_]
    """Whether its interaction is a cluster by itself; shape (n,)."""


def closed_pairs(closings: Sequence[Closing]) -> ClosedPairs | None:
    """Return the pairs of clusters; None without pairs."""
    found = [
        (number, one.cluster.code == BY_ITSELF, event)
        for number, one in enumerate(closings)
        for event in one.cluster.events
        if event.pairs.size
    ]
    if not found:
        return None
    numbers, by_itself, events = zip(*found, strict=True)
    counts = [event.pairs.size for event in events]
    return ClosedPairs(
        rows=np.concatenate([event.pairs for event in events]),
        scores=np.concatenate([event.scores for event in events], axis=1),
        clusters=np.repeat(np.array(numbers, dtype=np.intp), counts),
        late=np.repeat(np.array([event.late for event in events], dtype=bool), counts),
        by_itself=np.repeat(np.array(by_itself, dtype=bool), counts),
    )


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


def closed_clusters(batch: EventBatch, closings: Sequence[Closing]) -> ClosedClusters:
    """Return clusters that a batch closed; at least one holds a value."""
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
    of = np.repeat(np.argsort(np.argsort(order[starts], kind="stable"), kind="stable"), np.diff([*starts, order.size]))
    order = order[np.argsort(of, kind="stable")]
    starts = np.flatnonzero(np.diff(np.sort(of), prepend=-1))
    sizes = np.diff([*starts, order.size])
    rows, values, cluster_of = rows[order], values[order], cluster_of[order][starts]
    lowest, highest = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    totals = _sums(values, starts)
    costs = None
    if any(event.costs is not None for event in events):
        # An event from before a budget was set costs nothing.
        each = [np.zeros(event.values.size) if event.costs is None else event.costs for event in events]
        costs = _sums(np.concatenate(each)[order], starts)
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


def add_values(weights: SamplingWeights, batch: EventBatch, rows: Rows, places: Rows | slice | None = None) -> None:
    """Add the sampled values of a batch to rows.

    Args:
        weights: to add to.
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


def _sampled(probability: Floats, values: Floats, starts: Rows) -> SampledClusters | None:
    """Return the stretches of values that have a sampled value; None if there are none."""
    if not (probability < 1).any():
        return None
    w = 1 / probability
    weights, weighted = np.zeros(starts.size), np.zeros(starts.size)
    of = np.searchsorted(starts, np.arange(values.size), side="right") - 1
    # Added in order, so that the sums do not depend on how events were cut into batches.
    np.add.at(weights, of, w)
    np.add.at(weighted, of, w * values)
    places = np.flatnonzero(np.maximum.reduceat(w, starts) > 1)
    return SampledClusters(places, weights[places], weighted[places])


def _sums(values: Floats, starts: Rows) -> Floats:
    return sums.as_floats(sums.carried(np.add.reduceat(sums.limbs(values), starts, axis=1)))


def _names(ids: Sequence[str], event_of: Rows, extreme: np.ndarray, starts: Rows) -> list[str]:
    places = np.where(extreme, np.arange(extreme.size), extreme.size)
    return [ids[event] for event in event_of[np.minimum.reduceat(places, starts)].tolist()]
