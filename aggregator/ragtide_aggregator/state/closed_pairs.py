"""Pairs of closed clusters as arrays. No state."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..events.clusters import BY_ITSELF
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
