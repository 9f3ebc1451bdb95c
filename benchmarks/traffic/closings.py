"""When clusters close: by their size, or when their pipeline has been without them for a quiet time.

Follows the aggregator, for many runs at once: an interaction closes the clusters that are quiet by its time, and then
joins its own. Later answers of a closed cluster begin a new cluster.
"""

from dataclasses import dataclass

import numpy as np

from .stream import Codes, Floats, Traffic


@dataclass(frozen=True)
class Closings:
    """Closed clusters of many runs, those of a run side by side and in the order in which they close."""

    run: Codes
    column: Codes
    """Column of the interaction that closed it."""
    size: Codes
    total: Floats
    """Sum of its values."""
    expected: Floats
    """Sum of the true means of its values."""

    @property
    def mean(self) -> Floats:
        """Mean of the values of each."""
        return np.clip(self.total / self.size, 0.0, 1.0)

    def before(self, columns: int) -> "Closings":
        """Return those that close before a column."""
        kept = self.column < columns
        return Closings(*(getattr(self, name)[kept] for name in ("run", "column", "size", "total", "expected")))


def closings(traffic: Traffic, by: str, *, size: int, quiet_s: float) -> Closings:
    """Return the clusters that close within the traffic.

    Args:
        traffic: shape (runs, n).
        by: `session`, `user`, `batch` or the name of a segment.
        size: most interactions of a cluster.
        quiet_s: quiet time, in seconds of event time.
    """
    # As the aggregator has it, in whole milliseconds.
    newest = np.maximum.accumulate((traffic.time_s * 1_000).astype(np.int64), axis=1)
    codes, n = traffic.clusters(by), traffic.n
    parts = [_run(newest[run], codes[run], size, round(1_000 * quiet_s)) for run in range(traffic.runs)]
    run = np.repeat(np.arange(traffic.runs), [last.size for _, _, last, _ in parts])
    whole: list[Floats] = []
    for values in (traffic.value, traffic.mean):
        found = [np.add.reduceat(values[place][order], starts) if starts.size else np.zeros(0)
                 for place, (order, starts, _, _) in enumerate(parts)]  # fmt: skip
        whole.append(np.concatenate(found))
    sizes = np.concatenate([np.diff(starts, append=order.size) for order, starts, _, _ in parts])
    last = np.concatenate([last for _, _, last, _ in parts])
    column = np.concatenate([column for _, _, _, column in parts])
    closed = np.flatnonzero(column < n)
    # Of those that one interaction closes, the longest quiet comes first, and its own comes last.
    chosen = closed[np.lexsort((last[closed], column[closed], run[closed]))]
    return Closings(run[chosen], column[chosen], sizes[chosen], whole[0][chosen], whole[1][chosen])


def _run(newest: Codes, codes: Codes, size: int, quiet_ms: int) -> tuple[Codes, Codes, Codes, Codes]:
    """Return one run's columns by cluster, where each cluster starts among them, its last column and when it closes."""
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order], prepend=-1) == 0
    seen = newest[order]
    quiet = np.diff(seen, prepend=seen[:1]) >= quiet_ms
    begins = ~same | quiet
    # Within what is not interrupted, every `size` interactions are one cluster.
    stretch = np.flatnonzero(begins)
    place = np.arange(order.size) - np.repeat(stretch, np.diff(stretch, append=order.size))
    starts = np.flatnonzero(begins | (place % size == 0))
    ends = np.append(starts[1:], order.size) - 1
    full = place[ends] % size == size - 1
    last = order[ends]
    expiry = np.searchsorted(newest, newest[last] + quiet_ms, side="left")
    return order, starts, last, np.where(full, last, expiry)
